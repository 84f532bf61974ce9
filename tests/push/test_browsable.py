"""The bus in the browsable API."""

from __future__ import annotations

from urllib.parse import urlencode

from tests.instances import Instance
from tests.project.signing_in import ask, log_in
from tests.push.bus import Client, new_topic

FORM = urlencode({"type": "create", "url": "https://example.com/1"}).encode()


def test_a_token_sees_pages(root: Client) -> None:
    page = root.call("GET", "/api_tokens", Accept="text/html")
    assert (page.status, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert "seeded--0123456789" in page.text


def test_a_password_that_a_browser_adds_to_a_form_is_not_enough(root: Client, publisher: Client) -> None:
    form = {"Accept": "text/html", "Content-Type": "application/x-www-form-urlencoded"}
    refused = root.call("POST", f"/topics/{new_topic()}", FORM, **form, **{"Sec-Fetch-Mode": "navigate"})
    assert refused.status == 403
    assert "CSRF" in refused.text
    assert publisher.call("POST", f"/topics/{new_topic()}", FORM, **form).status == 415  # an old browser


def test_the_login_of_the_console_is_no_token(bus: Instance) -> None:
    login = log_in(bus, (bus.data / "admin-password").read_text().strip())
    cookie = login.headers["set-cookie"].replace(",", ";")
    page = ask(bus, "GET", "/api_tokens", Accept="text/html", Cookie=cookie)
    assert (page.status, page.headers["www-authenticate"]) == (401, 'Basic realm="topics"')
    assert "seeded--0123456789" not in page.body

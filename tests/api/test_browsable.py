"""The browsable API: its users, its forms, and its look in a browser."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.test import Client

from tests.api.clients import HttpClient
from tests.console.chromium import Chromium, signed_in
from tests.instances import Instance, until
from tests.project.signing_in import ask, log_in

pytestmark = pytest.mark.deep


HTML = {"accept": "text/html"}
FORM = {"content_type": "application/x-www-form-urlencoded", "headers": HTML}
RECORDS = "records=%5B%7B%22data%22%3A1%7D%5D"  # [{"data":1}]
POST_FORM = 'id="post-object-form"'


@pytest.fixture
def person(db: None, keys: Any, django_user_model: type[Any]) -> Callable[..., Client]:
    """`person("view_topic")` is the browser of somebody with these permissions, on a server with a key."""
    keys("other:read+write+delete+admin")

    def log_in(*permissions: str, **more: Any) -> Client:
        user = django_user_model.objects.create_user("somebody", **{"is_staff": True, **more})
        user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
        client = Client(enforce_csrf_checks=True)
        client.force_login(user)
        return client

    return log_in


def token(client: Client, path: str) -> str:
    """Returns the token of a page's forms."""
    return re.findall(r'"csrfToken": "(\w+)"', client.get(path, headers=HTML).content.decode())[0]


READ = ("view_topic", "view_cursor", "view_router")
CHANGE = ("add_topic", "change_topic", "change_cursor", "add_router", "change_router")


def test_an_operator_sees_pages_without_a_key(person: Callable[..., Client]) -> None:
    page = person(*READ).get("/v0/topics", headers=HTML)
    assert (page.status_code, page["content-type"]) == (200, "text/html; charset=utf-8")


def test_a_form_needs_the_token_of_its_page(person: Callable[..., Client], name: str) -> None:
    client, path = person(*READ, "append_record"), f"/v0/topics/{name}"
    given = token(client, path)
    refused = client.post(path, RECORDS, **FORM)
    assert refused.status_code == 403
    assert "CSRF" in refused.content.decode()
    assert client.post(path, f"{RECORDS}&csrfmiddlewaretoken={given}", **FORM).status_code == 201
    for method in (client.put, client.delete):  # a script's request, with any type
        assert method(path, "{}", content_type="application/json", headers=HTML).status_code == 403


def test_an_operator_may_what_the_console_allows(person: Callable[..., Client], name: str) -> None:
    client, path = person(*READ), f"/v0/topics/{name}"
    page = client.get(path, headers=HTML).content.decode()
    assert POST_FORM not in page
    assert "DELETE request" not in page
    given = token(client, path)
    refused = client.post(path, f"{RECORDS}&csrfmiddlewaretoken={given}", **FORM)
    assert refused.status_code == 403
    assert "lacks the scope &#x27;write&#x27;" in refused.content.decode()


@pytest.mark.parametrize("more", [{"is_staff": False}, {"is_active": False}])
def test_other_users_see_nothing(person: Callable[..., Client], more: dict[str, bool]) -> None:
    page = person(*READ, "append_record", **more).get("/v0/topics/t", headers=HTML)
    assert page.status_code == 401
    assert POST_FORM not in page.content.decode()


def test_a_stranger_is_sent_to_the_login(person: Callable[..., Client]) -> None:
    for path in ("/v0/topics/t", "/v0/nothing"):
        page = Client().get(f"{path}?a=b", headers=HTML)
        assert page.status_code == 401
        text = page.content.decode()
        assert f"/admin/login/?next={path}%3Fa%3Db" in text
        assert POST_FORM not in text
        assert "Append records" not in text


def test_a_key_counts_more_than_a_session(person: Callable[..., Client]) -> None:
    client = person(*READ)
    assert client.get("/v0/topics", headers={**HTML, "authorization": "Bearer wrong"}).status_code == 401


def test_another_site_cannot_use_an_open_server(live: HttpClient, name: str) -> None:
    form = {"content_type": "application/x-www-form-urlencoded", "accept": "text/html"}
    assert live.post(f"/v0/topics/{name}", RECORDS.encode(), sec_fetch_mode="navigate", **form).status == 403
    assert live.post(f"/v0/topics/{name}", RECORDS.encode(), **form).status == 415  # an old browser
    assert live.get(f"/v0/topics/{name}").status == 404


def test_the_forms_of_a_page_are_a_browsers_by_their_cookies(server: Instance, name: str) -> None:
    """Without TLS a browser says nothing of itself, and the page's script says only that it is one."""
    login = log_in(server, (server.data / "admin-password").read_text().strip())
    path, session = f"/v0/topics/{name}", login.headers["set-cookie"].partition(";")[0]
    first = ask(server, "GET", path, Accept="text/html", Cookie=session)
    given = re.findall(r'"csrfToken": "(\w+)"', first.body)[0]
    cookie = f"{session}; {first.headers['set-cookie'].partition(';')[0]}"
    form = {"Accept": "text/html; q=1.0, */*", "Content_Type": FORM["content_type"], "Cookie": cookie}
    appended = ask(server, "POST", path, f"{RECORDS}&csrfmiddlewaretoken={given}", **form)
    changed = ask(server, "PUT", path, "ttl_ms=5", X_CSRFToken=given, Sec_Fetch_Mode="cors", **form)
    for page, status in ((appended, 201), (changed, 200)):
        assert (page.status, page.headers["content-type"]) == (status, "text/html; charset=utf-8")


def test_markup_in_a_record_is_text(live: HttpClient, name: str) -> None:
    live.append(name, "<script>alert(1)</script>")
    page = live.get(f"/v0/topics/{name}/records", accept="text/html").body.decode()
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page


def test_only_forms_that_change_no_config_and_delete_nothing_start_filled(person: Callable[..., Client]) -> None:
    client = person(*READ, *CHANGE, "append_record", "delete_topic", "delete_cursor", "delete_router")
    page = client.get("/v0/topics/t", headers=HTML).content.decode()
    assert "order:7" in page
    assert "1000000" not in page
    assert "order:8" not in client.get("/v0/topics/t/delete", headers=HTML).content.decode()


def test_a_change_is_in_the_audit_log_under_the_operators_name(person: Callable[..., Client], name: str) -> None:
    from topics.models import AuditEntry

    client, path = person(*READ, *CHANGE), f"/v0/topics/{name}"
    sent = {**HTML, "x-csrftoken": token(client, path)}
    assert client.put(path, "ttl_ms=5", content_type=FORM["content_type"], headers=sent).status_code == 201
    entry = AuditEntry.objects.get(name=name)
    assert (entry.actor_name, entry.actor.partition(":")[0]) == ("somebody", "user")


@pytest.fixture(scope="module")
def window(server: Instance) -> Iterator[Chromium]:
    with signed_in(server) as found:
        yield found


@pytest.mark.browser
def test_forms_in_a_browser(window: Chromium, live: HttpClient, name: str) -> None:
    path, answer = f"/v0/topics/{name}", ".response-info"
    window.visit(path)
    window.shows("topic_not_found", answer)
    window.complaints()  # the 404
    window.find("#post-object-form button").click()
    window.shows('"first_seq": 1', answer)
    window.run("document.querySelector('#put-object-form [name=ttl_ms]').value = 86400000")
    window.find("#put-object-form button").click()
    window.shows('"ttl_ms": 86400000', answer)
    assert live.get(path).json["config"]["ttl_ms"] == 86_400_000
    assert [line for line in window.complaints() if "favicon" not in line] == []
    window.find("#post-object-form [name=records]").clear()
    window.find("#post-object-form [name=records]").send_keys("[1.50, oops]")
    window.find("#post-object-form button").click()
    window.shows("invalid_request", answer)
    window.shows("invalid JSON", "#post-object-form")
    assert window.run("return document.querySelector('#post-object-form [name=records]').value") == "[1.50, oops]"
    window.find("button[data-target='#deleteModal']").click()
    until(lambda: window.find("#deleteModal .btn-danger").is_displayed(), "the question")
    window.find("#deleteModal .btn-danger").click()
    window.shows('"deleted": true', answer)
    assert live.get(path).status == 404


@pytest.mark.browser
def test_pages_need_nothing_from_elsewhere(window: Chromium, name: str) -> None:
    window.visit("/v0/topics")
    loaded = window.run("return performance.getEntriesByType('resource').map((each) => each.name)")
    assert any("bootstrap" in each for each in loaded)
    assert all(each.startswith(window.url) for each in loaded)
    assert not [line for line in window.complaints() if "Content Security Policy" in line]

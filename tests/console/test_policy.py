"""Every page has a Content-Security-Policy without exceptions, and works under it in a real browser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from django.urls import resolve

from tests.console.chromium import Chromium
from tests.instances import Instance
from tests.project.signing_in import ask, log_in
from tests.watch.wire import Api

pytestmark = pytest.mark.deep(51)


MOST_PAGES = 120
PAGES = ("/admin/login/", "/docs/", "/v0/docs", "/admin/nowhere/", "/nowhere")


def fill(server: Instance) -> None:
    """Something to see on every list: topics, records, a router."""
    api = Api(server.port)
    for topic in ("policy-a", "policy-b"):
        api.done("PUT", f"/v0/topics/{topic}", {"cap_records": 5})
    api.done("POST", "/v0/topics/policy-a", {"records": [{"data": {"n": n}, "tag": "<b>"} for n in range(20)]})
    api.done("PUT", "/v0/routers/policy", {"source": "policy-a", "dest": "policy-b"})


def directives(policy: str) -> dict[str, str]:
    return {name: value for name, _, value in (part.strip().partition(" ") for part in policy.split(";"))}


def test_every_page_has_the_policy(server: Instance) -> None:
    login = log_in(server, (server.data / "admin-password").read_text().strip())
    cookie = re.findall(r"sessionid=[^;,]+", login.headers["set-cookie"])[0]
    for path in (*PAGES, "/admin/", "/admin/graph/", "/admin/topics/topic/"):
        page = ask(server, "GET", path, Cookie=cookie, Accept="text/html")
        if page.headers["content-type"].startswith("text/html"):
            policy = directives(page.headers["content-security-policy"])
            assert policy["default-src"] == "'none'", path
            assert policy["script-src"] == policy["style-src"] == policy["form-action"] == "'self'", path
            assert policy["frame-ancestors"] == policy["base-uri"] == "'none'", path
            assert "unsafe" not in page.headers["content-security-policy"], path
        else:
            assert path.startswith("/nowhere")
    assert "content-security-policy" not in ask(server, "GET", "/v0/health").headers


def links(chromium: Chromium) -> Iterator[str]:
    for link in chromium.run(
        "return [...document.querySelectorAll('a[href]')].map((each) => new URL(each.getAttribute('href'), location).href)"
    ):
        found = urlsplit(link)
        is_page = found.path.startswith("/admin/") and "logout" not in found.path and "download" not in found.path
        if link.startswith(chromium.url) and is_page:
            yield found.path + (f"?{found.query}" if found.query else "")


def kind(path: str) -> str:
    """Pages of one route are of one kind, whatever stands in it."""
    return str(resolve(path.partition("?")[0]).route)


@pytest.mark.browser
def test_every_page_works_under_the_policy(chromium: Chromium, server: Instance) -> None:
    fill(server)
    chromium.visit("/admin/")
    chromium.complaints()
    waiting, seen = ["/admin/", "/admin/topic/policy-a/records/", "/admin/router/policy/", "/v0/docs"], set[str]()
    found: dict[str, list[str]] = {}
    while waiting and len(seen) < MOST_PAGES:
        path = waiting.pop(0)
        if kind(path) in seen:
            continue
        seen.add(kind(path))
        chromium.visit(path)
        waiting += links(chromium)
        if refused := [line for line in chromium.complaints() if "Content Security Policy" in line]:
            found[path] = refused
    assert found == {}
    assert len(seen) > 40
    assert not waiting or len(seen) < MOST_PAGES, "the crawl did not come to an end"


@pytest.mark.browser
def test_markup_that_was_not_escaped_would_run_nothing(chromium: Chromium, server: Instance) -> None:
    chromium.visit("/admin/")
    chromium.complaints()
    chromium.run(
        "document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"window.ran = 1\"><p id=red style=\"color: red\">')"
    )
    chromium.run(
        "const made = document.createElement('script'); made.text = 'window.ran = 2'; document.body.append(made)"
    )
    assert chromium.run("return window.ran ?? null") is None
    assert chromium.run("return getComputedStyle(document.querySelector('#red')).color") != "rgb(255, 0, 0)"
    assert any("Content Security Policy" in line for line in chromium.complaints())

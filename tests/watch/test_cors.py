"""Pages of other origins (CORS_ALLOWED_ORIGINS): allowed calls and origins, also in a browser."""

from __future__ import annotations

import contextlib
import http.client
import json
from collections.abc import Callable, Iterator

import pytest

from tests.deadlines import DEADLINE
from tests.instances import Instance, start, until
from tests.watch.blank import blank_pages
from tests.watch.browser import open_browser

pytestmark = pytest.mark.deep


KEY = "a-secret-of-16-or-more"
APP = "https://app.example"
PREFLIGHT = {"Access-Control-Request-Method": "PUT", "Access-Control-Request-Headers": "authorization,content-type"}


@pytest.fixture(scope="module")
def page() -> Iterator[int]:
    """The port of another web server."""
    with blank_pages() as port:
        yield port


@pytest.fixture(scope="module")
def instance(page: int) -> Iterator[Instance]:
    origins = f"{APP},http://127.0.0.1:{page}"
    with start(CORS_ALLOWED_ORIGINS=origins, TOPICS_API_KEYS=f"{KEY}:read+write") as instance:
        yield instance


def ask(instance: Instance, method: str, path: str, **headers: str) -> http.client.HTTPResponse:
    """The head of an answer; of a stream, what has come."""
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", instance.port, timeout=DEADLINE)) as client:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        client.request(method, path, headers={"Content-Type": "application/json", **named})
        return client.getresponse()


def test_a_preflight_says_what_a_page_may_do(instance: Instance) -> None:
    asked = {name.replace("-", "_"): value for name, value in PREFLIGHT.items()}
    answer = ask(instance, "OPTIONS", "/v0/topics/orders", Origin=APP, **asked)
    assert answer.status == 204
    assert answer.headers["access-control-allow-origin"] == APP
    assert answer.headers["access-control-allow-methods"] == "GET, HEAD, POST, PUT, DELETE"
    assert {"authorization", "content-type", "idempotency-key"} <= set(
        answer.headers["access-control-allow-headers"].split(", ")
    )
    assert answer.headers["vary"] == "origin"
    assert "access-control-allow-credentials" not in answer.headers


def test_a_page_may_send_a_cloudevent_in_the_binary_mode(instance: Instance) -> None:
    wanted = "authorization,ce-id,Ce-Source,ce-mine,ce-, ce-specversion,x-other,ce-a\tb"
    asked = {"Access_Control_Request_Method": "POST", "Access_Control_Request_Headers": wanted}
    answer = ask(instance, "OPTIONS", "/v0/topics/orders", Origin=APP, **asked)
    told = answer.headers["access-control-allow-headers"].split(", ")
    more = [name for name in told if name.lower().startswith(("ce-", "x-o"))]
    assert more == ["ce-id", "Ce-Source", "ce-mine", "ce-specversion"]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v0/health", 200),
        ("GET", "/v0/topics", 401),
        ("GET", "/v0/nothing", 401),
        ("GET", "/v0/watch/wid_x", 401),
        ("GET", f"/v0/watch/wid_x?token={KEY}", 404),
        ("GET", f"/v0/topics/orders/events?token={KEY}", 404),
        ("OPTIONS", f"/v0/topics?token={KEY}", 401),  # no preflight: it asks for nothing
    ],
)
def test_every_answer_of_the_api_says_who_may_read_it(instance: Instance, method: str, path: str, status: int) -> None:
    answer = ask(instance, method, path, Origin=APP)
    assert (answer.status, answer.headers["access-control-allow-origin"]) == (status, APP)
    assert "origin" in answer.headers["vary"]
    for other in ({}, {"Origin": "https://app.example.evil"}, {"Origin": "null"}):
        refused = ask(instance, method, path, **other)
        assert (refused.status, refused.headers["access-control-allow-origin"]) == (status, None)
        assert "origin" in refused.headers["vary"]


@pytest.mark.parametrize("path", ["/admin/", "/admin/login/", "/pulse", "/static/admin/css/base.css"])
def test_nothing_but_the_api_is_for_other_origins(instance: Instance, path: str) -> None:
    for method, more in (("GET", {}), ("OPTIONS", {"Access_Control_Request_Method": "GET"})):
        answer = ask(instance, method, path, Origin=APP, **more)
        assert "access-control-allow-origin" not in answer.headers


def test_it_is_off_unless_origins_are_named(server: Instance) -> None:
    answer = ask(server, "GET", "/v0/health", Origin=APP)
    assert "access-control-allow-origin" not in answer.headers
    assert "origin" not in answer.headers.get("vary", "")
    preflight = ask(server, "OPTIONS", "/v0/topics", Origin=APP, Access_Control_Request_Method="GET")
    assert "access-control-allow-origin" not in preflight.headers


CALLS = """
window.shown = []; window.ended = "";
const base = %(base)s, key = %(key)s;
const call = async (method, path, body) => {
  const headers = { "Content-Type": "application/json", Authorization: `Bearer ${key}`, "Idempotency-Key": JSON.stringify(body) };
  return (await fetch(base + path, { method, headers, body: JSON.stringify(body) })).json();
};
(async () => {
  await call("PUT", "/v0/topics/far", {});
  await call("POST", "/v0/topics/far", { records: [{ data: "called" }] });
  const { stream_url } = await call("POST", "/v0/watch", { topics: { far: { from_seq: 0 } } });
  new EventSource(`${base}${stream_url}?token=${key}`).addEventListener("record", ({ data }) => {
    for (const { data: value } of JSON.parse(data).records) shown.push(["watch", value]);
  });
  const events = new EventSource(`${base}/v0/topics/far/events?token=${key}`);
  events.addEventListener("stream-open", () => call("POST", "/v0/topics/far", { records: [{ data: "heard" }] }));
  events.onmessage = ({ data }) => shown.push(["events", JSON.parse(data).data]);
})().catch((error) => { window.ended = `${error}`; });
0
"""


@pytest.mark.browser
def test_a_page_elsewhere_calls_and_follows_in_a_browser(
    instance: Instance, page: int, instances: Callable[..., Instance]
) -> None:
    script = CALLS % {"base": json.dumps(instance.url), "key": json.dumps(KEY)}
    with open_browser() as browser:
        browser.visit(f"http://127.0.0.1:{page}/")
        until(lambda: browser.run("document.title") == "blank", "the page of the other server")
        browser.run(script)
        until(lambda: browser.run("window.ended") or len(browser.run("window.shown")) >= 3, "both streams")
        assert browser.run("window.ended") == ""
        assert sorted(browser.run("window.shown")) == [["events", "heard"], ["watch", "called"], ["watch", "heard"]]
        # The same page under a name that is not allowed: to a browser another origin, and nothing is let through.
        browser.visit(f"http://localhost:{page}/")
        until(lambda: browser.run("location.hostname + document.title") == "localhostblank", "the page of nobody")
        browser.run(script)
        assert "Failed to fetch" in until(lambda: browser.run("window.ended"), "the browser to refuse")

"""Every endpoint through both lanes: the event loop, which serves clients, and the DRF view, which serves the browsable API."""

from __future__ import annotations

import html
import json
import re
import uuid
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.api.clients import ApiClient, HttpClient, Reply
from tests.api.endpoints import LACKING, SCOPES, TABLE, Endpoint, filled
from tests.groups.member import session_of
from tests.instances import Instance, start
from topics_project.urls import ROUTES

pytestmark = pytest.mark.deep(44)


KEYS = f"all:{'+'.join(SCOPES)}," + ",".join(
    f"no-{scope}:{LACKING[scope]},in-{scope}:{scope}:elsewhere" for scope in SCOPES
)
ENDPOINTS = {
    **{endpoint: call.body for endpoint, call in TABLE.items()},
    ("GET", "health"): None,
    ("GET", "ready"): None,
}
EACH = pytest.mark.parametrize("endpoint", sorted(ENDPOINTS), ids=" ".join)
HEADERS = ("www-authenticate", "retry-after", "topics-sealed")
# Values that differ from call to call. The priority of a topic falls when nobody has used it for a while.
TIMES = re.compile(r".*_ts|\$ts|.*_ms|effective_priority|wid|secret|stream_url|session")
ANSWER = re.compile(r"\n\n</span>(.*?)</pre>", re.DOTALL)


class Browser(HttpClient):
    """A person's browser. A reply is the answer that the page shows."""

    def send(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> Reply:
        browser = {"accept": "text/html,*/*;q=0.8", "sec-fetch-mode": "navigate"}
        page = super().send(method, path, body, {**browser, **headers})
        assert page.headers["content-type"] == "text/html; charset=utf-8", page
        (shown,) = ANSWER.findall(page.body.decode())
        return Reply(page.status, page.headers, html.unescape(re.sub(r"<[^>]+>", "", shown)).encode())


@pytest.fixture(scope="module")
def keyed() -> Iterator[Instance]:
    with start(TOPICS_API_KEYS=KEYS, TOPICS_PROCESSES="worker,beat") as instance:
        yield instance


SESSIONS: dict[str, int] = {}  # of the members of groups, by the name that make() returned


def make(instance: Instance) -> str:
    """Returns the name of a topic, of a cursor, of a group and the beginning of a router's name, new for each lane."""
    name, lane, key = f"t-{uuid.uuid4().hex[:12]}", HttpClient(instance.port), {"authorization": "Bearer all"}
    assert lane.post(f"/v0/topics/{name}", {"records": [{"data": 1}, {"data": 2}]}, **key).status == 201
    assert lane.put(f"/v0/topics/{name}/cursors/{name}", {"seq": 1}, **key).status == 201
    assert lane.put(f"/v0/topics/{name}-q", {"type": "queue"}, **key).status == 201
    assert lane.put(f"/v0/topics/{name}-s", {"sealed": True}, **key).status == 201
    assert lane.put(f"/v0/topics/{name}-q/schedules/{name}-q", {"not_before": 2**42, "data": 1}, **key).status == 201
    assert lane.put(f"/v0/routers/{name}-r", {"source": name, "dest": f"{name}-d"}, **key).status == 201
    webhook = {"url": "https://example.com/", "topics": [name]}
    assert lane.put(f"/v0/webhooks/{name}", webhook, **key).status == 201
    SESSIONS[name] = session_of(instance.port, name, name, "all")
    return name


def path_of(endpoint: Endpoint, name: str, more: str = "") -> str:
    path = endpoint[1].replace("<seq>", "1").replace("<router>", f"{name}-r").replace("<kind>", "keys")
    query = (TABLE[endpoint].query if endpoint in TABLE else "") or (
        f"?prefix={name}" if path in ("topics", "routers", "webhooks") else ""
    )
    if endpoint in TABLE:
        name = TABLE[endpoint].topic(name)
    return f"/v0/{re.sub(r'<[a-z]+>', name, path)}{query}{more and ('&' if query else '?') + more}"


def calls(endpoint: Endpoint, name: str) -> Iterator[dict[str, Any]]:
    """A call that is right, and calls that are wrong, each in one way."""
    method, path, key = endpoint[0], path_of(endpoint, name), {"authorization": "Bearer all"}
    body = filled(ENDPOINTS[endpoint], topic=name, session=SESSIONS[name])
    scopes = TABLE[endpoint].scopes if endpoint in TABLE else ()
    yield {"path": path, "body": body}
    yield {"path": path, "body": body, "authorization": "Bearer wrong"}
    for scope in scopes:
        yield {"path": path, "body": body, "authorization": f"Bearer no-{scope}"}
        yield {"path": path, "body": body, "authorization": f"Bearer in-{scope}"}
    yield {"path": path_of(endpoint, name, "nonsense=1"), "body": body, **key}
    yield {"path": path_of(endpoint, f"{name}-absent"), "body": body, **key}
    yield {"path": path_of(endpoint, "-bad-name-"), "body": body, **key}
    yield {"path": path, "body": body, "method": "PATCH", **key}
    if method in ("POST", "PUT"):
        for wrong in (b"{", b"[]", b'{"nonsense": 1}', b"\xff"):
            yield {"path": path, "body": wrong, **key}
        yield {"path": path, "body": body, "content_type": "text/plain", **key}
    yield {"path": path, "body": body, **key}


def ask(live: ApiClient, endpoint: Endpoint, name: str) -> list[Any]:
    """Returns what is alike in the answers of both lanes to each call."""
    return [
        normal(live.call(each.pop("method", endpoint[0]), each.pop("path"), each.pop("body"), **each), name)
        for each in calls(endpoint, name)
    ]


def normal(reply: Reply, name: str) -> Any:
    headers = {header: reply.headers.get(header) for header in HEADERS}
    if reply.status == 405:
        headers["allow"] = reply.headers["allow"]
    text = reply.body.decode().replace(name, "NAME")
    if text.startswith("#"):  # the metrics, whose numbers differ
        return reply.status, headers, sorted(set(re.findall(r"# TYPE (topics_\w+)", text)))
    return reply.status, headers, same(json.loads(text))


def same(value: Any) -> Any:
    match value:
        case dict():
            return {
                name: None if TIMES.fullmatch(name) else same(each)
                for name, each in value.items()
                if name != "performance"
            }
        case list():
            return [same(each) for each in value]
    return value


def test_every_endpoint_is_here() -> None:
    found = {(method, path.removeprefix("v0/").replace("<str:", "<")) for path, each in ROUTES for method in each}
    assert {(method, path) for method, path in ENDPOINTS} == {
        each for each in found if any(f"v0/{each[1]}".replace("<", "<str:") == path for path, _ in ROUTES)
    }


@EACH
def test_both_lanes_answer_the_same(keyed: Instance, endpoint: Endpoint) -> None:
    first, second = make(keyed), make(keyed)
    assert ask(HttpClient(keyed.port), endpoint, first) == ask(Browser(keyed.port), endpoint, second)


@pytest.mark.parametrize("endpoint", sorted(each for each in TABLE if each[0] in ("POST", "PUT")), ids=" ".join)
def test_a_form_is_the_body_that_it_says(keyed: Instance, endpoint: Endpoint) -> None:
    first, second = make(keyed), make(keyed)
    key, replies = {"authorization": "Bearer all"}, []
    for live, name in ((HttpClient(keyed.port), first), (Browser(keyed.port), second)):
        body = filled(TABLE[endpoint].body, topic=name, session=SESSIONS[name])
        form = {field: each if isinstance(each, str) else json.dumps(each) for field, each in body.items()}
        sent = {} if isinstance(live, Browser) is False else {"content_type": "application/x-www-form-urlencoded"}
        given = urlencode(form).encode() if sent else body
        replies.append(normal(live.call(endpoint[0], path_of(endpoint, name), given, **sent, **key), name))
    assert replies[0] == replies[1]
    assert replies[0][0] in (200, 201)


@EACH
def test_head_and_options_are_answered_to_every_client(keyed: Instance, endpoint: Endpoint) -> None:
    name, key = make(keyed), {"authorization": "Bearer all"}
    path = path_of(endpoint, name)
    options = HttpClient(keyed.port).call("OPTIONS", path, **key)
    assert (options.status, options.body) == (204, b"")
    assert endpoint[0] in options.headers["allow"].split(", ")
    head = HttpClient(keyed.port).call("HEAD", path, **key)
    assert (head.status, head.body) == (200 if "GET" in options.headers["allow"] else 405, b"")


JSON, HTML, NONE = "application/json", "text/html; charset=utf-8", 406
ACCEPT: dict[str, str | int] = {
    "": JSON,
    "*/*": JSON,
    "application/json": JSON,
    "application/*": JSON,
    "APPLICATION/JSON; charset=utf-8": JSON,
    "application/json, text/plain, */*": JSON,  # axios
    "*/*; q=0.01, application/json": JSON,
    "application/json, text/html": JSON,
    "text/html;q=0.5, application/json;q=0.6": JSON,
    "text/html;q=0, */*": JSON,
    "text/html,application/xhtml+xml,application/xml;q=0.9,image/webp,*/*;q=0.8": HTML,  # a browser
    "text/html; q=1.0, */*": HTML,  # a form of the browsable API
    "application/json;q=0.5, text/html": HTML,
    "text/html": HTML,
    "text/*": HTML,
    "application/json;q=0": NONE,
    "application/json;q=0, text/html;q=0.0": NONE,
    "application/xml": NONE,
    "image/*": NONE,
    "nonsense": NONE,
    f"application/xml, {'x' * 3000}": NONE,
}


@pytest.mark.parametrize("accept", ACCEPT)
def test_the_header_accept_chooses_the_lane(live: ApiClient, name: str, accept: str) -> None:
    wanted = ACCEPT[accept]
    for path in ("/v0/topics", "/v0/health", "/readyz"):
        reply = live.get(path, accept=accept)
        if wanted == NONE:
            assert (reply.status, reply.code) == (406, "not_acceptable")
        else:
            assert (reply.status, reply.headers["content-type"]) == (200, wanted)
    missing = live.get(f"/v0/nothing/{name}", accept=accept)
    assert (missing.status, missing.headers["content-type"]) == (404, HTML if wanted == HTML else JSON)


JAVA = "text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2"  # of HttpURLConnection up to Java 19
PROGRAMS = (JAVA, "text/html, image/gif, image/jpeg, */*; q=0.2", "text/html")
CALLS: tuple[tuple[str, str, Any, int], ...] = (
    ("POST", "/v0/topics/NAME", {"records": [{"data": 1}]}, 201),
    ("PUT", "/v0/topics/NAME", {"ttl_ms": 1000}, 200),
    ("DELETE", "/v0/topics/NAME", None, 200),
    ("DELETE", "/v0/nothing", None, 404),
)


@pytest.mark.parametrize("accept", PROGRAMS)
def test_a_program_that_prefers_html_writes_and_gets_json(live: ApiClient, name: str, accept: str) -> None:
    for method, path, body, status in CALLS:
        reply = live.call(method, path.replace("NAME", name), body, accept=accept)
        assert (reply.status, reply.headers["content-type"]) == (status, JSON), reply


@pytest.mark.parametrize("path", ["/v0/topics", "/v0/nothing"])
@pytest.mark.parametrize(
    "headers",
    [
        {"accept": JAVA},
        {"accept": PROGRAMS[1]},
        {"accept": "text/html", "authorization": "Bearer k"},
        {"accept": "text/html", "sec_fetch_mode": "cors"},
    ],
)
def test_a_program_that_prefers_html_reads_json(live: ApiClient, path: str, headers: dict[str, str]) -> None:
    assert live.get(path, **headers).headers["content-type"] == JSON


@pytest.mark.parametrize("path", ["/v0/topics", "/v0/nothing"])
@pytest.mark.parametrize(
    "headers",
    [
        {"sec_fetch_mode": "navigate"},
        {"sec_fetch_mode": "navigate", "authorization": "Bearer k"},
        {"sec_fetch_mode": "cors", "cookie": "sessionid=x"},  # a script of the page
        {"cookie": "a=b; csrftoken=x"},
        {},
        {"authorization": "Basic eDp5"},
    ],
)
def test_a_browser_gets_a_page(live: ApiClient, path: str, headers: dict[str, str]) -> None:
    assert live.get(path, accept="text/html,*/*;q=0.8", **headers).headers["content-type"] == HTML


@pytest.mark.parametrize("headers", [{"sec_fetch_mode": "navigate"}, {"cookie": "sessionid=x"}])
def test_a_form_of_a_browser_gets_a_page(live: ApiClient, name: str, headers: dict[str, str]) -> None:
    sent = {"accept": "text/html,*/*;q=0.8", "content_type": "application/x-www-form-urlencoded", **headers}
    refused = live.post(f"/v0/topics/{name}", b"records=[]", **sent)
    assert (refused.status, refused.headers["content-type"]) == (403, HTML)


@pytest.mark.parametrize("path", ["//v0/topics/a", "/V0/topics/a", "/v1/topics/a"])
@pytest.mark.parametrize("accept", [JSON, "*/*", JAVA, "image/*"])
@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE"])
def test_a_misspelt_path_is_404_in_json_and_names_the_right_one(
    live: ApiClient, path: str, accept: str, method: str
) -> None:
    missing = live.call(method, path, {} if method in ("POST", "PUT") else None, accept=accept)
    assert (missing.status, missing.code, missing.detail["path"]) == (404, "not_found", "/v0/topics/a")
    assert "/v0/topics/a" in missing.json["error"]["message"]


def test_a_browser_at_a_misspelt_path_gets_a_page(live: ApiClient) -> None:
    missing = live.get("/v1/topics/a", accept="text/html,*/*;q=0.8", sec_fetch_mode="navigate")
    assert (missing.status, missing.headers["content-type"]) == (404, HTML)

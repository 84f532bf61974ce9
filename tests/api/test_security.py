"""Nobody does what his key does not allow: every endpoint without a key, with a wrong one, without each of its scopes, and
with names outside the key's prefixes, in its path and in its body. test_lanes.py holds the views against the front.
"""

import re
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from tests.api.clients import ApiClient, HttpClient, Reply
from tests.api.endpoints import LACKING, PUBLIC, SCOPES, STREAMS, TABLE, Endpoint, endpoints, filled
from tests.groups.member import session_of
from tests.instances import Instance, start
from topics_project import urls
from topics_project.urls import DESCRIBED
from wire.documents.openapi import schema

ALL = "+".join(SCOPES)
KEYS = ",".join(
    [f"root:{ALL}", f"mine:{ALL}:mine", *(f"no-{scope}:{rest}" for scope, rest in LACKING.items())]
    + [
        f"only-{scopes}:{scopes}:mine"
        for scopes in (*SCOPES, "read+write", "read+write+delete", "write+commit", "webhooks+read")
    ]
)


def test_every_endpoint_is_in_the_table() -> None:
    assert endpoints() == set(TABLE) | PUBLIC
    assert {(each.method, each.path.replace("<str:", "<").removeprefix("v0/")) for each in urls.STREAMS} == set(STREAMS)


@pytest.fixture(scope="module")
def keyed() -> Iterator[Instance]:
    with start(TOPICS_API_KEYS=KEYS) as instance:
        yield instance


@pytest.fixture
def front(keyed: Instance) -> HttpClient:
    return HttpClient(keyed.port)


@pytest.fixture
def name() -> str:
    """Within the prefixes of the key `mine`."""
    return f"mine-{uuid.uuid4().hex[:12]}"


def call(
    live: ApiClient, endpoint: Endpoint, topic: str, secret: str | None, body: Any = None, session: int = 1
) -> Reply:
    method, path = endpoint
    path = (
        path.replace("<seq>", "1")
        .replace("<router>", f"{topic}-r")
        .replace("<wid>", "wid_none")
        .replace("<kind>", "keys")
    )
    given = TABLE[endpoint].body if endpoint in TABLE and body is None else body
    headers = {"authorization": f"Bearer {secret}"} if secret else {}
    query = TABLE[endpoint].query if endpoint in TABLE else ""
    if endpoint in TABLE:
        topic = TABLE[endpoint].topic(topic)
    return live.call(
        method, "/v0/" + re.sub(r"<\w+>", topic, path) + query, filled(given, topic=topic, session=session), **headers
    )


def make(live: HttpClient, topic: str) -> int:
    """What the calls of TABLE are about. Returns the session of a group's member."""
    root = {"authorization": "Bearer root"}
    assert live.post(f"/v0/topics/{topic}", {"records": [{"data": 1}, {"data": 2}]}, **root).status == 201
    assert live.put(f"/v0/topics/{topic}/cursors/{topic}", {"seq": 1}, **root).status == 201
    assert live.put(f"/v0/topics/{topic}-q", {"type": "queue"}, **root).status == 201
    assert live.put(f"/v0/topics/{topic}-s", {"sealed": True}, **root).status == 201
    assert live.put(f"/v0/topics/{topic}-q/schedules/{topic}-q", {"not_before": 2**42, "data": 1}, **root).status == 201
    assert live.put(f"/v0/routers/{topic}-r", {"source": topic, "dest": f"{topic}-d"}, **root).status == 201
    assert live.put(f"/v0/webhooks/{topic}", {"url": "https://example.com/", "topics": [topic]}, **root).status == 201
    return session_of(live.port, topic, topic, "root")


EACH = pytest.mark.parametrize("endpoint", sorted(TABLE), ids=" ".join)
EVERY = pytest.mark.parametrize("endpoint", sorted({**TABLE, **STREAMS}), ids=" ".join)
SECRETS = [None, "wrong", "", "roo", "root ,", "ROOT", "mine:read"]


@EACH
def test_a_key_with_the_scopes_alone_may(front: HttpClient, name: str, endpoint: Endpoint) -> None:
    session, scopes = make(front, name), "+".join(TABLE[endpoint].scopes)
    assert call(front, endpoint, name, f"only-{scopes}", session=session).status in (200, 201)


@EACH
def test_without_a_key_or_with_a_wrong_one_nobody_may(front: HttpClient, name: str, endpoint: Endpoint) -> None:
    for secret in SECRETS:
        refused = call(front, endpoint, name, secret)
        assert (refused.status, refused.code) == (401, "unauthorized"), secret
        assert refused.headers["www-authenticate"] == "Bearer"


@EACH
def test_a_key_that_lacks_a_scope_may_not(front: HttpClient, name: str, endpoint: Endpoint) -> None:
    for scope in TABLE[endpoint].scopes:
        refused = call(front, endpoint, name, f"no-{scope}")
        assert (refused.status, refused.code, refused.detail) == (403, "forbidden", {"scope": scope})


@EACH
def test_what_is_there_is_not_told_from_what_is_not(front: HttpClient, endpoint: Endpoint) -> None:
    """A name outside the prefixes: the answer is the same whether something of that name exists."""
    there, absent = (f"other-{uuid.uuid4().hex[:12]}" for _ in range(2))
    make(front, there)
    answers = []
    for topic in (there, absent):
        answer = call(front, endpoint, topic, "mine")
        if TABLE[endpoint].names or endpoint == ("POST", "watch"):
            assert (answer.status, answer.code) == (403, "forbidden")
            answers.append(answer.body.decode().replace(topic, "NAME").partition('"performance"')[0])
        else:
            assert answer.status == 200
            assert "other-" not in answer.body.decode()
    assert len(set(answers)) <= 1


@pytest.mark.parametrize("path", ["", "/mirror"])
def test_a_config_needs_admin_whichever_call_brings_it(front: HttpClient, name: str, path: str) -> None:
    """Whether or not the topic exists. The command of a socket has its test in tests/sockets/test_subscribe.py."""
    body: dict[str, Any] = {"records": [{"data": 1}]}
    if path:
        record = {"$seq": 1, "$ts": 1, "data": 1}
        body = {"here": "a", "source": "b", "from_seq": 0, "next_from_seq": 1, "records": [record]}
    configured = {**body, "config": {"ttl_ms": 5}}
    front.post(f"/v0/topics/{name}-there", {"records": [{"data": 1}]}, authorization="Bearer root")
    for topic in (name, f"{name}-there"):
        refused = front.post(f"/v0/topics/{topic}{path}", configured, authorization="Bearer only-write+commit")
        assert (refused.status, refused.code, refused.detail) == (403, "forbidden", {"scope": "admin"})
    assert front.get(f"/v0/topics/{name}", authorization="Bearer root").code == "topic_not_found"
    assert front.post(f"/v0/topics/{name}{path}", body, authorization="Bearer only-write+commit").status == 201
    assert front.post(f"/v0/topics/{name}-new{path}", configured, authorization="Bearer root").status == 201


# -- Streams ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("endpoint", sorted(STREAMS), ids=" ".join)
def test_a_stream_wants_a_key_as_well(front: HttpClient, name: str, endpoint: Endpoint) -> None:
    make(front, name)
    for secret in SECRETS:
        refused = call(front, endpoint, name, secret)
        assert (refused.status, refused.code) == (401, "unauthorized"), secret


def test_a_stream_of_a_topic_wants_scope_and_prefix(front: HttpClient, name: str) -> None:
    make(front, name)
    for stream in STREAMS.keys() - {("GET", "watch/<wid>")}:
        for scope in STREAMS[stream].scopes:
            assert call(front, stream, name, f"no-{scope}").detail == {"scope": scope}
        for topic in ("other-there", "other-absent"):
            assert call(front, stream, topic, "mine").detail == {"name": topic}


def test_a_session_is_for_the_key_that_made_it(front: HttpClient, name: str) -> None:
    make(front, name)
    made = call(front, ("POST", "watch"), name, "mine").json
    for secret in ("root", "only-read", "no-read"):
        refused = front.get(made["stream_url"], authorization=f"Bearer {secret}")
        assert (refused.status, refused.code) == (403, "forbidden")


# -- Names in bodies ----------------------------------------------------------------------------------------------

OTHER = "other-name"
# Each string that a body may carry: bodies that hold a name outside the prefixes there, or None where it is no name.
STRINGS: dict[Endpoint, dict[str, Any]] = {
    ("PUT", "topics/<topic>"): {
        "type": None,
        "discard": None,
        "durability": None,
        "numbers": None,
        "dead_letter": {"type": "queue", "dead_letter": OTHER},
    },
    ("POST", "topics/<topic>"): {
        "records.tag": None,
        "records.node": None,
        "records.$tag": None,
        "records.$node": None,
        "records.$topic": None,  # whatever it names: it is ignored
        "tombstone.reason": None,
        "node": None,
        "idempotency_key": None,
        "idempotency_keys": None,
        "config.type": None,
        "config.discard": None,
        "config.durability": None,
        "config.numbers": None,
        "config.dead_letter": {"records": [{"data": 1}], "config": {"dead_letter": OTHER}},
    },
    ("POST", "topics/<topic>/diff"): {"node": None, "match": None, "order": None, "window": None},
    ("POST", "topics/<topic>/delete"): {"match": None},
    **{("POST", f"topics/<topic>/{each}"): {"node": None, "lease_ids": None} for each in ("ack", "extend")},
    ("POST", "topics/<topic>/nack"): {"node": None, "lease_ids": None, "error": None},
    ("POST", "topics/<topic>/claim"): {"node": None},
    ("POST", "topics/<topic>/redrive"): {"match": None, "queue": {"queue": OTHER}, "appended_by": None},
    ("PUT", "topics/<topic>/cursors/<cursor>"): {"at": None},
    ("PUT", "topics/<topic>/schedules/<schedule>"): {"tag": None, "node": None, "cron": None, "timezone": None},
    ("POST", "topics/<topic>/groups/<group>/commit"): {},
    ("POST", "topics/<topic>/groups/<group>/leave"): {},
    ("POST", "topics/<topic>/mirror"): {
        "here": None,
        "source": None,
        "records.$tag": None,
        "records.$node": None,
        "records.$topic": None,
        "tombstone.reason": None,
        "losses.site": None,
        "config.type": None,
        "config.discard": None,
        "config.durability": None,
        "config.numbers": None,
        "config.dead_letter": {
            "here": "iad",
            "source": "fra",
            "from_seq": 0,
            "next_from_seq": 0,
            "config": {"dead_letter": OTHER},
        },
    },
    ("POST", "topics/<topic>/state/<kind>"): {},
    ("PUT", "routers/<router>"): {
        "source": {"source": OTHER, "dest": "{topic}-d"},
        "dest": {"source": "{topic}", "dest": OTHER},
        "filter": None,
        "guarantee": None,
        "from": None,
    },
    ("PUT", "webhooks/<webhook>"): {
        "topics": {"url": "https://example.com/", "topics": [OTHER]},
        "url": None,
        "match": None,
        "format": None,
        "headers": None,
        "headers.<key>": None,
        "order": None,
        "on_exhausted": None,
        "secret": None,
        "from": None,
    },
    ("POST", "webhooks/<webhook>/pause"): {},
    ("POST", "webhooks/<webhook>/resume"): {},
    ("POST", "webhooks/<webhook>/test"): {},
    ("POST", "webhooks/<webhook>/rotate"): {"secret": None},
    ("POST", "webhooks/<webhook>/replay"): {"topic": None},
    ("POST", "watch"): {
        "topics.<key>": {"topics": {"{topic}": {}, OTHER: {}}},
        "topics.match": None,
        "node": None,
        "consistency": None,
    },
}


def strings(shape: Any, components: dict[str, Any], at: str = "") -> set[str]:
    """Where a JSON schema lets a string stand."""
    if not isinstance(shape, dict):
        return set()
    if "$ref" in shape:
        return strings(components[shape["$ref"].rpartition("/")[2]], components, at)
    found = (
        {at} if shape.get("type") == "string" or any(isinstance(each, str) for each in shape.get("enum", ())) else set()
    )
    for each in (*shape.get("anyOf", ()), *shape.get("oneOf", ()), *shape.get("prefixItems", ()), shape.get("items")):
        found |= strings(each, components, at)
    for field, each in shape.get("properties", {}).items():
        found |= strings(each, components, f"{at}.{field}".lstrip("."))
    if isinstance(shape.get("additionalProperties"), dict):
        found |= {f"{at}.<key>"} | strings(shape["additionalProperties"], components, at)
    return found


def test_every_string_of_every_body_is_in_the_table() -> None:
    import json

    described = json.loads(schema(DESCRIBED))
    there = {}
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            if "requestBody" in operation:
                shape = operation["requestBody"]["content"]["application/json"]["schema"]
                endpoint = method.upper(), re.sub(r"\{(\w+)\}", r"<\1>", path.removeprefix("/v0/"))
                there[endpoint] = strings(shape, described["components"]["schemas"])
    assert there == {endpoint: set(fields) for endpoint, fields in STRINGS.items()}


@pytest.mark.parametrize(
    ("endpoint", "field"),
    [(endpoint, field) for endpoint, fields in STRINGS.items() for field, body in fields.items() if body],
    ids=str,
)
def test_a_name_in_a_body_lies_within_the_prefixes(
    front: HttpClient, name: str, endpoint: Endpoint, field: str
) -> None:
    make(front, name)
    wanted = STRINGS[endpoint][field]
    refused = call(front, endpoint, name, "mine", wanted)
    assert (refused.status, refused.code, refused.detail) == (403, "forbidden", {"name": OTHER})
    for secret, body in (("root", wanted), ("mine", within(wanted, name))):
        assert call(front, endpoint, name, secret, body).status in (200, 201, 404, 409)


def within(body: Any, topic: str) -> Any:
    """The body with a name within the prefixes in place of the other's."""
    match body:
        case dict():
            return {within(key, topic): within(value, topic) for key, value in body.items()}
        case list():
            return [within(each, topic) for each in body]
    return f"{topic}-x" if body == OTHER else body

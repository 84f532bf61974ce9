"""Who may do what: every endpoint there is, tried with keys that lack its scope, and with names beyond their prefixes."""

import dataclasses
import re
from typing import Any

import pytest
from django.urls import URLPattern, URLResolver, get_resolver

from tests.api.doors import Door, Lane
from topics.keys import MalformedKeys, parse_keys

SCOPES = ("read", "write", "delete", "admin")
SEED = {"source": "{topic}", "dest": "{topic}-d"}


@dataclasses.dataclass
class Call:
    """The scopes a call asks for, and a body that is right. `names`: whether it names a topic or router in its path."""

    scopes: tuple[str, ...]
    body: Any = None
    names: bool = True


# Each method of each path under /v0. A new endpoint has to say here what it asks for, else the first test fails.
TABLE: dict[tuple[str, str], Call] = {
    ("GET", "topics"): Call(("read",), names=False),
    ("PUT", "topics/<topic>"): Call(("admin",), {}),
    ("GET", "topics/<topic>"): Call(("read",)),
    ("DELETE", "topics/<topic>"): Call(("delete",)),
    ("POST", "topics/<topic>"): Call(("write",), {"records": [{"data": 1}]}),
    ("POST", "topics/<topic>/diff"): Call(("read",), {}),
    ("POST", "topics/<topic>/delete"): Call(("delete",), {"before_seq": 1}),
    ("GET", "topics/<topic>/records"): Call(("read",)),
    ("GET", "topics/<topic>/records/<seq>"): Call(("read",)),
    ("GET", "topics/<topic>/cursors"): Call(("read",)),
    ("PUT", "topics/<topic>/cursors/<cursor>"): Call(("admin",), {"at": "head"}),
    ("GET", "topics/<topic>/cursors/<cursor>"): Call(("read",)),
    ("DELETE", "topics/<topic>/cursors/<cursor>"): Call(("delete",)),
    ("GET", "routers"): Call(("read",), names=False),
    ("PUT", "routers/<router>"): Call(("admin",), SEED),
    ("GET", "routers/<router>"): Call(("read",)),
    ("DELETE", "routers/<router>"): Call(("delete",)),
    ("POST", "watch"): Call(("read",), {"topics": {"{topic}": {}}}),
    ("GET", "metrics"): Call(("read",), names=False),
}
# Served to everybody, so that a load balancer and a person with a browser need no key.
PUBLIC = {("GET", "health"), ("GET", "ready"), ("GET", "schema"), ("GET", "docs")}
# Streams are served in plain ASGI, and tested there.
STREAMS = {"topics/<topic>/events"}


def endpoints(patterns: list[Any], prefix: str = "") -> set[tuple[str, str]]:
    """Every method of every path under /v0, as the URL conf has them."""
    found: set[tuple[str, str]] = set()
    for pattern in patterns:
        if isinstance(pattern, URLResolver):
            found |= endpoints(pattern.url_patterns, prefix + str(pattern.pattern))
        elif isinstance(pattern, URLPattern) and (prefix + str(pattern.pattern)).startswith("v0/"):
            path = re.sub(r"<\w+:(\w+)>", r"<\1>", prefix + str(pattern.pattern)).removeprefix("v0/")
            methods = getattr(pattern.callback, "cls", None)
            for method in ("get", "post", "put", "delete", "patch"):
                if path not in STREAMS and hasattr(methods, method):
                    found.add((method.upper(), path))
    return found


def test_every_endpoint_is_in_the_table() -> None:
    there = endpoints(get_resolver().url_patterns)
    assert there == set(TABLE) | PUBLIC


@pytest.fixture
def topic(api: Door, name: str) -> str:
    api.append(name, 1, 2)
    api.put(f"/v0/topics/{name}/cursors/{name}", {"seq": 1})
    api.put(f"/v0/routers/{name}-r", {"source": name, "dest": f"{name}-d"})
    return name


def filled(body: Any, topic: str) -> Any:
    """The body with the topic's name where it stands for it."""
    match body:
        case dict():
            return {filled(key, topic): filled(value, topic) for key, value in body.items()}
        case str():
            return body.replace("{topic}", topic)
    return body


def call(door: Door, endpoint: tuple[str, str], topic: str, secret: str | None) -> Any:
    method, path = endpoint
    path = re.sub(r"<\w+>", topic, path.replace("<seq>", "1").replace("<router>", f"{topic}-r"))
    headers = {"authorization": f"Bearer {secret}"} if secret else {}
    return door.call(method, f"/v0/{path}", filled(TABLE[endpoint].body, topic), **headers)


EACH = pytest.mark.parametrize("endpoint", sorted(TABLE), ids=" ".join)


@EACH
def test_a_key_with_the_scopes_may(api: Door, topic: str, keys, endpoint: tuple[str, str]) -> None:
    keys(f"right:{'+'.join(TABLE[endpoint].scopes)}:{topic}")
    assert call(api, endpoint, topic, "right").status in (200, 201)


@EACH
def test_a_key_that_lacks_a_scope_may_not(api: Door, topic: str, keys, endpoint: tuple[str, str]) -> None:
    for missing in TABLE[endpoint].scopes:
        keys("almost:" + "+".join(scope for scope in SCOPES if scope != missing))
        refused = call(api, endpoint, topic, "almost")
        assert (refused.status, refused.code, refused.detail) == (403, "forbidden", {"scope": missing})


@EACH
def test_a_name_beyond_the_keys_prefixes_may_not(api: Door, topic: str, keys, endpoint: tuple[str, str]) -> None:
    keys(f"other:{'+'.join(SCOPES)}:other|{topic}x")
    answer = call(api, endpoint, topic, "other")
    if TABLE[endpoint].names:
        assert (answer.status, answer.code) == (403, "forbidden")
        assert answer.detail["name"].startswith(topic)
    else:
        assert answer.status == 200
        assert topic not in answer.body.decode()


@EACH
@pytest.mark.parametrize("secret", [None, "wrong"])
def test_without_a_key_nobody_may(api: Door, topic: str, keys, endpoint: tuple[str, str], secret: str | None) -> None:
    keys("right:read+write+delete+admin")
    refused = call(api, endpoint, topic, secret)
    assert (refused.status, refused.code) == (401, "unauthorized")
    assert refused.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize("path", sorted(path for _, path in PUBLIC))
def test_what_is_public_needs_no_key(api: Door, keys, path: str) -> None:
    keys("right:read")
    assert api.get(f"/v0/{path}").status == 200


def test_a_routers_ends_lie_within_the_prefixes(api: Door, name: str, keys) -> None:
    keys(f"mine:admin:{name}")
    for ends in ({"source": name, "dest": "other"}, {"source": "other", "dest": name}):
        refused = api.put(f"/v0/routers/{name}", ends, authorization="Bearer mine")
        assert (refused.status, refused.code, refused.detail) == (403, "forbidden", {"name": "other"})


def test_every_topic_that_is_watched_lies_within_the_prefixes(api: Door, topic: str, keys) -> None:
    keys(f"mine:read:{topic}")
    refused = api.post("/v0/watch", {"topics": {topic: {}, "other": {}}}, authorization="Bearer mine")
    assert (refused.status, refused.code) == (403, "forbidden")


@pytest.mark.parametrize(
    "header", ["", "Bearer", "Bearer ", "Basic right", "right", "Bearer right right", "Bearer réght"]
)
def test_a_malformed_header_lets_nobody_in(api: Door, keys, header: str) -> None:
    keys("right:read")
    refused = api.get("/v0/topics", authorization=header)
    assert (refused.status, refused.code) == (401, "unauthorized")


def test_the_scheme_is_spelled_as_one_likes(api: Door, keys) -> None:
    keys("right:read")
    assert api.get("/v0/topics", authorization="bearer right").status == 200


def test_a_key_made_in_the_admin_counts_until_it_is_revoked(api: Door, name: str, settings) -> None:
    from topics.keys import keyring, new_secret, sha256
    from topics.models import ApiKey

    secret = new_secret()
    made = ApiKey.objects.create(
        name=name, secret_sha256=sha256(secret), read=True, prefixes=f"{name}\nx", created_ts=0
    )
    keyring.forget()
    try:
        assert api.get("/v0/topics").status == 401
        assert api.get(f"/v0/topics/{name}", authorization=f"Bearer {secret}").status == 404
        assert api.get("/v0/topics/y", authorization=f"Bearer {secret}").status == 403
        made.revoked_ts = 1
        made.save()
        keyring.forget()
        assert api.get("/v0/topics", authorization=f"Bearer {secret}").status == 401
        assert api.get("/v0/topics").status == 401  # revoking the last key does not open the server
    finally:
        made.delete()
        keyring.forget()


def test_the_fast_lane_asks_for_the_same(instances) -> None:
    server = instances(TOPICS_API_KEYS="w:write:a,r:read:a,all:read+write+delete+admin")
    lane = Lane(server.port)

    def append(topic: str, secret: str) -> Any:
        return lane.post(f"/v0/topics/{topic}", {"records": [{"data": 1}]}, authorization=f"Bearer {secret}")

    def diff(topic: str, secret: str) -> Any:
        return lane.post(f"/v0/topics/{topic}/diff", {}, authorization=f"Bearer {secret}")

    assert (append("a1", "w").status, append("a1", "w").status) == (201, 200)
    assert (diff("a1", "r").status, diff("a1", "all").status) == (200, 200)
    assert append("b", "all").status == 201
    for refused in (append("a1", "r"), append("b", "w"), diff("a1", "w"), diff("b", "r")):
        assert (refused.status, refused.code) == (403, "forbidden")
    for refused in (append("a1", "x"), diff("a1", "x"), lane.append("a1", 1), lane.diff("a1"), lane.get("/v0/none")):
        assert (refused.status, refused.code) == (401, "unauthorized")
        assert refused.headers["www-authenticate"] == "Bearer"
    for path in ("/v0/health", "/healthz", "/v0/ready", "/readyz", "/v0/schema", "/v0/docs"):
        assert lane.get(path).status == 200
    logs = "".join(log.read_text() for log in (server.data / "logs").glob("*.log"))
    assert "Bearer" not in logs


@pytest.mark.parametrize(
    "text",
    [
        "secret",
        "secret:",
        ":read",
        "sécret:read",
        "se cret:read",
        "secret:reed",
        "secret:read+",
        "secret::a",
        "s:READ",
        "s:read:a b",
        "s:read:-a",
        "s:read:a||b",
        "s:read,t",
        "s:read,s:write",
        ",",
    ],
)
def test_malformed_keys_are_refused(text: str) -> None:
    with pytest.raises(MalformedKeys) as refused:
        parse_keys(text)
    told = str(refused.value).replace("secret:scopes", "").replace("a secret that", "")
    assert "cret" not in told


def test_keys_are_read() -> None:
    keys = list(parse_keys(" a:read , b:read+write|delete:x|y:z ,").values())
    assert [key.scopes for key in keys] == [{"read"}, {"read", "write", "delete"}]
    assert [key.prefixes for key in keys] == [(), ("x", "y:z")]
    assert keys[1].allows("x1")
    assert keys[1].allows("y:z")
    assert not keys[1].allows("y")
    assert not keys[1].allows("X")

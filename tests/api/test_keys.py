"""Keys: their sources, their form, and the clients that they admit (test_security.py tries every endpoint)."""

import time
from typing import Any

import pytest

from tests.api import raw
from tests.api.clients import ApiClient, HttpClient
from tests.api.endpoints import PUBLIC
from tests.instances import until
from wire.access.keys import MalformedKeys, parse_keys

pytestmark = pytest.mark.deep(33)


@pytest.mark.parametrize("path", sorted(path for _, path in PUBLIC))
def test_what_is_public_needs_no_key(views: ApiClient, keys, path: str) -> None:
    keys("right:read")
    assert views.get(f"/v0/{path}").status == 200


@pytest.mark.parametrize(
    "header", ["", "Bearer", "Bearer ", "Basic right", "right", "Bearer right right", "Bearer réght"]
)
def test_a_malformed_header_lets_nobody_in(views: ApiClient, keys, header: str) -> None:
    keys("right:read")
    refused = views.get("/v0/topics", authorization=header)
    assert (refused.status, refused.code) == (401, "unauthorized")


def test_the_scheme_is_spelled_as_one_likes(views: ApiClient, keys) -> None:
    keys("right:read")
    assert views.get("/v0/topics", authorization="bearer right").status == 200


def test_a_key_made_in_the_admin_counts_until_it_is_revoked(views: ApiClient, name: str, settings) -> None:
    from topics.models import ApiKey
    from wire.access.keys import keyring, new_secret, sha256

    secret = new_secret()
    made = ApiKey.objects.create(
        name=name, secret_sha256=sha256(secret), read=True, prefixes=f"{name}\nx", created_ts=0
    )
    keyring.forget()
    try:
        assert views.get("/v0/topics").status == 401
        assert views.get(f"/v0/topics/{name}", authorization=f"Bearer {secret}").status == 404
        assert views.get("/v0/topics/y", authorization=f"Bearer {secret}").status == 403
        made.revoked_ts = 1
        made.save()
        keyring.forget()
        assert views.get("/v0/topics", authorization=f"Bearer {secret}").status == 401
        assert views.get("/v0/topics").status == 401  # revoking the last key does not open the server
    finally:
        made.delete()
        keyring.forget()


@pytest.mark.django_db
def test_a_key_is_deleted_long_after_its_end_but_never_the_last() -> None:
    from topics.models import ApiKey
    from wire.access.keys import DEAD_MS, drop_dead, sha256

    now, ends = 10 * DEAD_MS, {"revoked": {"revoked_ts": 1}, "expired": {"expires_ts": 1}, "valid": {}}
    ends |= {"fresh": {"revoked_ts": 9 * DEAD_MS + 1, "expires_ts": 20 * DEAD_MS}, "last": {"revoked_ts": 1}}
    for name, end in ends.items():
        ApiKey.objects.create(name=name, secret_sha256=sha256(name), created_ts=0, **end)
    assert drop_dead(now) == 2
    assert set(ApiKey.objects.values_list("name", flat=True)) == {"valid", "fresh", "last"}


@pytest.mark.django_db
def test_keys_that_ended_are_not_read() -> None:
    from django.db import connection

    from wire.access.keys import KEYS

    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO topics_apikey (name, secret_sha256, read, write, delete_scope, admin, prefixes, created_ts, revoked_ts,"
            " expires_ts) SELECT 'k', sha256(n::text::bytea), true, true, false, false, '', 0, nullif(n % 2, 0), 1"
            " FROM generate_series(1, 5000) n"
        )
        cursor.execute("ANALYZE topics_apikey")
        cursor.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {KEYS}", [2])
        plan = cursor.fetchone()[0][0]["Plan"]
    assert (plan["Actual Rows"], plan["Index Name"]) == (0, "topics_apikey_valid")
    assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] < 5


SLOW = {
    "append": ("/v0/topics/t", b'{"records":[{"data":2}]}'),
    "long poll": ("/v0/topics/t/diff", b'{"from_seq":1,"wait_ms":30000}'),
    "claim": ("/v0/topics/q/claim", b'{"node":"w","wait_ms":30000}'),
}
ENDS = {"revoked": "revoked_ts = 1", "without its scopes": "read = false, write = false, commit = true"}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("kind", SLOW)
def test_a_key_that_changes_during_a_slow_request_counts_no_more(instances: Any, kind: str, end: str) -> None:
    """While the body arrives, or while the answer waits. The other key's appends end the wait."""
    from wire.access.keys import new_secret, sha256

    server, secret = instances(TOPICS_API_KEYS="all:read+write+admin", WEB_WORKERS="1"), new_secret()
    live, other = HttpClient(server.port), {"authorization": "Bearer all"}
    record = {"records": [{"data": 1}]}
    assert live.post("/v0/topics/t", record, **other).status == 201
    assert live.put("/v0/topics/q", {"type": "queue"}, **other).status == 201
    with server.connect() as database:
        database.execute(
            "INSERT INTO topics_apikey (name, secret_sha256, read, write, commit, delete_scope, admin, prefixes, created_ts)"
            " VALUES ('k', %s, true, true, false, false, false, '', 0)",
            [sha256(secret)],
        )
    mine = {"authorization": f"Bearer {secret}"}
    until(lambda: live.get("/v0/topics/t", **mine).status == 200, "the key to be known")
    path, body = SLOW[kind]
    head = raw.request("POST", path, f"authorization: Bearer {secret}", "content-type: application/json",
                       f"content-length: {len(body)}")  # fmt: skip
    with raw.connection(server.port) as slow:
        slow.sendall(head + (body[:-1] if kind == "append" else body))
        ends = time.monotonic() + 1.1
        until(lambda: time.monotonic() > ends, "more than a second, because a shorter request is not checked again")
        with server.connect() as database:
            database.execute(f"UPDATE topics_apikey SET {ENDS[end]} WHERE name = 'k'")
        until(lambda: live.get("/v0/topics/t", **mine).status in (401, 403), "the key to be known no more")
        if kind == "append":
            slow.sendall(body[-1:])
        else:
            live.post(path.rpartition("/")[0], record, **other)
        answer = raw.answer(slow)
    assert answer.status == (403 if end == "without its scopes" and kind != "claim" else 401), answer
    assert b'"data"' not in answer.body, answer
    assert live.get("/v0/topics/t", **other).json["head_seq"] == (2 if kind == "long poll" else 1)
    if kind == "claim":
        assert live.get("/v0/topics/q", **other).json["queue"]["in_flight"] == 0


def test_the_fast_lane_asks_for_the_same(instances) -> None:
    server = instances(TOPICS_API_KEYS="w:write:a,r:read:a,all:read+write+delete+admin")
    lane = HttpClient(server.port)

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
    for path in ("/", "/v0/health", "/healthz", "/v0/ready", "/readyz", "/v0/schema", "/v0/docs"):
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
    told = str(refused.value).replace("secret:scopes", "").replace("secret of another entry: choose another secret", "")
    assert "cret" not in told


def test_keys_are_read() -> None:
    keys = list(parse_keys(" a:read , b:read+write|delete:x|y:z ,").values())
    assert [key.scopes for key in keys] == [{"read"}, {"read", "write", "delete"}]
    assert [key.prefixes for key in keys] == [(), ("x", "y:z")]
    assert keys[1].allows("x1")
    assert keys[1].allows("y:z")
    assert not keys[1].allows("y")
    assert not keys[1].allows("X")

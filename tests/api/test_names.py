"""A key with prefixes reads no name outside them: every endpoint, and every field of its answers that can carry one.

Two tenants share routers here. {a} are the names of the one whose key is tried, {b} those of the other.
"""

import base64
import contextlib
import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from django.db import connection, transaction

from base.clock import now_ms
from groups.joining import JoinQuery, join
from store.script import run
from tests.api.clients import ApiClient, Reply
from tests.api.endpoints import PUBLIC, STREAMS, TABLE, Endpoint, filled
from topics.models import Topic
from topics.read import stamps
from wire.access.keys import OPEN


class Probe(NamedTuple):
    """A call, and what one field of its answer says: to a key that sees all, and to one that does not see {b}."""

    field: str
    path: str
    body: Any
    status: tuple[int, int]
    everything: Any
    seen: Any


def same(field: str, path: str, everything: Any, seen: Any, body: Any = None, status: int = 200) -> Probe:
    return Probe(field, path, body, (status, status), everything, seen)


STAMP, LETTER = "meta._topics_router", "meta.$dead_letter_from"
CYCLE = {"source": "{a}-dest", "dest": "{a}-in", "allow_fan_in": True}
FAN_IN = {"source": "{a}-x", "dest": "{a}-dest"}
REMOVED = ["{a}-own", "{a}-shared", "{b}-in", "{b}-out"]
WHY = "to share the dest, send allow_fan_in: true for all its routers"
ALLOW = "send allow_cycle: true if you want the cycle"
# Every field that can carry a name which the caller did not send. An endpoint that has none says so with an empty list.
PROBES: dict[Endpoint, list[Probe]] = {
    ("GET", "topics"): [
        same(
            "topics.*.topic",
            "topics?prefix={n}",
            ["{a}-dest", "{a}-in", "{a}-letters", "{a}-out", "{b}-end", "{b}-end2", "{b}-home", "{b}-mid"],
            ["{a}-dest", "{a}-in", "{a}-letters", "{a}-out"],
        ),
        same("next_cursor", "topics?prefix={n}&page_size=5", '["{b}-end"]', None),
    ],
    ("PUT", "topics/<topic>"): [same("config.dead_letter", "topics/{a}-in", "{b}-dead", "*", body={})],
    ("GET", "topics/<topic>"): [same("config.dead_letter", "topics/{a}-in", "{b}-dead", "*")],
    ("DELETE", "topics/<topic>"): [
        Probe("routers_removed", "topics/{a}-in", None, (200, 409), REMOVED, None),
        Probe(
            "error.message",
            "topics/{a}-in",
            None,
            (200, 409),
            None,
            "'{a}-in' has 3 routers that this key may not delete: use another key",
        ),
        Probe("error.code", "topics/{a}-in", None, (200, 409), None, "router_outside_prefixes"),
        Probe("error.detail", "topics/{a}-in", None, (200, 409), None, {"count": 3}),
    ],
    ("POST", "topics/<topic>"): [],
    ("POST", "topics/<topic>/diff"): [
        same(f"records.0.{STAMP}.router", "topics/{a}-in/diff", "{b}-in", "*", body={}),
        same(f"records.0.{STAMP}.source", "topics/{a}-in/diff", "{b}-home", "*", body={}),
        same(f"records.0.{STAMP}.key", "topics/{a}-in/diff", "{b}-in:ID:1", "*:ID:1", body={}),
        same(f"records.0.{LETTER}", "topics/{a}-letters/diff", "{b}-jobs", "*", body={}),
    ],
    ("POST", "topics/<topic>/delete"): [],
    ("POST", "topics/<topic>/claim"): [],
    ("POST", "topics/<topic>/ack"): [],
    ("POST", "topics/<topic>/nack"): [],
    ("POST", "topics/<topic>/extend"): [],
    ("POST", "topics/<topic>/redrive"): [
        same("skipped.*.queue", "topics/{a}-letters/redrive", ["{b}-jobs"], ["*"], body={}),
        same("skipped.*.code", "topics/{a}-letters/redrive", ["topic_not_found"], ["forbidden"], body={}),
    ],
    ("GET", "topics/<topic>/records"): [
        same(f"records.1.{STAMP}.router", "topics/{a}-in/records", "{b}-in", "*"),
        same(f"records.1.{STAMP}.source", "topics/{a}-in/records", "{b}-home", "*"),
        same(f"records.1.{STAMP}.key", "topics/{a}-in/records", "{b}-in:ID:2", "*:ID:2"),
        same(f"records.0.{LETTER}", "topics/{a}-letters/records", "{b}-jobs", "*"),
    ],
    ("GET", "topics/<topic>/records/<seq>"): [
        same(f"{STAMP}.router", "topics/{a}-in/records/1", "{b}-in", "*"),
        same(f"{STAMP}.source", "topics/{a}-in/records/1", "{b}-home", "*"),
        same(f"{STAMP}.key", "topics/{a}-in/records/1", "{b}-in:ID:1", "*:ID:1"),
        same(LETTER, "topics/{a}-letters/records/1", "{b}-jobs", "*"),
        same("path.topic", "topics/{a}-in/records/1", "{b}-home", "*"),
        same("path.routers", "topics/{a}-in/records/1", ["{b}-in"], ["*"]),
        same("path.routers", "topics/{a}-out/records/1", ["{b}-in", "{a}-own"], ["*", "{a}-own"]),
    ],
    ("GET", "topics/<topic>/cursors"): [
        same(
            "cursors.*.cursor",
            "topics/{a}-in/cursors",
            ["{a}-own", "{a}-shared", "{b}-named", "{b}-out"],
            ["*", "{a}-own", "{a}-shared", "{b}-named"],  # a named cursor is the topic's own, whatever it is called
        ),
        same("next_cursor", "topics/{a}-dest/cursors?page_size=1", '["{b}-1","router","ID"]', '["*","router","ID"]'),
    ],
    ("PUT", "topics/<topic>/cursors/<cursor>"): [
        Probe(
            "error.message",
            "topics/{a}-in/cursors/{b}-out",
            {"at": "head"},
            (409, 201),
            "cursor '{b}-out' belongs to a router and is read-only",
            None,
        )
    ],
    ("GET", "topics/<topic>/cursors/<cursor>"): [
        Probe("kind", "topics/{a}-in/cursors/{b}-out", None, (200, 404), "router", None),
        Probe(
            "error.message",
            "topics/{a}-in/cursors/{b}-out",
            None,
            (200, 404),
            None,
            "topic '{a}-in' has no cursor '{b}-out'",
        ),
    ],
    ("DELETE", "topics/<topic>/cursors/<cursor>"): [
        Probe("deleted", "topics/{a}-in/cursors/{b}-out", None, (409, 200), None, False)
    ],
    ("GET", "topics/<topic>/schedules"): [],
    ("PUT", "topics/<topic>/schedules/<schedule>"): [],
    ("GET", "topics/<topic>/schedules/<schedule>"): [],
    ("DELETE", "topics/<topic>/schedules/<schedule>"): [],
    ("GET", "topics/<topic>/groups"): [],
    ("GET", "topics/<topic>/groups/<group>"): [],
    ("DELETE", "topics/<topic>/groups/<group>"): [],
    ("POST", "topics/<topic>/groups/<group>/commit"): [],
    ("POST", "topics/<topic>/groups/<group>/leave"): [],
    ("POST", "topics/<topic>/mirror"): [],
    ("GET", "topics/<topic>/mirror"): [],
    ("GET", "routers"): [
        same("routers.*.router", "routers?prefix={a}", ["{a}-alien", "{a}-own", "{a}-shared"], ["{a}-own"]),
        same("routers.*.source", "routers?prefix={a}", ["{b}-home", "{a}-in", "{a}-in"], ["{a}-in"]),
        same("routers.*.dest", "routers?prefix={a}", ["{b}-mid", "{a}-out", "{b}-mid"], ["{a}-out"]),
        same("next_cursor", "routers?prefix={a}&page_size=1", '["{a}-alien"]', None),
    ],
    ("PUT", "routers/<router>"): [
        same(
            "error.detail.cycle",
            "routers/{a}-new",
            ["{a}-dest", "{a}-in", "{b}-mid", "{a}-dest"],
            ["{a}-dest", "{a}-in", "*", "{a}-dest"],
            body=CYCLE,
            status=409,
        ),
        same(
            "error.message",
            "routers/{a}-new",
            f"this router would close the cycle {{a}}-dest -> {{a}}-in -> {{b}}-mid -> {{a}}-dest: {ALLOW}",
            f"this router would close the cycle {{a}}-dest -> {{a}}-in -> * -> {{a}}-dest: {ALLOW}",
            body=CYCLE,
            status=409,
        ),
        same("error.detail.router", "routers/{a}-new", "{b}-dest", "*", body=FAN_IN, status=409),
        same("error.detail.source", "routers/{a}-new", "{b}-mid", "*", body=FAN_IN, status=409),
        same("error.detail.dest", "routers/{a}-new", "{a}-dest", "{a}-dest", body=FAN_IN, status=409),
        same(
            "error.message",
            "routers/{a}-new",
            f"'{{a}}-dest' already has the source '{{b}}-mid' (router '{{b}}-dest'): {WHY}",
            f"'{{a}}-dest' already has the source '*' (router '*'): {WHY}",
            body=FAN_IN,
            status=409,
        ),
        # A router of a name of theirs that leads elsewhere: they learn that, and not where it leads.
        Probe(
            "error.detail",
            "routers/{a}-alien",
            {"source": "{a}-x", "dest": "{a}-y"},
            (409, 403),
            {"reason": "router_leads_elsewhere", "router": "{a}-alien", "source": "{b}-home", "dest": "{b}-mid"},
            {"router": "{a}-alien"},
        ),
    ],
    ("GET", "routers/<router>"): [
        Probe("source", "routers/{a}-alien", None, (200, 403), "{b}-home", None),
        Probe("error.detail", "routers/{a}-alien", None, (200, 403), None, {"router": "{a}-alien"}),
        Probe("dest", "routers/{a}-shared", None, (200, 403), "{b}-mid", None),
    ],
    ("DELETE", "routers/<router>"): [
        Probe("error.detail", "routers/{a}-alien", None, (200, 403), None, {"router": "{a}-alien"})
    ],
    ("GET", "topics/<topic>/appends"): [],
    ("GET", "topics/<topic>/state/<kind>"): [],
    ("POST", "topics/<topic>/state/<kind>"): [],
    ("GET", "webhooks"): [],
    ("PUT", "webhooks/<webhook>"): [],
    ("GET", "webhooks/<webhook>"): [],
    ("DELETE", "webhooks/<webhook>"): [],
    ("POST", "webhooks/<webhook>/pause"): [],
    ("POST", "webhooks/<webhook>/resume"): [],
    ("POST", "webhooks/<webhook>/test"): [],
    ("POST", "webhooks/<webhook>/rotate"): [],
    ("GET", "webhooks/<webhook>/deliveries"): [],
    ("POST", "webhooks/<webhook>/replay"): [],
    ("POST", "watch"): [],
    ("GET", "metrics"): [
        same(
            "metrics.topics_cursor_lag_records.samples.*.labels.cursor",
            "metrics",
            ["{a}-alien", "{a}-own", "{a}-shared", "{b}-1", "{b}-2", "{b}-dest", "{b}-in", "{b}-named", "{b}-out"],
            ["*", "*", "{a}-own", "{a}-shared", "{b}-named"],
        ),
        same(
            "metrics.topics_cursor_lag_records.samples.*.labels.topic",
            "metrics",
            ["{a}-dest"] * 2 + ["{a}-in"] * 4 + ["{b}-home"] * 2 + ["{b}-mid"],
            ["{a}-dest"] + ["{a}-in"] * 4,
        ),
        same(
            "metrics.topics_router_lag_records.samples.*.labels.router",
            "metrics",
            ["{a}-alien", "{a}-own", "{a}-shared", "{b}-1", "{b}-2", "{b}-dest", "{b}-in", "{b}-out"],
            ["{a}-own"],
        ),
        same("metrics.topics_appends", "metrics", {"type": "counter"}, None),
    ],
}
# Their frames carry records, and so stamps: tests/watch/test_keys.py reads them.
ELSEWHERE = set(STREAMS)


class World(NamedTuple):
    """The common beginning of all names, the one tenant's and the other's."""

    n: str
    a: str
    b: str
    session: int = 0  # of a member of a group of {a}-in


def test_every_endpoint_is_in_the_table() -> None:
    assert set(PROBES) == set(TABLE)
    assert not set(PROBES) & (PUBLIC | ELSEWHERE)


@pytest.fixture
def world(views: ApiClient, name: str, keys: Any) -> World:
    n, a, b = name, f"{name}-a", f"{name}-b"
    for topic in (f"{b}-home", f"{b}-mid", f"{a}-in", f"{a}-out", f"{a}-dest"):
        views.put(f"/v0/topics/{topic}")
    # Kept by a version that took what is for queues.
    Topic.objects.filter(name=f"{a}-in").update(dead_letter=f"{b}-dead")
    records = [{"data": {"_topics_router": 1}, "meta": {"k": [1, 2]}}, {"data": [f"{a}-x"]}]
    views.post(f"/v0/topics/{b}-home", {"records": records})
    letter = {"$seq": 1, "$ts": 1, "data": 1, "meta": {"$dead_letter_from": f"{b}-jobs"}}
    handover = {"here": "here", "source": "there", "from_seq": 0, "next_from_seq": 1, "records": [letter]}
    assert views.post(f"/v0/topics/{a}-letters/mirror", handover).status == 201
    routers = [
        (f"{b}-in", f"{b}-home", f"{a}-in", {"guarantee": "exactly_once", "from": "earliest", "allow_fan_in": True}),
        (f"{a}-own", f"{a}-in", f"{a}-out", {"from": "earliest"}),
        (f"{a}-shared", f"{a}-in", f"{b}-mid", {"allow_fan_in": True}),
        (f"{b}-out", f"{a}-in", f"{b}-mid", {"allow_fan_in": True}),
        (f"{b}-dest", f"{b}-mid", f"{a}-dest", {}),
        (f"{a}-alien", f"{b}-home", f"{b}-mid", {"allow_fan_in": True}),
        (f"{b}-1", f"{a}-dest", f"{b}-end", {}),
        (f"{b}-2", f"{a}-dest", f"{b}-end2", {}),
    ]
    for router, source, dest, config in routers:
        reply = views.put(f"/v0/routers/{router}", {"source": source, "dest": dest, **config})
        assert reply.status == 201, reply.json
    views.put(f"/v0/topics/{a}-in/cursors/{b}-named", {"seq": 0})
    assert len(views.diff(f"{a}-in").json["records"]) == 2
    views.diff(f"{a}-out")
    joining = JoinQuery(member="member", session_ms=600_000)
    joined = run(join(f"{a}-in", f"{a}-in", joining, OPEN, now_ms()))
    keys(f"root:read+write+delete+admin,mine:read+write+delete+admin:{a}")
    return World(n, a, b, joined.session)


@contextlib.contextmanager
def undone() -> Iterator[None]:
    """What happens within is taken back: the next caller finds the same."""
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


def ask(views: ApiClient, endpoint: Endpoint, probe: Probe, world: World, secret: str) -> Reply:
    path, body = filled((probe.path, probe.body), **world._asdict())
    with undone():
        return views.call(endpoint[0], f"/v0/{path}", body, accept="application/json", authorization=f"Bearer {secret}")


def pick(value: Any, field: str) -> Any:
    """What stands in the field, None where it is absent. `*` is every element of a list."""
    for place, step in enumerate(steps := field.split(".")):
        if step == "*":
            return [pick(each, ".".join(steps[place + 1 :])) for each in value]
        value = value[int(step)] if isinstance(value, list) else value.get(step)
        if value is None:
            return None
    return value


def comparable(found: Any, field: str, world: World) -> Any:
    """As the table writes it: opaque cursors in the clear, ids as ID, the other tests' names left out, lists in order."""
    if field == "next_cursor" and found is not None:
        found = base64.urlsafe_b64decode(found).decode()
    if isinstance(found, str):
        return re.sub(r'(?<=:)\d+(?=:)|(?<=,")\d+(?=")', "ID", found)
    if field.startswith("metrics."):
        if isinstance(found, dict):
            return {"type": found["type"]}
        return None if found is None else sorted(each for each in found if each == "*" or each.startswith(world.n))
    return found


@pytest.mark.parametrize("endpoint", sorted(e for e, probes in PROBES.items() if probes), ids=" ".join)
def test_each_field_of_an_endpoint(views: ApiClient, world: World, endpoint: Endpoint) -> None:
    for probe in PROBES[endpoint]:
        for secret, status, expected in zip(
            ("root", "mine"), probe.status, (probe.everything, probe.seen), strict=True
        ):
            answer = ask(views, endpoint, probe, world, secret)
            assert answer.status == status, (probe.field, answer.body)
            found = comparable(pick(answer.json, probe.field), probe.field, world)
            expected = filled(expected, **world._asdict())
            if probe.field.startswith("metrics.") and isinstance(expected, list):
                expected.sort()
            assert found == expected, probe.field
        check_the_rest(answer, probe, world)


def check_the_rest(answer: Reply, probe: Probe, world: World) -> None:
    """The names of the other tenant are nowhere else in the answer either."""
    told = answer.body.decode() + str(answer.headers)
    if (cursor := answer.json.get("next_cursor")) is not None:
        told += base64.urlsafe_b64decode(cursor).decode()
    said = filled((probe.path, probe.body), **world._asdict())
    # What the caller sent comes back, and a named cursor of its own topic is its own.
    for own in (f"{world.b}-named", *re.findall(rf"{world.b}[\w-]*", json.dumps(said))):
        told = told.replace(own, "")
    assert world.b not in told, probe.field


@pytest.mark.parametrize("endpoint", sorted(e for e, probes in PROBES.items() if not probes), ids=" ".join)
def test_an_endpoint_without_such_a_field(views: ApiClient, world: World, endpoint: Endpoint) -> None:
    body = filled(TABLE[endpoint].body, topic=f"{world.a}-in", session=world.session)
    topic = f"{world.a}-in"
    if TABLE[endpoint].of_queue:
        topic += "-q"
        views.put(f"/v0/topics/{topic}", {"type": "queue"}, authorization="Bearer root")
        later = {"not_before": 2**42, "data": 1}
        views.put(f"/v0/topics/{topic}/schedules/{topic}", later, authorization="Bearer root")
    if TABLE[endpoint].of_sealed:
        topic += "-s"
        views.put(f"/v0/topics/{topic}", {"sealed": True}, authorization="Bearer root")
    if "<webhook>" in endpoint[1]:
        webhook = {"url": "https://example.com/", "topics": [topic]}
        views.put(f"/v0/webhooks/{topic}", webhook, authorization="Bearer root")
    path = (
        re.sub("<topic>|<group>|<schedule>|<webhook>", topic, endpoint[1]).replace("<kind>", "keys")
        + TABLE[endpoint].query
    )
    with undone():
        answer = views.call(endpoint[0], f"/v0/{path}", body, authorization="Bearer mine")
    assert answer.status in (200, 201)
    assert world.b not in answer.body.decode()


@pytest.mark.parametrize(("method", "path"), sorted(PUBLIC))
def test_what_is_public_names_nobody(views: ApiClient, world: World, method: str, path: str) -> None:
    assert world.n not in views.call(method, f"/v0/{path}").body.decode()


# -- Beside the table ---------------------------------------------------------------------------------------------


def test_a_topic_goes_with_its_own_routers(views: ApiClient, world: World) -> None:
    mine = {"authorization": "Bearer mine"}
    assert views.delete(f"/v0/topics/{world.a}-out", **mine).json["routers_removed"] == [f"{world.a}-own"]
    refused = views.delete(f"/v0/topics/{world.a}-in", **mine)
    assert (refused.status, refused.code) == (409, "router_outside_prefixes")
    root = {"authorization": "Bearer root"}
    assert views.get(f"/v0/topics/{world.a}-in", **root).status == 200
    for router in (f"{world.b}-in", f"{world.b}-out", f"{world.a}-shared"):
        assert views.get(f"/v0/routers/{router}", **root).status == 200


def test_hidden_cursors_come_in_pages_too(views: ApiClient, world: World) -> None:
    seen, query = [], "?page_size=1"
    while query:
        page = views.get(f"/v0/topics/{world.a}-dest/cursors{query}", authorization="Bearer mine").json
        seen += [(each["cursor"], each["kind"], each["lag"]) for each in page["cursors"]]
        query = f"?page_size=1&cursor={page['next_cursor']}" if "next_cursor" in page else ""
    assert seen == [("*", "router", 0)] * 2


@pytest.mark.parametrize("id", ["", "x", "-1", "1.5", "9" * 30, "²"])
def test_a_page_after_what_is_no_cursor(views: ApiClient, world: World, id: str) -> None:
    cursor = base64.urlsafe_b64encode(json.dumps(["*", "router", id]).encode()).decode()
    reply = views.get(f"/v0/topics/{world.a}-dest/cursors?cursor={cursor}", authorization="Bearer mine")
    assert reply.status == (200 if id == "" else 400)


def test_a_key_has_a_cursor_of_its_own_beside_a_hidden_one(views: ApiClient, world: World) -> None:
    path = f"/v0/topics/{world.a}-in/cursors/{world.b}-out"
    mine, root = {"authorization": "Bearer mine"}, {"authorization": "Bearer root"}
    assert views.put(path, {"seq": 1}, **mine).json["kind"] == "named"
    assert views.get(path, **mine).json["seq"] == 1
    assert views.delete(path, **mine).json["deleted"] is True
    assert views.get(path, **mine).status == 404
    assert views.get(path, **root).json["kind"] == "router"


def test_only_an_admin_without_prefixes_reads_what_the_whole_server_counts(
    views: ApiClient, world: World, keys: Any
) -> None:
    keys(f"all:read+admin,reader:read,mine:read+admin:{world.a}")
    for secret, told in (("all", True), ("reader", False), ("mine", False)):
        text = views.get("/v0/metrics", authorization=f"Bearer {secret}").body.decode()
        assert ("topics_http_requests_total" in text) is told
        assert "topics_topics " in text


def test_a_webhook_with_topics_of_others_is_theirs(views: ApiClient, world: World) -> None:
    path, body = f"/v0/webhooks/{world.a}-in", {"url": "https://example.com/", "topics": [f"{world.b}-home"]}
    mine, root = {"authorization": "Bearer mine"}, {"authorization": "Bearer root"}
    assert views.put(path, body, **root).status == 201
    for method, more in (("GET", ""), ("POST", "/rotate"), ("GET", "/deliveries"), ("DELETE", "")):
        refused = views.call(method, path + more, **mine)
        assert (refused.status, refused.code) == (403, "forbidden")
    assert views.put(path, {**body, "topics": [f"{world.a}-in"]}, **mine).status == 409
    assert views.get("/v0/webhooks", **mine).json["webhooks"] == []
    assert views.delete(path, **root).json["deleted"] is True


LOG = """
INSERT INTO push_webhooklog (webhook_id, ts, topic, first_seq, last_seq, records, message, attempt, state, ms)
SELECT id, 1, topic, 1, 1, 1, 'sent', 1, 'delivered', 1 FROM push_webhook, unnest(%s::text[]) topic WHERE name = %s
"""


def test_the_log_of_a_narrowed_webhook_leaves_out_its_former_topics(views: ApiClient, world: World) -> None:
    path, body = f"/v0/webhooks/{world.a}-in", {"url": "https://example.com/"}
    mine, root = {"authorization": "Bearer mine"}, {"authorization": "Bearer root"}
    views.put(path, {**body, "topics": [f"{world.a}-in", f"{world.b}-home"]}, **root)
    with connection.cursor() as cursor:
        cursor.execute(LOG, [[f"{world.a}-in", f"{world.b}-home", "webhooks.test"], f"{world.a}-in"])
    assert views.put(path, {**body, "topics": [f"{world.a}-in"]}, **root).status == 200

    def told(query: str, who: dict[str, str]) -> list[str]:
        page = views.get(f"{path}/deliveries{query}", **who).json
        return [each["topic"] for each in page["deliveries"]]

    assert told("", root) == ["webhooks.test", f"{world.b}-home", f"{world.a}-in"]
    assert told("", mine) == ["webhooks.test", f"{world.a}-in"]
    assert told(f"?topic={world.b}-home&seq=1", mine) == []
    assert told(f"?topic={world.a}-in&seq=1", mine) == [f"{world.a}-in"]
    assert views.delete(path, **root).json["deleted"] is True


# -- Stamps, byte by byte -----------------------------------------------------------------------------------------

REAL = '"_topics_router":{"router":"b-r","source":"b-s","source_topic_id":7,"source_epoch":7,"source_seq":9,"key":"b-r:7:9"}'
BARE = '"_topics_router":{"router":"*","source":"*","source_topic_id":7,"source_epoch":7,"source_seq":9,"key":"*:7:9"}'


# STAMP is the router's; ALIKE is the same text where a client wrote it.
RECORDS = [
    '{"$seq":1,"$ts":2,"meta":{STAMP},"data":1}',
    '{"$seq":1,"$ts":2,"$node":"x\\",\\"meta\\":","$tag":"t","meta":{ "a" : 1.0E+05,"a":2, STAMP},"data": [ 1 ]}',
    '{"$seq":1,"$ts":2,"meta":{"_topics_router":"b-own",STAMP},"data":{"meta":{ALIKE}}}',
    '{"$seq":1,"$ts":2,"data":{"a":1,"meta":{ALIKE},"data":1}}',
    '{"$seq":1,"$ts":2,"meta":{"x":{ALIKE}},"data":1}',
    '{"$seq":1,"$ts":2,"meta":{ALIKE,"x":1},"data":1}',
    '{"$seq":1,"$ts":2,"meta":{"x":"\\"_topics_router\\":{}"},"data":{ALIKE}}',
    '{"$seq":1,"$ts":2,"meta":{"_topics_router":null},"data":1}',
    '{"$seq":1,"$ts":2,"meta":{"_topics_router":{"router":1}},"data":1}',
]


@pytest.mark.parametrize("text", RECORDS)
def test_a_stamp_is_bared_and_nothing_else_is_touched(text: str) -> None:
    record, seen = (text.replace("ALIKE", REAL).replace("STAMP", stamp) for stamp in (REAL, BARE))
    assert stamps.seen(f"{record},{record}", ("a-",)) == f"{seen},{seen}"
    assert stamps.seen(record, ()) is record
    assert stamps.seen(record, ("b-",)) == record


def test_one_name_of_a_stamp_may_be_seen() -> None:
    record = RECORDS[0].replace("STAMP", REAL)
    assert '"router":"b-r","source":"*"' in stamps.seen(record, ("b-r",))
    assert '"key":"b-r:7:9"' in stamps.seen(record, ("b-r",))
    assert '"router":"*","source":"b-s"' in stamps.seen(record, ("b-s",))
    assert '"key":"*:7:9"' in stamps.seen(record, ("b-s",))


# NAME is that of the queue, or of the topic at another server.
ORIGINS = [
    '{"$seq":1,"$ts":2,"meta":{"$dead_letter_from":"NAME","$dead_letter_src_seq":3,"k" : 1.0E+05,"k":2},"data":["b-n"]}',
    '{"$seq":1,"$ts":2,"meta":{ "$dead_letter_from" : "NAME" },"data":{"meta":{"$dead_letter_from":"b-n"}}}',
    '{"$seq":1,"$ts":2,"meta":{"x":{"$dead_letter_from":"b-o"},"$dead_letter_from":"NAME"},"data":1}',
    '{"$seq":1,"$ts":2,"meta":{"k" : 1,"_topics_mirror":{"topic":"NAME","site":"b-n","seq":3,"ts":4}},"data":1}',
    '{"$seq":1,"$ts":2,"meta":{"$dead_letter_from":"NAME","_topics_mirror":{"topic":"NAME","site":"s","seq":3,"ts":4},'
    f'{BARE}}},"data":1}}',
    '{"$seq":1,"$ts":2,"meta":{"x":{"$dead_letter_from":"b-n"}},"data":"\\"$dead_letter_from\\""}',
    '{"$seq":1,"$ts":2,"data":{"$dead_letter_from":"b-n"}}',
]


@pytest.mark.parametrize("text", ORIGINS)
def test_the_origin_of_a_record_is_bared_and_nothing_else_is_touched(text: str) -> None:
    record, seen = (text.replace("NAME", name) for name in ("b-n", "*"))
    assert stamps.seen(f"{record},{record}", ("a-",)) == f"{seen},{seen}"
    assert stamps.seen(record, ()) is record
    assert stamps.seen(record, ("a-", "b-")) == record

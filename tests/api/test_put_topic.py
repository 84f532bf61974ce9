"""PUT /v0/topics/:topic."""

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
import psycopg
import pytest

from contract import config
from tests.api.clients import ApiClient, HttpClient
from tests.deadlines import DEADLINE
from tests.instances import Instance, until
from topics import limits
from topics.config import LOCK_DEAD_LETTERS, Config, WholeConfig, defaults
from topics.models import Topic

DEFAULTS = {
    "type": "log",
    "ttl_ms": 0,
    "cap_records": 0,
    "cap_bytes": 0,
    "discard": "old",
    "durability": "disk",
    "durable": False,
    "priority": None,
    "auto_priority": True,
    "auto_create": True,
    "idempotency_window_ms": 120_000,
    "dedupe_node": True,
    "numbers": "any",
    "lease_ms": 30_000,
    "claim_jitter_ms": 0,
    "max_deliveries": 0,
    "dead_letter": None,
    "leases_durable": False,
    "unique_tags": False,
    "sealed": False,
}


def test_it_works(api: ApiClient, name: str) -> None:
    made = api.put(f"/v0/topics/{name}")
    assert made.status == 201
    answer = made.json
    assert answer.pop("performance")["server_total_ms"] > 0
    assert answer == {"topic": name, "created": True, "config": DEFAULTS}
    again = api.put(f"/v0/topics/{name}")
    assert (again.status, again.json["created"], again.json["config"]) == (200, False, DEFAULTS)


def test_no_body_is_an_empty_one(api: ApiClient, name: str) -> None:
    assert api.call("PUT", f"/v0/topics/{name}").json["config"] == DEFAULTS


def test_every_field_can_be_set_when_it_is_made_and_later(api: ApiClient, name: str) -> None:
    wanted = {
        "ttl_ms": 3_600_000,
        "cap_records": 10,
        "cap_bytes": 1000,
        "discard": "reject",
        "durability": "memory",
        "priority": 7,
        "auto_priority": False,
        "auto_create": False,
        "idempotency_window_ms": 5,
        "dedupe_node": False,
        "numbers": "double",
        "sealed": True,
    }
    assert api.put(f"/v0/topics/{name}", wanted).json["config"] == {**DEFAULTS, **wanted}
    api.put(f"/v0/topics/{name}-2")
    for field, value in wanted.items():
        changed = api.put(f"/v0/topics/{name}-2", {field: value})
        assert (changed.status, changed.json["config"][field]) == (200, value)
    assert api.get(f"/v0/topics/{name}-2").json["config"] == {**DEFAULTS, **wanted}


def test_an_identical_put_changes_nothing(views: ApiClient, name: str) -> None:
    from topics.models import TopicHead

    def version() -> int:
        return TopicHead.objects.get(topic__name=name).version

    views.put(f"/v0/topics/{name}", {"ttl_ms": 1000})
    before = version()
    views.put(f"/v0/topics/{name}", {"ttl_ms": 1000, "type": "log"})
    views.put(f"/v0/topics/{name}", {})
    assert version() == before
    views.put(f"/v0/topics/{name}", {"ttl_ms": 1001})
    assert version() == before + 1


@pytest.mark.parametrize(
    ("body", "durability"),
    [
        ({"durable": True}, "fsync"),
        ({"durable": False}, "disk"),
        ({"durable": True, "durability": "memory"}, "memory"),
        ({"durable": False, "durability": "fsync"}, "fsync"),
        ({"durability": "ephemeral"}, "ephemeral"),
    ],
)
def test_durable_is_a_shorthand_and_durability_wins(
    api: ApiClient, name: str, body: dict[str, Any], durability: str
) -> None:
    config = api.put(f"/v0/topics/{name}", body).json["config"]
    assert (config["durability"], config["durable"]) == (durability, durability == "fsync")


@pytest.mark.parametrize(("asked", "kept"), [(1001, 1000), (-5000, -1000), (10**15, 1000), (0, 0), (None, None)])
def test_priority_is_clamped(api: ApiClient, name: str, asked: int | None, kept: int | None) -> None:
    answer = api.put(f"/v0/topics/{name}", {"priority": asked}).json
    assert answer["config"]["priority"] == kept
    assert answer.get("clamped") == (None if asked == kept else {"priority": kept})
    made = api.append(f"{name}-2", 1, config={"priority": asked}).json
    assert made.get("clamped") == (None if asked == kept else {"priority": kept})
    assert "clamped" not in api.append(f"{name}-2", 1, config={"priority": 5000}).json  # which did not count


@pytest.mark.parametrize(
    "body",
    [
        {"lease_ms": 100},
        {"claim_jitter_ms": 2},
        {"max_deliveries": 3},
        {"dead_letter": "dead"},
        {"leases_durable": True},
        {"unique_tags": True},
    ],
)
def test_what_is_for_queues_is_refused_for_a_log(api: ApiClient, name: str, body: dict[str, Any]) -> None:
    for refused in (api.put(f"/v0/topics/{name}", body), api.append(name, 1, config=body)):
        assert (refused.status, refused.code, refused.detail) == (400, "invalid_request", {"field": next(iter(body))})
        assert "queues" in refused.json["error"]["message"]
    assert api.get(f"/v0/topics/{name}").status == 404


def test_a_config_may_be_sent_back_as_it_was_shown(api: ApiClient, name: str) -> None:
    shown = api.put(f"/v0/topics/{name}", {"ttl_ms": 5}).json["config"]
    again = api.put(f"/v0/topics/{name}", shown)
    assert (again.status, again.json["config"]) == (200, shown)


def test_dead_letters_never_come_back_to_their_queue(api: ApiClient, name: str) -> None:
    a, b, c = (f"{name}-{letter}" for letter in "abc")

    def queue(dead: str) -> dict[str, Any]:
        return {"type": "queue", "max_deliveries": 1, "dead_letter": dead}

    assert api.put(f"/v0/topics/{b}", queue(c)).status == 201
    assert api.put(f"/v0/topics/{a}", queue(b)).status == 201
    for refused in (api.put(f"/v0/topics/{c}", queue(a)), api.append(c, 1, config=queue(a))):
        assert (refused.status, refused.code, refused.detail) == (409, "dead_letter_cycle", {"cycle": [c, a, b, c]})
    assert api.get(f"/v0/topics/{c}").status == 404
    assert api.put(f"/v0/topics/{c}", queue(f"{name}-end")).status == 201
    refused = api.put(f"/v0/topics/{c}", {"dead_letter": b})
    assert (refused.code, refused.detail) == ("dead_letter_cycle", {"cycle": [c, b, c]})
    assert api.get(f"/v0/topics/{c}").json["config"]["dead_letter"] == f"{name}-end"


def test_two_calls_at_once_make_no_cycle(server: Instance, name: str) -> None:
    """Both wait for the lock, one after they are created, and one before."""
    a, b = f"{name}-a", f"{name}-b"
    HttpClient(server.port).put(f"/v0/topics/{a}", {"type": "queue"})
    with ThreadPoolExecutor() as threads, server.connect() as database, database.transaction():
        database.execute(LOCK_DEAD_LETTERS)
        puts = [
            threads.submit(HttpClient(server.port).put, f"/v0/topics/{queue}", {"type": "queue", "dead_letter": dead})
            for queue, dead in ((a, b), (b, a))
        ]
        until(lambda: waiting(database) == 2, "both to wait")
    assert sorted(each.result(DEADLINE).status for each in puts) in ([200, 409], [201, 409])


def waiting(database: psycopg.Connection[Any]) -> int:
    held = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 7005 AND NOT granted"
    row = database.execute(held).fetchone()
    assert row is not None
    return int(row[0])


def test_the_type_stays(api: ApiClient, name: str) -> None:
    api.put(f"/v0/topics/{name}", {"type": "log"})
    refused = api.put(f"/v0/topics/{name}", {"type": "queue", "ttl_ms": 5})
    assert (refused.status, refused.code) == (409, "topic_exists_incompatible")
    assert api.get(f"/v0/topics/{name}").json["config"] == DEFAULTS


def test_a_lower_cap_evicts_at_once(api: ApiClient, name: str) -> None:
    api.append(name, *range(5))
    api.put(f"/v0/topics/{name}", {"cap_records": 2})
    held = api.get(f"/v0/topics/{name}").json
    assert (held["count"], held["earliest_seq"]) == (2, 4)


def test_a_longer_ttl_brings_nothing_back(api: ApiClient, name: str) -> None:
    api.append(name, 1, 2)
    api.put(f"/v0/topics/{name}", {"ttl_ms": 1})
    time.sleep(0.01)  # over the ttl by any clock
    api.put(f"/v0/topics/{name}", {"ttl_ms": 3_600_000})
    assert api.get(f"/v0/topics/{name}").json["count"] == 0
    assert api.diff(name).json["tombstone"]["reason"] == "ttl"


def test_each_field_is_a_column_with_the_same_default() -> None:
    assert defaults(Topic) == config.DEFAULTS
    assert DEFAULTS == {**config.DEFAULTS, "durable": False}
    assert set(WholeConfig.__struct_fields__) == set(Config.__struct_fields__) == set(DEFAULTS)
    assert msgspec.convert(DEFAULTS, WholeConfig)


@pytest.mark.parametrize("name", ["type", "discard", "durability", "numbers"])
def test_a_column_has_the_values_of_its_field(name: str) -> None:
    for value, _ in Topic._meta.get_field(name).choices:
        assert msgspec.convert({name: value}, Config).given() == {name: value}
    with pytest.raises(msgspec.ValidationError, match=name):
        msgspec.convert({name: "other"}, Config)


REFUSED: list[Any] = [
    b"{",
    b"null",
    b"[]",
    b"1",
    b"\xff",
    {"type": "stream"},
    {"type": None},
    {"ttl_ms": -1},
    {"ttl_ms": 2**63},
    {"ttl_ms": 1.5},
    {"ttl_ms": "1"},
    {"ttl_ms": None},
    {"cap_records": -1},
    {"cap_bytes": True},
    {"discard": "new"},
    {"durability": "paper"},
    {"durable": 1},
    {"priority": "high"},
    {"auto_priority": None},
    {"dedupe_node": "no"},
    {"idempotency_window_ms": -1},
    {"max_deliveries": 2**31},
    {"dead_letter": "no name"},
    {"dead_letter": 5},
    {"dead_letter": "a\0"},
]


@pytest.mark.parametrize("body", REFUSED, ids=str)
@pytest.mark.parametrize("exists", [False, True])
def test_what_makes_no_sense_is_refused(api: ApiClient, name: str, body: Any, exists: bool) -> None:
    if exists:
        api.put(f"/v0/topics/{name}")
    refused = api.put(f"/v0/topics/{name}", body)
    assert (refused.status, refused.code) == (400, "invalid_request")
    assert api.get(f"/v0/topics/{name}").status == (200 if exists else 404)


@pytest.mark.parametrize("bad", ["-a", ".a", "a%20b", "a%00b", "a%ff", "%C3%A9", "a" * 256, "a%3Eb", "a%0A"])
def test_a_bad_name_is_refused(api: ApiClient, bad: str) -> None:
    refused = api.put(f"/v0/topics/{bad}")
    assert (refused.status, refused.code) == (400, "invalid_request")


def test_the_cap_holds_to_the_topic_without_a_count_for_each(
    views: ApiClient, name: str, settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.TOPICS_MAX_TOPICS = Topic.objects.count() + 100
    rooms: list[int] = []
    renew = limits.granted.renew
    monkeypatch.setattr(limits.granted, "renew", lambda room, now: (rooms.append(room), renew(room, now)))
    answers = [views.put(f"/v0/topics/{name}-{n}").status for n in range(102)]
    assert answers == [201] * 100 + [429] * 2
    assert rooms[:3] == [100, 93, 87]  # this one and its share of six, one and its share of five
    assert len(rooms) < 60
    Topic.objects.filter(name=f"{name}-0").delete()
    until(lambda: views.put(f"/v0/topics/{name}-100").status == 201, "the next count to find room")


def test_another_media_type_is_refused(api: ApiClient, name: str) -> None:
    assert api.put(f"/v0/topics/{name}", b"{}", content_type="text/plain").code == "unsupported_media_type"


def test_the_cap_on_topics_is_told(views: ApiClient, name: str, settings, monkeypatch: pytest.MonkeyPatch) -> None:
    views.put(f"/v0/topics/{name}")
    settings.TOPICS_MAX_TOPICS = 1
    monkeypatch.setattr(limits, "FULL_SECONDS", 60)
    monkeypatch.setattr(limits, "granted", limits.Granted())
    refused = views.put(f"/v0/topics/{name}-2")
    assert (refused.status, refused.code) == (429, "throttled")
    assert refused.detail["limit"] == "topics"
    for ttl_ms in (1, 2):  # what is there may still be changed, by a process that remembers it and by one that does not
        assert views.put(f"/v0/topics/{name}", {"ttl_ms": ttl_ms}).status == 200


def test_it_creates_none_where_it_must_not(api: ApiClient, name: str) -> None:
    path = f"/v0/topics/{name}"
    refused = api.put(f"{path}?create=false", {"ttl_ms": 5})
    assert (refused.status, refused.code) == (404, "topic_not_found")
    assert api.get(path).status == 404
    assert api.put(path).status == 201
    changed = api.put(f"{path}?create=false", {"ttl_ms": 5})
    assert (changed.status, changed.json["config"]["ttl_ms"]) == (200, 5)

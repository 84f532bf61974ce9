"""The state of a topic beside its records: pages that another server's sealed topic takes, each row as it was."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tests.api.clients import ApiClient, HttpClient, Reply
from tests.api.test_sealed import seal
from tests.groups.member import session_of
from tests.instances import Instance, until

ID = "00000000-0000-4000-8000-000000000000"
LEASE = {"seq": 1, "node": None, "id": None, "deadline": 1, "deliveries": 1, "claimed_ts": 1, "error": None}
SCHEDULE = {
    "name": "s",
    "cron": None,
    "timezone": "UTC",
    "due_ts": 1,
    "jobs": 0,
    "last_ts": None,
    "last_seq": None,
    "tag": None,
    "node": None,
    "data": 1,
}
SHARE = {"share": 0, "seq": 0, "generation": 1, "updated_ts": 1}
GROUP = {"name": "g", "partition_by": "tag", "partitions": 1, "start": "from_seq=0", "created_ts": 1, "shares": [SHARE]}
SITE = {
    "site": "fra",
    "is_here": False,
    "origin_seq": 0,
    "origin_ts": None,
    "read_seq": None,
    "lost": 0,
    "lost_ts": None,
    "losses": [],
}


def raw_rows(live: ApiClient, topic: str, kind: str) -> list[msgspec.Raw]:
    """Every row of a kind, in the bytes of the answer."""
    found, cursor = list[msgspec.Raw](), ""
    while True:
        page = live.get(f"/v0/topics/{topic}/state/{kind}?cursor={cursor}")
        found += msgspec.json.decode(fields(page)["rows"], type=list[msgspec.Raw])
        cursor = page.json.get("next_cursor", "")
        if not cursor:
            return found


def fields(reply: Reply) -> dict[str, msgspec.Raw]:
    """The fields of an answer, in its bytes."""
    return msgspec.json.decode(reply.body, type=dict[str, msgspec.Raw])


def rows(live: ApiClient, topic: str, kind: str) -> list[Any]:
    """Every row of a kind."""
    return [msgspec.json.decode(row) for row in raw_rows(live, topic, kind)]


def put(live: ApiClient, topic: str, kind: str, *given: Any) -> Reply:
    return live.post(f"/v0/topics/{topic}/state/{kind}", {"rows": list(given)})


def moved(live: ApiClient, name: str, *kinds: str, **config: Any) -> str:
    """Copies records and state into a sealed topic, twice, and opens it."""
    dest = f"{name}-dest"
    records = live.diff(name, include_tags=True).json
    assert live.put(f"/v0/topics/{dest}", {**config, "sealed": True}).status == 201
    copied = {"copy": True, "records": records["records"], "head_seq": records["head_seq"]}
    assert live.post(f"/v0/topics/{dest}", copied).status == 200
    for _ in range(2):
        for kind in kinds:
            found = raw_rows(live, name, kind)
            written = live.post(f"/v0/topics/{dest}/state/{kind}", msgspec.json.encode({"rows": found}))
            assert written.status == 200, written.body
            assert written.json["count"] == len(found)
    live.put(f"/v0/topics/{dest}", {"sealed": False})
    return dest


def test_keys_are_known_to_the_copy(api: ApiClient, name: str) -> None:
    api.post(f"/v0/topics/{name}", {"records": [{"data": 1}, {"data": 2}], "idempotency_key": "both"})
    api.post(f"/v0/topics/{name}", {"records": [{"data": 3}], "idempotency_keys": ["three"]})
    dest = moved(api, name, "keys")
    assert rows(api, dest, "keys") == rows(api, name, "keys")
    again = api.post(f"/v0/topics/{dest}", {"records": [{"data": 1}, {"data": 2}], "idempotency_key": "both"}).json
    assert (again["deduped"], again["seqs"]) == (True, [1, 2])
    straddles = {"records": [{"data": 3}, {"data": 4}], "idempotency_keys": ["three", "four"]}
    assert api.post(f"/v0/topics/{dest}", straddles).json["seqs"] == [3, 4]
    other = api.post(f"/v0/topics/{dest}", {"records": [{"data": "x"}], "idempotency_keys": ["three"]})
    assert other.code == "idempotency_mismatch"


def test_keys_of_sql_are_known_to_the_copy(server: Instance, api: ApiClient, name: str) -> None:
    append = "SELECT first_seq FROM topics.append(%s, '[{\"data\": 1}]', idempotency_key => 'k')"
    with server.connect() as app:
        assert app.execute(append, [name]).fetchone() == (1,)
        dest = moved(api, name, "keys")
        assert rows(api, dest, "keys") == rows(api, name, "keys")
        assert app.execute(append, [dest]).fetchone() == (1,)
    assert api.get(f"/v0/topics/{dest}").json["head_seq"] == 1


def test_keys_outside_the_window_are_left_out(api: ApiClient, name: str) -> None:
    api.put(f"/v0/topics/{name}", {"idempotency_window_ms": 1})
    api.post(f"/v0/topics/{name}", {"records": [{"data": 1}], "idempotency_key": "old"})
    until(lambda: rows(api, name, "keys") == [], "the end of the window")


def test_keys_of_the_last_time_alone(api: ApiClient, name: str) -> None:
    api.post(f"/v0/topics/{name}", {"records": [{"data": 1}], "idempotency_key": "new"})
    page = f"/v0/topics/{name}/state/keys?max_age_ms="
    until(lambda: api.get(f"{page}1").json["rows"] == [], "the key to be older")
    assert [each["key"] for each in api.get(f"{page}600000").json["rows"]] == ["new"]


def test_a_lease_keeps_its_deadline_and_its_deliveries(api: ApiClient, name: str) -> None:
    api.put(f"/v0/topics/{name}", {"type": "queue"})
    api.post(f"/v0/topics/{name}", {"records": [{"data": n} for n in range(6)]})
    claimed = api.post(f"/v0/topics/{name}/claim", {"node": "w", "max": 4, "lease_ms": 600_000}).json["claimed"]
    api.post(f"/v0/topics/{name}/ack", {"node": "w", "seqs": [1]})
    api.post(f"/v0/topics/{name}/nack", {"node": "w", "seqs": [2], "delay_ms": 600_000, "error": "later"})
    api.post(f"/v0/topics/{name}/nack", {"node": "w", "seqs": [3]})
    before = api.get(f"/v0/topics/{name}").json["queue"]
    dest = moved(api, name, "leases", "queue", type="queue")
    after = api.get(f"/v0/topics/{dest}").json["queue"]
    assert {**after, "oldest_ready_ms": 0} == {**before, "oldest_ready_ms": 0}
    assert rows(api, dest, "leases") == rows(api, name, "leases")
    next_jobs = api.post(f"/v0/topics/{dest}/claim", {"node": "v", "max": 10}).json["claimed"]
    assert [(each["$seq"], each["deliveries"]) for each in next_jobs] == [(3, 2), (5, 1), (6, 1)]
    acked = {"node": "w", "seqs": [4], "lease_ids": [claimed[3]["lease_id"]]}
    assert api.post(f"/v0/topics/{dest}/ack", acked).json["acked"] == 1


def test_a_job_that_could_not_become_a_dead_letter_moves(api: ApiClient, name: str) -> None:
    seal(api, f"{name}-dead")
    config = {"type": "queue", "max_deliveries": 1, "dead_letter": f"{name}-dead"}
    api.put(f"/v0/topics/{name}", config)
    api.post(f"/v0/topics/{name}", {"records": [{"data": 1}]})
    api.post(f"/v0/topics/{name}/claim", {"node": "w"})
    api.post(f"/v0/topics/{name}/nack", {"node": "w", "seqs": [1]})
    assert api.post(f"/v0/topics/{name}/claim", {"node": "w"}).json["claimed"] == []
    (lease,) = rows(api, name, "leases")
    assert (lease["node"], lease["id"]) == ("", None)
    dest = moved(api, name, "leases", "queue", **config)
    assert rows(api, dest, "leases") == [lease]
    assert api.get(f"/v0/topics/{dest}").json["queue"]["in_flight"] == 1


def test_a_queue_that_nobody_claimed_from_moves(api: ApiClient, name: str) -> None:
    api.put(f"/v0/topics/{name}", {"type": "queue"})
    api.post(f"/v0/topics/{name}", {"records": [{"data": 1}]})
    dest = moved(api, name, "leases", "queue", type="queue")
    assert api.post(f"/v0/topics/{dest}/claim", {"node": "w"}).json["claimed"][0]["$seq"] == 1


def test_schedules_keep_their_times_and_records(api: ApiClient, name: str) -> None:
    api.put(f"/v0/topics/{name}", {"type": "queue"})
    schedules = f"/v0/topics/{name}/schedules"
    api.put(f"{schedules}/once", {"not_before": 2**42, "data": {"x": 1.50}, "meta": {"m": 1}, "tag": "t", "node": "n"})
    api.put(f"{schedules}/daily", {"cron": "0 3 * * *", "timezone": "Europe/Berlin", "data": None})
    texts = {"nul": rb'"\u0000"', "field": rb'{"a": "\u0000"}', "escape": rb'"caf\u00e9"', "number": b"1.50"}
    for each, text in texts.items():
        body = b'{"not_before": %d, "data": %b, "meta": {"m": %b}}' % (2**42, text, text)
        assert api.put(f"{schedules}/{each}", body).status == 201
    dest = moved(api, name, "schedules", type="queue")
    for each in ("once", "daily", *texts):
        shown = [fields(api.get(f"/v0/topics/{topic}/schedules/{each}")) for topic in (name, dest)]
        for answer in shown:
            del answer["performance"], answer["topic"]
        assert shown[0] == shown[1]
        assert bytes(shown[1]["data"]) == texts.get(each, bytes(shown[0]["data"]))


def test_a_schedule_that_is_due_gives_its_job_after_the_move(api: ApiClient, name: str) -> None:
    api.put(f"/v0/topics/{name}", {"type": "queue"})
    seal(api, name)
    api.put(f"/v0/topics/{name}/schedules/now", {"not_before": 1, "data": "due"})
    dest = moved(api, name, "done", "schedules", type="queue")
    until(lambda: api.diff(dest).json["records"], "the job")
    assert [each["data"] for each in api.diff(dest).json["records"]] == ["due"]
    last = moved(api, dest, "done", "schedules", type="queue")
    repeated = api.put(f"/v0/topics/{last}/schedules/now", {"not_before": 1, "data": "due"}).json
    assert (repeated["created"], repeated["last_seq"]) == (False, 1)


def test_a_group_continues_at_its_commits(server: Any, api: ApiClient, name: str) -> None:
    api.post(f"/v0/topics/{name}", {"records": [{"data": n, "tag": str(n)} for n in range(20)]})
    session = session_of(server.port, name, "g")
    shares = [each for each in api.get(f"/v0/topics/{name}/groups/g").json["shares"] if each["member"]]
    commit = [{"share": each["share"], "generation": each["generation"], "seq": 7} for each in shares]
    assert api.post(f"/v0/topics/{name}/groups/g/commit", {"session": session, "shares": commit}).status == 200
    dest = moved(api, name, "groups")
    group = api.get(f"/v0/topics/{dest}/groups/g").json
    assert [each["seq"] for each in group["shares"]] == [7] * len(shares)
    assert (group["member_count"], group["start"]) == (0, "from_seq=0")
    stale = api.post(f"/v0/topics/{dest}/groups/g/commit", {"session": session, "shares": commit})
    assert stale.code == "session_ended"


def test_a_mirror_continues_at_its_positions(api: ApiClient, name: str) -> None:
    handover = {"here": "iad", "source": "fra", "from_seq": 0, "next_from_seq": 9}
    handover["records"] = [{"$seq": 7, "$ts": 1, "data": 1}]
    assert api.post(f"/v0/topics/{name}/mirror", handover).status == 201
    dest = moved(api, name, "sites")
    mirrors = [api.get(f"/v0/topics/{topic}/mirror").json for topic in (name, dest)]
    for each in mirrors:
        del each["performance"], each["topic"], each["sites"][0]["updated_ts"]
    assert mirrors[0] == mirrors[1]
    assert api.post(f"/v0/topics/{dest}/mirror", handover).code == "cursor_moved"


def test_only_a_sealed_topic_takes_state(api: ApiClient, name: str) -> None:
    api.put(f"/v0/topics/{name}", {})
    key = {"key": "k", "first_seq": 1, "last_seq": 1, "ts": 1, "digest": None}
    assert put(api, name, "keys", key).code == "topic_not_sealed"
    assert put(api, f"{name}-absent", "keys", key).code == "topic_not_found"


def test_state_keeps_within_the_caps(instances: Callable[..., Instance], name: str) -> None:
    api = HttpClient(instances(TOPICS_MAX_SCHEDULES="1", TOPICS_MAX_GROUPS="1").port)
    for kind, row, config in (("schedules", {**SCHEDULE, "due_ts": 2**42}, {"type": "queue"}), ("groups", GROUP, {})):
        topic = f"{name}-{kind}"
        api.put(f"/v0/topics/{topic}", {**config, "sealed": True})
        assert [put(api, topic, kind, row).status for _ in range(2)] == [200, 200]
        refused = put(api, topic, kind, {**row, "name": "another"})
        assert (refused.status, refused.detail) == (429, {"limit": kind, "max": 1})
        assert [each["name"] for each in rows(api, topic, kind)] == [row["name"]]


@pytest.mark.parametrize(
    ("kind", "row"),
    [
        ("nonsense", {}),
        ("keys", {"key": "k"}),
        ("keys", {"key": "\0", "first_seq": 1, "last_seq": 1, "ts": 1, "digest": None}),
        ("keys", {"key": "k", "first_seq": 1, "last_seq": 1, "ts": 2**70, "digest": None}),
        ("keys", {"key": "k", "first_seq": 1, "last_seq": 1, "ts": 1, "digest": "zz"}),
        ("leases", {"seq": 1}),
        ("schedules", {"name": "s"}),
        ("groups", {"name": "g"}),
        ("sites", {"site": "\ud800"}),
        ("keys", {"key": "k", "first_seq": 3, "last_seq": 2, "ts": 1}),
        ("leases", {**LEASE, "seq": 4}),
        ("leases", {**LEASE, "node": "w"}),
        ("leases", {**LEASE, "node": "", "id": ID}),
        ("leases", {**LEASE, "node": "n" * 5_000, "id": ID}),
        ("leases", {**LEASE, "error": "e" * 5_000}),
        ("queue", {"next_seq": 4, "dead_lettered": 0}),
        ("done", {"name": "s", "not_before": 1, "digest": "0" * 32, "ts": 1, "seq": 4}),
        ("done", {"name": "s\n", "not_before": 1, "digest": "0" * 32, "ts": 1, "seq": 1}),
        ("schedules", {**SCHEDULE, "name": "s\n"}),
        ("schedules", {**SCHEDULE, "last_seq": 4}),
        ("schedules", {**SCHEDULE, "timezone": "Mars/Olympus"}),
        ("schedules", {**SCHEDULE, "tag": "t" * 5_000}),
        ("schedules", {**SCHEDULE, "not_before": 2**62}),
        ("groups", {**GROUP, "name": "g\n"}),
        ("groups", {**GROUP, "start": "somewhere"}),
        ("groups", {**GROUP, "partition_by": "$" * 5_000}),
        ("groups", {**GROUP, "shares": [{**SHARE, "seq": 4}]}),
        ("groups", {**GROUP, "shares": []}),
        ("groups", {**GROUP, "shares": [{**SHARE, "share": 1}]}),
        ("sites", {**SITE, "site": "fra\n"}),
        ("sites", {**SITE, "losses": [{"lost_seq": 1, "told_seq": 4}]}),
        ("sites", {**SITE, "losses": [{"lost_seq": 1, "told_seq": 1}] * 101}),
    ],
)
def test_what_is_no_row_is_refused(api: ApiClient, name: str, kind: str, row: Any) -> None:
    api.post(f"/v0/topics/{name}", {"records": [{"data": n} for n in range(3)], "config": {"type": "queue"}})
    api.put(f"/v0/topics/{name}", {"sealed": True})
    refused = put(api, name, kind, row)
    assert (refused.status, refused.code) == (400, "invalid_request"), refused.body
    if kind != "nonsense":
        assert rows(api, name, kind) == []


def test_batches_of_spark_are_known_to_the_copy(api: ApiClient, name: str) -> None:
    api.put(f"/v0/topics/{name}", {})
    written = [
        {"writer": writer, "partition": partition, "batch": 3, "records": 5, "ts": 1}
        for writer in ("query:a", "query:a b")
        for partition in (-1, 0, 2, 10)
    ]
    dest = f"{name}-dest"
    seal(api, dest)
    assert put(api, dest, "writes", *written).json["count"] == 8
    assert rows(api, dest, "writes") == written


@pytest.mark.parametrize(
    ("kind", "row", "said"),
    [
        ("keys", {"key": "k", "first_seq": 1, "last_seq": 1, "ts": 1}, "the same key"),
        ("writes", {"writer": "w", "partition": 0, "batch": 1, "records": 1, "ts": 1}, "the same writer and partition"),
    ],
)
def test_a_row_is_given_once(api: ApiClient, name: str, kind: str, row: dict[str, Any], said: str) -> None:
    api.put(f"/v0/topics/{name}", {"sealed": True})
    refused = put(api, name, kind, row, row)
    assert (refused.status, refused.code) == (400, "invalid_request")
    assert said in refused.json["error"]["message"]


def test_a_share_is_given_once(api: ApiClient, name: str) -> None:
    api.put(f"/v0/topics/{name}", {"sealed": True})
    refused = put(api, name, "groups", {**GROUP, "shares": [SHARE, SHARE]})
    assert (refused.status, refused.code) == (400, "invalid_request")

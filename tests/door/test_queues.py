"""Jobs of a queue, in the transactions of their workers."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from tests.api.clients import HttpClient
from tests.deadlines import DEADLINE
from tests.door.conftest import Session, rolled_back
from tests.instances import until

LEASE_MS = 60_000
CLAIM = "SELECT seq, lease_id, tag, deliveries, meta::text, data::text FROM topics.claim(%s, %s, %s, %s)"
ACK = "SELECT seq, settled FROM topics.ack(%s, %s, %s, %s)"
WAITS = "SELECT FROM pg_stat_activity WHERE pid = %s AND wait_event_type = 'Lock'"
NOW = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint"


def test_a_job_ends_with_the_rows_of_its_worker(app: Session, live: HttpClient, name: str) -> None:
    live.put(f"/v0/topics/{name}", {"type": "queue"})
    live.post(f"/v0/topics/{name}", {"records": [{"data": {"n": 1}, "tag": "a", "meta": {"m": 1}}, {"data": 2}]})
    (seq, lease, tag, deliveries, meta, data), (second, *_) = app.execute(CLAIM, [name, "w", 5, None]).fetchall()
    assert (seq, tag, deliveries, json.loads(meta), json.loads(data), second) == (1, "a", 1, {"m": 1}, {"n": 1}, 2)
    with rolled_back(app):
        assert app.execute(ACK, [name, "w", [1], [lease]]).fetchall() == [(1, True)]
    assert app.execute(ACK, [name, "w", [1, 2, 9], None]).fetchall() == [(1, True), (2, True), (9, False)]
    assert app.execute(ACK, [name, "w", [1], [lease]]).fetchall() == [(1, False)]
    assert live.get(f"/v0/topics/{name}").json["count"] == 0


def test_a_rolled_back_claim_is_none(app: Session, live: HttpClient, name: str) -> None:
    live.put(f"/v0/topics/{name}", {"type": "queue"})
    live.append(name, 1)
    with rolled_back(app):
        assert len(app.execute(CLAIM, [name, "w", 1, None]).fetchall()) == 1
    claimed = live.post(f"/v0/topics/{name}/claim", {"node": "other"}).json["claimed"]
    assert [(job["$seq"], job["deliveries"]) for job in claimed] == [(1, 1)]


@pytest.mark.guarantee("Q1")
def test_a_lease_begins_after_the_wait_for_the_queue(
    app: Session, owner: Session, login: Callable[..., Session], live: HttpClient, name: str
) -> None:
    live.put(f"/v0/topics/{name}", {"type": "queue"})
    live.append(name, 1, 2)
    other = login("topics_writer", "topics_reader")
    wanted = [name, "late", 1, LEASE_MS]
    with ThreadPoolExecutor(1) as thread:
        with app.transaction():
            app.execute(CLAIM, [name, "early", 1, None])
            waiting = thread.submit(other.execute, "SELECT seq, deadline FROM topics.claim(%s, %s, %s, %s)", wanted)
            until(lambda: owner.execute(WAITS, [other.info.backend_pid]).rowcount, "the claim to wait")
            ((released,),) = owner.execute(NOW).fetchall()
        ((seq, deadline),) = waiting.result(DEADLINE).fetchall()
    assert seq == 2
    assert deadline >= released + LEASE_MS


def test_a_job_that_fails_too_often_becomes_a_dead_letter(app: Session, live: HttpClient, name: str) -> None:
    dead = f"{name}-dead"
    live.put(f"/v0/topics/{name}", {"type": "queue", "max_deliveries": 1, "dead_letter": dead})
    live.post(f"/v0/topics/{name}", {"records": [{"data": 1, "meta": {"a": 1}, "tag": "t"}]})
    app.execute(CLAIM, [name, "w", 1, None])
    nack = "SELECT seq, settled FROM topics.nack(%s, 'w', '{1}', error => 'exit code 1')"
    assert app.execute(nack, [name]).fetchall() == [(1, True)]
    assert app.execute(CLAIM, [name, "w", 1, None]).fetchall() == []
    (letter,) = live.diff(dead, include_tags=True).json["records"]
    assert letter["meta"] == {
        "$dead_letter_from": name,
        "$dead_letter_deliveries": 1,
        "$dead_letter_src_seq": 1,
        "$dead_letter_error": "exit code 1",
        "a": 1,
    }
    assert (letter["data"], letter["$tag"]) == (1, "t")
    assert live.get(f"/v0/topics/{name}").json["queue"]["dead_lettered"] == 1


@pytest.mark.parametrize(
    ("call", "path", "body"),
    [
        ("topics.claim({}, '')", "claim", {"node": ""}),
        ("topics.claim({}, 'w', 0)", "claim", {"node": "w", "max": 0}),
        ("topics.claim({}, '', 0)", "claim", {"node": "", "max": 0}),
        ("topics.claim({}, 'w', 1, 99)", "claim", {"node": "w", "lease_ms": 99}),
        ("topics.claim({}, 'w')", "claim", {"node": "w"}),
        ("topics.ack({}, 'w', '{{1}}', '{{}}')", "ack", {"node": "w", "seqs": [1], "lease_ids": []}),
        ("topics.ack({}, 'w', array_fill(1::bigint, ARRAY[1001]))", "ack", {"node": "w", "seqs": [1] * 1001}),
        ("topics.nack({}, 'w', '{{1}}', delay_ms => -1)", "nack", {"node": "w", "seqs": [1], "delay_ms": -1}),
        (
            "topics.nack({}, 'w', '{{1}}', error => repeat('x', 2049))",
            "nack",
            {"node": "w", "seqs": [1], "error": "x" * 2049},
        ),
    ],
)
def test_refusals_are_those_of_http(
    app: Session, live: HttpClient, call: str, path: str, body: object, name: str
) -> None:
    """A claim also asks a log, which has no jobs."""
    live.put(f"/v0/topics/{name}", {"type": "log" if body == {"node": "w"} else "queue"})
    live.put(f"/v0/topics/{name}-log", {})
    for topic in (name, f"{name}-log") if path == "claim" else (name,):
        with pytest.raises(psycopg.Error) as error:
            app.execute(f"SELECT * FROM {call.format('%s')}", [topic])
        reply = live.post(f"/v0/topics/{topic}/{path}", body)
        told = error.value.diag
        assert (told.message_detail, told.message_primary) == (reply.code, reply.json["error"]["message"])


def test_the_lag_is_that_of_http(app: Session, live: HttpClient, name: str) -> None:
    def lag(topic: str, cursor: str | None = None) -> tuple[int, bool]:
        ((count, oldest_ms),) = app.execute("SELECT * FROM topics.lag(%s, %s)", [topic, cursor]).fetchall()
        return count, oldest_ms is not None

    queue = f"{name}-queue"
    live.put(f"/v0/topics/{queue}", {"type": "queue"})
    live.append(queue, 1, 2)
    app.execute(CLAIM, [queue, "w", 1, None])
    assert lag(queue) == (1, True)
    app.execute(CLAIM, [queue, "w", 1, None])
    assert lag(queue) == (0, False)
    live.append(name, *range(5))
    assert lag(name, "new") == (5, True)
    app.execute("SELECT topics.commit_cursor(%s, 'c', 3)", [name])
    assert lag(name, "c") == (live.get(f"/v0/topics/{name}/cursors/c").json["lag"], True) == (2, True)
    app.execute("SELECT topics.commit_cursor(%s, 'c', 5)", [name])
    assert lag(name, "c") == (0, False)
    with pytest.raises(psycopg.Error) as refused:
        lag(name)
    assert refused.value.diag.message_detail == "not_a_queue"

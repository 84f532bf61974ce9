"""The log without load: over HTTP, by SQL, and stored records that no topic shows."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any, TypeVar

import psycopg

from tests.crash.harness.client import Client
from tests.crash.harness.evidence import Entry, Evidence, History, Log
from tests.crash.harness.topology import Topic

Found = TypeVar("Found")
SETTLE_SECONDS = 40.0  # for reclaim and expiry, whose beats come every two seconds

HEADS = "SELECT t.name, h.head_seq FROM topics_topic t JOIN topics_topichead h ON h.topic_id = t.id"
ROUTERS_BEHIND = """
SELECT r.name, r.state, h.head_seq - c.seq FROM routers_router r JOIN topics_cursor c ON c.id = r.cursor_id
  JOIN topics_topichead h ON h.topic_id = r.source_id WHERE c.seq <> h.head_seq ORDER BY 1
"""
CURSORS_AHEAD = """
SELECT c.kind, c.name, t.name, c.seq, h.head_seq FROM topics_cursor c JOIN topics_topic t ON t.id = c.topic_id
  JOIN topics_topichead h ON h.topic_id = t.id WHERE c.seq > h.head_seq
"""
LOG = """
SELECT l.seq, l.data::text::json #>> '{}', r.size FROM topic_log l
  JOIN topics_record r ON r.topic_id = l.home_topic_id AND r.seq = l.home_seq WHERE l.topic = %s ORDER BY 1
"""
# Rows that reclaim had to leave are looked at again after a minute. No process waits that long here.
LOOK_AGAIN_NOW = "UPDATE topics_reclaim SET updated_ts = 0 WHERE held_records > 0"
STORED = "SELECT topic_id, seq FROM topics_record"
SHOWN = "SELECT home_topic_id, home_seq FROM topic_log"
# As docs/concurrency.md has it: a span below its topic's floor stays while it is a cycle's evidence (its home row is stored),
# or a loss that some router has yet to tell.
LEFT_SPANS = """
SELECT coalesce(t.name, 'deleted topic ' || s.topic_id), s.first_seq
  FROM topics_span s LEFT JOIN topics_topic t ON t.id = s.topic_id LEFT JOIN topics_topichead h ON h.topic_id = s.topic_id
 WHERE (h.topic_id IS NULL OR s.last_seq <= h.floor_seq)
   AND NOT (s.home_id IS NOT NULL AND EXISTS (SELECT FROM routers_router r WHERE r.dest_id = s.topic_id AND r.cyclic)
            AND reclaim_stored(s.home_id, s.home_first_seq, s.home_last_seq))
   AND NOT (s.home_id IS NULL AND EXISTS (
            SELECT FROM topics_cursor c WHERE c.topic_id = s.topic_id AND c.kind = 'router' AND c.seq < s.last_seq))
"""


def behind(connection: psycopg.Connection[Any]) -> list[str]:
    """Routers that have not forwarded all of their source."""
    rows = connection.execute(ROUTERS_BEHIND).fetchall()
    return [f"router {name} ({state}) is {lag} seqs behind its source" for name, state, lag in rows]


def heads(connection: psycopg.Connection[Any]) -> dict[str, int]:
    return dict(connection.execute(HEADS).fetchall())


def cursors_ahead(connection: psycopg.Connection[Any]) -> list[str]:
    rows = connection.execute(CURSORS_AHEAD).fetchall()
    return [
        f"the {kind} cursor {name} of {topic} stands at {seq}, the head is {head}"
        for kind, name, topic, seq, head in rows
    ]


def leftovers(connection: psycopg.Connection[Any]) -> list[str]:
    """Stored records that no topic shows, after reclaim had enough time."""
    return settled(lambda: look_for_leftovers(connection), lambda found: not found)


def look_for_leftovers(connection: psycopg.Connection[Any]) -> list[str]:
    connection.execute(LOOK_AGAIN_NOW)
    unshown = set(connection.execute(STORED).fetchall()) - set(connection.execute(SHOWN).fetchall())
    records: dict[int, list[int]] = defaultdict(list)
    for topic_id, seq in unshown:
        records[topic_id].append(seq)
    spans: dict[str, list[int]] = defaultdict(list)
    for topic, first_seq in connection.execute(LEFT_SPANS).fetchall():
        spans[topic].append(first_seq)
    return [
        *(
            f"{len(seqs)} records of topic {id}, from seq {min(seqs)} on, are shown by none"
            for id, seqs in records.items()
        ),
        *(
            f"{len(seqs)} spans of {topic}, from seq {min(seqs)} on, lie below its floor"
            for topic, seqs in spans.items()
        ),
    ]


def read_log(client: Client, connection: psycopg.Connection[Any], evidence: Evidence, topic: Topic) -> Log:
    """The whole topic, as the reader "final" gets it, and as the database has it. With a TTL: at a quiet moment."""
    log = settled(lambda: look_at(client, connection, evidence, topic), agrees)
    evidence.logs[topic.name] = log
    return log


def agrees(log: Log) -> bool:
    """Whether nothing expired while we looked."""
    return log.count == len(log.records) == len(log.sql_records)


def look_at(client: Client, connection: psycopg.Connection[Any], evidence: Evidence, topic: Topic) -> Log:
    history = evidence.history("final", topic.name)
    records = read_all(client, history)
    said = client.insist("GET", f"/v0/topics/{topic.name}")
    rows = connection.execute(LOG, [topic.name]).fetchall()
    counters = (said["head_seq"], said["earliest_seq"], said["count"], said["bytes"])
    by_sql = [Entry(seq, data) for seq, data, _ in rows]
    return Log(topic.name, *counters, records, by_sql, sum(size for _, _, size in rows))


def read_all(client: Client, history: History) -> list[Entry]:
    found: list[Entry] = []
    while True:
        body = {"from_seq": history.position, "limit": 1000}
        window = client.insist("POST", f"/v0/topics/{history.topic}/diff", body)
        if window["tombstone"]:
            history.told(window["tombstone"])
        history.delivered(window["records"])
        history.reached(window["next_from_seq"], window["head_seq"])
        found += [Entry(record["$seq"], record["data"], record.get("meta")) for record in window["records"]]
        if window["caught_up"]:
            return found


def settled(look: Callable[[], Found], fine: Callable[[Found], bool]) -> Found:
    """What a look finds once it is fine; the last one when the time is over."""
    deadline = time.monotonic() + SETTLE_SECONDS
    while not fine(found := look()) and time.monotonic() < deadline:
        time.sleep(1)
    return found

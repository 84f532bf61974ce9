"""Forwarding by spans, compared with an INSERT … SELECT that copies the same records."""

from __future__ import annotations

import http.client
import json
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import psycopg

from bench.client import Client
from bench.fill import fill
from bench.load import post
from bench.log import ONE
from bench.report import Row
from tests.instances import Instance, until

DESTS = 100
ADVANCE = (
    "SELECT count(*) FROM routers_advance((SELECT id FROM topics_topic WHERE name = %s), NULL, false, 10000, %s, 8)"
)
COPY = """
INSERT INTO topics_record_logged (topic_id, seq, ts, total, size, node, tag, meta, data)
SELECT -dest, seq, ts, total, size, node, tag, meta, data
  FROM topics_record_logged, generate_series(1, %s) dest
 WHERE topic_id = (SELECT id FROM topics_topic WHERE name = %s) AND seq <= %s
"""
# Spans of one length over a topic's records, like the result of many forwards of `size` records each.
SPANS = """
WITH source AS (
    SELECT h.topic_id, h.head_seq FROM topics_topichead h JOIN topics_topic t ON t.id = h.topic_id WHERE t.name = %(home)s),
dest AS (
    UPDATE topics_topichead head SET head_seq = source.head_seq, holes_seq = source.head_seq, count = source.head_seq
      FROM source, topics_topic t
     WHERE t.name = %(dest)s AND head.topic_id = t.id
    RETURNING head.topic_id)
INSERT INTO topics_span (topic_id, first_seq, last_seq, home_id, home_first_seq, home_last_seq, ts, shown,
                          keep_node, keep_tag, path)
SELECT dest.topic_id, n, n + %(size)s - 1, source.topic_id, n, n + %(size)s - 1, 1748470000600, true, true, true, '{bench}'
  FROM source, dest, generate_series(1, source.head_seq, %(size)s) n
"""


def now_ms() -> int:
    return int(time.time() * 1000)


def run(instance: Instance) -> Iterator[Row]:
    client = Client(instance.port)
    with instance.connect() as connection:
        yield fan_out(client, connection)
        yield forward_rate(client, connection)
        yield wal(client, connection)
        yield one_hop(client, instance)
        yield source_rate(client, instance)
        yield from span_reads(client, connection, instance)
        yield chain(client)
        yield read_after_ack(client)


def dests(client: Client, source: str, **config: Any) -> None:
    for n in range(DESTS):
        client.router(f"{source}-{n}", source=source, dest=f"{source}:{n}", **config)


def heads(connection: psycopg.Connection[Any], source: str) -> int:
    """Returns the lowest head of a source's dests."""
    found = connection.execute(
        "SELECT min(head_seq) FROM topics_topichead h JOIN topics_topic t ON t.id = h.topic_id WHERE name LIKE %s",
        [f"{source}:%"],
    ).fetchone()
    return int(found[0]) if found else 0


def fan_out(client: Client, connection: psycopg.Connection[Any]) -> Row:
    """Returns a row for 10,000 records in a topic with 100 routers: the time until every dest has the last record."""
    took = []
    for round in range(5):
        source = f"fan{round}"
        dests(client, source)
        for _ in range(10):
            client.append(source, [{"id": n, "note": "x" * 90} for n in range(1000)])
        acked = time.perf_counter()
        until(lambda topic=source: heads(connection, topic) == 10_000, "all dests", tick=0.0005)  # type: ignore[misc]
        took.append((time.perf_counter() - acked) * 1000)
    visible = statistics.median(took)
    shown = f"{visible:.0f} ms ({min(took):.0f} to {max(took):.0f})"
    return Row("10,000 records to 100 dests: all visible after the last ack", "< 150 ms", shown, ok=visible < 150)


def forward_rate(client: Client, connection: psycopg.Connection[Any]) -> Row:
    """Returns a row that compares the statement that forwards 10,000 records to 100 dests with a copy to 10 dests."""
    dests(client, "rate", paused=True)
    forwarding = 0.0
    for _ in range(3):  # only the last counts, because a worker's connection has also run the statement before
        client.append("rate", [{"id": n, "note": "x" * 90} for n in range(10_000)])
        connection.execute("UPDATE routers_router SET state = 'running' WHERE name LIKE 'rate-%'")
        forwarding, _ = timed(lambda: connection.execute(ADVANCE, ["rate", now_ms()]))
        connection.execute("UPDATE routers_router SET state = 'paused' WHERE name LIKE 'rate-%'")
    copying, _ = timed(lambda: connection.execute(COPY, [10, "rate", 10_000]))
    connection.execute("DELETE FROM topics_record_logged WHERE topic_id < 0")
    rate, copied = DESTS * 10_000 / forwarding / 1000, 10 * 10_000 / copying / 1000
    return Row(
        "forwarding 10,000 records to 100 dests, the statement",
        "≥ 100x the copying rate",
        f"{forwarding:.1f} ms: {rate:.1f} M records/s",
        f"copying {copied:.2f} M/s",
        f"{rate / copied:.0f}x",
        rate >= 100 * copied,
    )


def wal(client: Client, connection: psycopg.Connection[Any]) -> Row:
    """Returns a row for the WAL of forwarding 1,000 records to 100 dests.

    Earlier rounds have already written the pages since the checkpoint.
    """
    dests(client, "wal", paused=True)
    written = 0.0
    for _ in range(3):
        client.append("wal", [{"id": n, "note": "x" * 90} for n in range(1000)])
        connection.execute("UPDATE routers_router SET state = 'running' WHERE name LIKE 'wal-%'")
        before = connection.execute("SELECT pg_current_wal_insert_lsn()").fetchone()
        connection.execute(ADVANCE, ["wal", now_ms()])
        after = connection.execute("SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), %s)", before).fetchone()
        connection.execute("UPDATE routers_router SET state = 'paused' WHERE name LIKE 'wal-%'")
        written = float(after[0]) if after else 0.0
    each = written / (DESTS * 1000)
    return Row(
        "WAL of forwarding 1,000 records to 100 dests",
        "< 1 byte a record and dest",
        f"{written / 1000:.0f} kB: {each:.2f} bytes",
        ok=each < 1,
    )


class Watcher(threading.Thread):
    """Notes the arrival of each seq of a topic over SSE."""

    def __init__(self, client: Client, topic: str, port: int) -> None:
        super().__init__(daemon=True)
        stream = client.call("POST", "watch", {"topics": {topic: {}}})["stream_url"]
        self.path = stream[stream.index("/v0/") :]
        self.port = port
        self.seen: dict[int, float] = {}
        self.open = threading.Event()

    def run(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request("GET", self.path, headers={"Accept": "text/event-stream"})
        response = connection.getresponse()
        self.open.set()
        event = b""
        while line := response.readline():
            if line.startswith(b"event:"):
                event = line[6:].strip()
            elif line.startswith(b"data:") and event == b"record":
                arrived = time.perf_counter()
                for record in json.loads(line[5:])["records"]:
                    self.seen.setdefault(record["$seq"], arrived)


def one_hop(client: Client, instance: Instance) -> Row:
    """Returns a row for 100 appends a second to a source: the time until a watcher of the dest has each record."""
    client.router("hop", source="hop", dest="hop:dest")
    client.append("hop", [0])
    watcher = Watcher(client, "hop:dest", instance.port)
    watcher.start()
    watcher.open.wait(10)
    until(lambda: watcher.seen, "the first record")
    acked: dict[int, float] = {}
    began = time.perf_counter()
    for n in range(500):
        time.sleep(max(began + n / 100 - time.perf_counter(), 0))
        seq = client.append("hop", [n])["last_seq"]
        acked[seq] = time.perf_counter()
    until(lambda: len(watcher.seen) > 500, "all records")
    delays = sorted((watcher.seen[seq] - at) * 1000 for seq, at in acked.items())
    p50, p99 = delays[len(delays) // 2], delays[len(delays) * 99 // 100]
    return Row(
        "one hop, 100 appends/s: ack to a watcher of the dest",
        "p50 < 15 ms, p99 < 60 ms",
        f"p50 {p50:.1f} ms, p99 {p99:.1f} ms",
        ok=p50 < 15 and p99 < 60,
    )


def source_rate(client: Client, instance: Instance) -> Row:
    """Returns a row for appends a second on 16 connections, without routers and with 100, in turn."""
    dests(client, "busy")
    client.call("PUT", "topics/free", {})
    rates: dict[str, list[float]] = {"free": [], "busy": []}
    for _ in range(5):
        for topic, measured in rates.items():
            measured.append(post(f"{instance.url}/v0/topics/{topic}", ONE, 16, 2).rate)
            time.sleep(1)  # so that the rest of the forwarding does not slow the other topic
    free, busy = (statistics.median(measured) for measured in rates.values())
    return Row(
        "append 1 record, 16 connections, with 100 routers on the topic",
        "within 10% of none",
        f"{busy:,.0f}/s against {free:,.0f}/s",
        "",
        f"{busy / free:.2f}",
        busy >= 0.9 * free,
    )


def span_reads(client: Client, connection: psycopg.Connection[Any], instance: Instance) -> list[Row]:
    """Returns rows for a diff with limit 1000 of 100,000 records, at home and through spans."""
    for topic in ("home", "ones", "long"):
        client.call("PUT", f"topics/{topic}", {})
    fill(connection, "home", 100_000, now_ms())
    for dest, size in (("ones", 1), ("long", 10_000)):
        connection.execute(SPANS, {"home": "home", "dest": dest, "size": size})
    connection.execute("VACUUM ANALYZE topics_span")
    connection.execute("VACUUM ANALYZE topics_record_logged")
    body = '{"from_seq":50000,"limit":1000}'
    took = {t: post(f"{instance.url}/v0/topics/{t}/diff", body, 1, 3).p50_ms for t in ("home", "ones", "long", "home")}
    return [
        through_spans("1 record", took["ones"], took["home"], 3),
        through_spans("10,000 records", took["long"], took["home"], 1.5),
    ]


def through_spans(size: str, took: float, home: float, most: float) -> Row:
    measured = f"{took:.2f} ms against {home:.2f} ms"
    return Row(
        f"diff, limit 1000, through spans of {size}",
        f"≤ {most}x home",
        measured,
        "",
        f"{took / home:.2f}",
        took <= most * home,
    )


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    started = time.perf_counter()
    answer = call()
    return (time.perf_counter() - started) * 1000, answer


def chain(client: Client) -> Row:
    """Returns a row for one record through eight hops: a diff of the last topic directly after the ack."""
    for hop in range(8):
        client.router(f"chain-{hop}", source=f"chain:{hop}", dest=f"chain:{hop + 1}")
    client.append("chain:0", [0])
    client.diff("chain:8")
    took, right = [], 0
    for n in range(1, 51):
        client.append("chain:0", [n])
        ms, answer = timed(lambda seq=n: client.diff("chain:8", seq))  # type: ignore[misc]
        took.append(ms)
        right += [record["data"] for record in answer["records"]] == [n]
    p50 = statistics.median(took)
    return Row(
        "chain of 8 hops: diff of the last right after the ack",
        "correct, < 20 ms",
        f"{right} of 50 correct, p50 {p50:.1f} ms, most {max(took):.1f} ms",
        ok=right == 50 and p50 < 20,
    )


def read_after_ack(client: Client) -> Row:
    """Returns a row that compares a diff of a dest directly after an ack with a diff of the source."""
    client.router("near", source="near", dest="near:dest")
    client.append("near", [0])
    client.diff("near:dest")
    took: dict[str, list[float]] = {"near": [], "near:dest": []}
    for n in range(1, 401):
        for topic, measured in took.items():
            seq = client.append("near", [n])["last_seq"]
            ms, answer = timed(lambda t=topic, s=seq: client.diff(t, s - 1))  # type: ignore[misc]
            if len(answer["records"]) != 1:
                raise SystemExit(f"bench: {topic} does not show what was acked")
            measured.append(ms)
    source, dest = (statistics.median(measured) for measured in took.values())
    return Row(
        "diff of a dest right after the ack, against one of the source",
        "p50 < 1 ms more",
        f"{dest:.2f} ms against {source:.2f} ms",
        "",
        f"+{dest - source:.2f} ms",
        dest - source < 1,
    )

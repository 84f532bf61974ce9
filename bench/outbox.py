"""The outbox: transactions that emit, the drain of a backlog, and the way from a commit to a watcher over HTTP."""

from __future__ import annotations

import http.client
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg

from bench.client import Client
from bench.report import Row
from tests.instances import Instance, newest

TABLES = """
CREATE TABLE shop_order (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, customer int, note text);
CREATE TABLE shop_outbox (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, topic text NOT NULL, record json NOT NULL)
"""
ITEMS = """
CREATE TABLE shop_item (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, shop int NOT NULL, state text NOT NULL, price numeric(10, 2) NOT NULL,
    note text, changed timestamptz NOT NULL DEFAULT now());
CREATE INDEX ON shop_item (shop, state);
INSERT INTO shop_item (shop, state, price, note)
SELECT n % 1000, 'new', n / 100.0, 'a note about the item ' || n FROM generate_series(1, 100000) n
"""
ORDER = "BEGIN; INSERT INTO shop_order (customer, note) VALUES (7, 'x'); {also}; END;"
RECORD = '{"id": 7, "state": "paid", "text": "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz"}'
EMIT = f"SELECT topics.emit('orders', '{RECORD}', tag => 'order:7')"
PLAIN = f"INSERT INTO shop_outbox (topic, record) VALUES ('orders', '{RECORD}')"
ARRIVED = """
SELECT coalesce(sum(h.head_seq), 0) FROM topic_heads h JOIN topics_topic t ON t.id = h.topic_id WHERE t.name LIKE 'drain:%'
"""
SECONDS, ROUNDS = 3, 3
BACKLOG, OPEN_SECONDS = 100_000, 60.0
COMMITS = 200


def run(instance: Instance) -> Iterator[Row]:
    with instance.connect() as session:
        session.execute(TABLES)
        for clients in (1, 16):
            yield emits(instance, clients)
        drain(session, 1_000, 2_000)  # creates the topics
        one, many = (drain(session, topics) for topics in (1, 1_000))
        yield at_least("drain of 100,000 records, one topic", 25_000, one)
        yield at_least("drain of 100,000 records, 1,000 topics", 15_000, many)
        with instance.connect() as other, other.transaction():
            other.execute("SELECT pg_current_xact_id()")
            until = time.monotonic() + OPEN_SECONDS
            late = [drain(session, 1)]
            while time.monotonic() < until:
                late.append(drain(session, 1))
        yield beside("drain, at the end of a transaction that is open for 60 s", late[-1], one)
        yield captured(session)
    yield reached(instance, notified=True)
    yield reached(instance, notified=False)


def captured(session: psycopg.Connection) -> Row:
    """Returns a row for an UPDATE of 100,000 rows of a captured table, compared with the UPDATE alone, round by round."""
    session.execute(ITEMS)
    pairs = []
    for _ in range(ROUNDS + 1):
        alone = updated(session)
        session.execute("SELECT topics.capture('shop_item', 'items')")
        pairs.append((updated(session), alone))
        session.execute("SELECT topics.uncapture('shop_item')")
    ratio = statistics.median(with_capture / alone for with_capture, alone in pairs[1:])
    with_capture, alone = (statistics.median(each) for each in zip(*pairs[1:], strict=True))
    return Row(
        "capture of 100,000 rows in one UPDATE",
        "< 2x of the UPDATE",
        f"{with_capture:.2f} s",
        f"{alone:.2f} s",
        f"{ratio:.2f}",
        ratio < 2,
    )


def updated(session: psycopg.Connection) -> float:
    """Returns the seconds of the UPDATE, begun when the relay has nothing left to do."""
    session.execute("VACUUM ANALYZE shop_item")
    while session.execute("SELECT 1 FROM outbox_emitted LIMIT 1").fetchone():
        time.sleep(0.1)
    began = time.monotonic()
    session.execute("UPDATE shop_item SET price = price + 1, state = state || '.'")
    return time.monotonic() - began


def emits(instance: Instance, clients: int) -> Row:
    """Returns a row for transactions that emit, compared with those that write a row of a plain outbox, round by round."""
    rates = [(transactions(instance, clients, EMIT), transactions(instance, clients, PLAIN)) for _ in range(ROUNDS)]
    emit, plain = statistics.median(rate for rate, _ in rates), statistics.median(rate for _, rate in rates)
    ratio = statistics.median(one / other for one, other in rates)
    return Row(
        f"insert and `topics.emit`, {clients} connections",
        "≥ 0.9 of an insert into a plain outbox",
        f"{emit:,.0f}/s",
        f"{plain:,.0f}/s",
        f"{ratio:.2f}",
        ratio >= 0.9,
    )


def transactions(instance: Instance, clients: int, also: str) -> float:
    """Returns the transactions a second of pgbench."""
    pgbench = shutil.which("pgbench") or str(newest() / "pgbench")
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "order.sql")
        script.write_text(ORDER.format(also=also).replace("; ", ";\n"))
        command = [pgbench, "-n", "-M", "prepared", "-c", str(clients), "-T", str(SECONDS), "-f", str(script)]
        done = subprocess.run([*command, instance.servers.database_url], capture_output=True, text=True, check=True)
    return float(done.stdout.partition("tps = ")[2].split()[0])


def drain(session: psycopg.Connection, topics: int, count: int = BACKLOG) -> float:
    """Returns the records a second of the drain of a backlog."""
    until = arrived(session) + count
    session.execute(
        f"SELECT topics.emit('drain:{topics}:' || n %% %s, '{RECORD}') FROM generate_series(1, %s) n", [topics, count]
    )
    session.execute("NOTIFY topics")
    began = time.monotonic()
    while arrived(session) < until:
        time.sleep(0.05)
    return count / (time.monotonic() - began)


def arrived(session: psycopg.Connection) -> int:
    row = session.execute(ARRIVED).fetchone()
    assert row is not None
    return int(row[0])


def at_least(work: str, asked: int, rate: float) -> Row:
    return Row(work, f"≥ {asked:,}/s", f"{rate:,.0f}/s", ok=rate >= asked)


def beside(work: str, rate: float, free: float) -> Row:
    ratio = rate / free
    return Row(work, "≥ 0.8 of the rate without", f"{rate:,.0f}/s", f"{free:,.0f}/s", f"{ratio:.2f}", ratio >= 0.8)


def reached(instance: Instance, notified: bool) -> Row:
    """Returns a row for the time from a commit to the record in a stream over HTTP."""
    topic = "noticed" if notified else "unnoticed"
    Client(instance.port).call("PUT", f"topics/{topic}", {})
    stream = http.client.HTTPConnection("127.0.0.1", instance.port, timeout=30)
    stream.request("GET", f"/v0/topics/{topic}/events")
    answer = stream.getresponse()
    took = []
    with instance.connect() as session:
        for n in range(COMMITS):
            session.execute("SELECT topics.emit(%s, %s::text::json)", [topic, f"[{n}]"])
            if notified:
                session.execute("NOTIFY topics")
            began = time.monotonic()
            read_until(answer, f"[{n}]".encode())
            took.append((time.monotonic() - began) * 1000)
            time.sleep(0.02 + n % 7 / 1000)
    stream.close()
    asked, middle = 5 if notified else 30, statistics.median(took)
    return Row(
        f"commit to a watcher, {'with' if notified else 'without'} `NOTIFY`",
        f"p50 < {asked} ms",
        f"p50 {middle:.1f} ms, p95 {statistics.quantiles(took, n=20)[-1]:.1f} ms",
        ok=middle < asked,
    )


def read_until(answer: http.client.HTTPResponse, text: bytes) -> None:
    line: Callable[[], bytes] = answer.readline
    while text not in line():
        pass

"""Idempotency keys of records: disk space of a kept key, CPU time of an append, and time of the sweep that forgets keys."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median
from time import perf_counter
from typing import Any

import psycopg

from base.clock import now_ms
from bench.client import Client
from bench.cpu import Cpu
from bench.load import Requests, send
from bench.log import HUNDRED, RECORD
from bench.report import Row
from tests.instances import Instance
from topics.upkeep.retention import LATE_MS, OLD_KEYS

DAY_MS, DEFAULT_MS, SWEEP_MS = 86_400_000, 120_000, 2_000
SECONDS, PAIRS, SWEEPS = 2, 7, 5
KEPT, STEP = 1_000_000, 20_000
NAMES = ",".join(f'"outbox-TURN$n{n:02}"' for n in range(100))
KEYED = f'{{"records":[{",".join([RECORD] * 100)}],"idempotency_keys":[{NAMES}]}}'
SIZE = "SELECT count(*), pg_total_relation_size('topics_idempotencykey') FROM topics_idempotencykey"
FILL = """
INSERT INTO topics_idempotencykey (topic_id, key, first_seq, last_seq, ts, digest)
SELECT id, 'filled-' || n, n, n, %s - n, uuid_send(gen_random_uuid())
  FROM topics_topic, generate_series(1, %s) n WHERE name = 'keyed'
"""
AGE = """
UPDATE topics_idempotencykey SET ts = ts - %s
 WHERE (topic_id, key) IN (SELECT topic_id, key FROM topics_idempotencykey WHERE key LIKE 'filled-%%' LIMIT %s)
"""


def run(instance: Instance) -> Iterator[Row]:
    client = Client(instance.port)
    for name in ("plain", "keyed"):
        client.call("PUT", f"topics/{name}", {"idempotency_window_ms": DAY_MS})
    client.call("PUT", "topics/default", {})
    with instance.connect() as database:
        before = size(database)
        yield appends(instance)
        count, taken = (after - was for after, was in zip(size(database), before, strict=True))
        yield Row("a kept key of 15 characters, table and indexes", "", f"{taken / count:.0f} bytes")
        yield from sweeps(database)


def appends(instance: Instance) -> Row:
    """Returns a row for the CPU time of an append, in pairs, because a machine's speed varies."""
    spent: dict[str, list[float]] = {"plain": [], "keyed": []}
    rounds = [name for n in range(PAIRS) for name in sorted(spent, reverse=n % 2 == 0)]
    for turn, name in enumerate(rounds):
        cpu, body = Cpu(instance), KEYED.replace("TURN", f"{turn:02}-") if name == "keyed" else HUNDRED
        before = cpu.now()
        load = send(Requests("POST", f"{instance.url}/v0/topics/{name}", body), 4, SECONDS)
        used = sum(cpu.now()) - sum(before)
        spent[name].append(used / (load.rate * SECONDS))
    plain, keyed = (median(spent[name]) for name in ("plain", "keyed"))
    ratio = median(with_keys / without for with_keys, without in zip(spent["keyed"], spent["plain"], strict=True))
    return Row(
        "append 100 records, each with a key", "", f"CPU {keyed:.0f} µs", f"{plain:.0f} µs without", f"{ratio:.2f}"
    )


def sweeps(database: psycopg.Connection[Any]) -> Iterator[Row]:
    """Returns rows for topics with the default window beside a topic that keeps its keys for a day."""
    now = now_ms()
    database.execute(FILL, (now, KEPT))
    database.execute("VACUUM ANALYZE topics_idempotencykey")
    kept = size(database)[0]
    begins = {"sweep beside": now - DEFAULT_MS - SWEEP_MS - LATE_MS, "sweep, once an hour, beside": 0}
    for what, above in begins.items():
        spent = median(swept(database, DEFAULT_MS, above, now) for _ in range(SWEEPS))
        yield Row(f"{what} {kept:,} keys of a longer window", "", f"{spent * 1000:.1f} ms")
    database.execute(AGE, (2 * DAY_MS, STEP * SWEEPS))
    spent = median(swept(database, DAY_MS, 0, now) for _ in range(SWEEPS))
    yield Row(f"sweep that forgets {STEP:,} keys", "", f"{spent / STEP * 1e6:.1f} µs a key")


def swept(database: psycopg.Connection[Any], window: int, above: int, now: int) -> float:
    """Returns the seconds of a sweep of topics with this window, which begins above this ts."""
    started = perf_counter()
    database.execute(OLD_KEYS, {"above": above, "upto": now - window, "window": window, "most": STEP})
    return perf_counter() - started


def size(database: psycopg.Connection[Any]) -> tuple[int, int]:
    """Returns the number of keys, and the bytes of their table with its indexes."""
    row = database.execute(SIZE).fetchone()
    assert row is not None
    return row[0], row[1]

"""Appends to topics with a cap or a TTL, each compared with a plain topic in the same run.

A topic is cold when it was created just before the load: no web process knows it. Then the same load meets the warm topic,
which is full. Each figure is the median of pairs, because a machine's speed varies.

`python -m bench caps --pairs 9` measures nine pairs for each limit. `python -m bench caps --minutes 10` appends for ten minutes
to topics with a cap and a TTL, while VACUUM and the upkeep remove evicted records.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from statistics import median
from typing import Any, NamedTuple

from bench.client import Client
from bench.load import Load, post
from bench.report import Row
from tests.instances import Instance

CONNECTIONS, SECONDS, PAIRS = 100, 2, 5
BODY = f'{{"records":[{{"data":{{"n":1,"text":"{"x" * 430}"}}}}]}}'  # a record of 450 bytes
DURABILITIES = ("ephemeral", "disk")
LIMITS: dict[str, dict[str, Any]] = {
    "cap_records": {"cap_records": 10_000},
    "cap_bytes": {"cap_bytes": 4_500_000},
    "ttl_ms": {"ttl_ms": 3000},
    "cap_records and ttl_ms": {"cap_records": 10_000, "ttl_ms": 3000},
}
LEAST, MOST_P99, MOST_COLD_P99 = 0.85, 1.5, 2
LASTING = "cap_records and ttl_ms"  # the limits of the topic that gets appends for minutes
BLOCK_SECONDS = 5


class Loads(NamedTuple):
    """The loads on a topic: after its creation, and once more."""

    cold: Load
    warm: Load


class Pair(NamedTuple):
    """The loads on a plain topic and on a topic with a limit."""

    plain: Loads
    limited: Loads


def run(instance: Instance, pairs: int = PAIRS, minutes: float = 0) -> Iterator[Row]:
    """Yields the rows of `pairs` pairs for each limit. With `minutes`, yields only the rows of so long a run instead."""
    loads_of(instance, "warm-up", {})
    for durability in DURABILITIES:
        if minutes:
            yield lasting(instance, durability, minutes)
            continue
        for name, limits in LIMITS.items():
            found = [
                pair(instance, f"{durability}-{name.replace(' ', '-')}-{n}", durability, limits, n)
                for n in range(pairs)
            ]
            for state in Loads._fields:
                yield row(f"append 1 record, {durability}, {name}, {state} topic, {pairs} pairs", state, found)


def lasting(instance: Instance, durability: str, minutes: float) -> Row:
    """Returns the row of appends to a plain and a limited topic, in turn, for `minutes`. VACUUM runs beside each block."""
    client, topics = Client(instance.port), (f"plain-{durability}-lasting", f"limited-{durability}-lasting")
    for topic, limits in zip(topics, ({}, LIMITS[LASTING]), strict=True):
        client.call("PUT", f"topics/{topic}", {"durability": durability, **limits})
    plain: list[Load] = []
    limited: list[Load] = []
    deadline = time.monotonic() + minutes * 60
    with instance.connect() as database, ThreadPoolExecutor(1) as beside:
        while time.monotonic() < deadline or len(limited) < 3:
            for topic, loads in zip(topics, (plain, limited), strict=True):
                vacuum = beside.submit(database.execute, "VACUUM")
                loads.append(post(f"{instance.url}/v0/topics/{topic}", BODY, CONNECTIONS, BLOCK_SECONDS))
                vacuum.result()
    return lasting_row(f"{minutes:g} minutes of appends, {durability}, {LASTING}, beside VACUUM", plain, limited)


def lasting_row(work: str, plain: list[Load], limited: list[Load]) -> Row:
    """Compares the pairs with each other, and the last third of the limited topic's blocks with the first third."""
    rate, p99 = ratios(plain, limited)
    third = max(1, len(limited) // 3)
    first, last = (median(load.rate for load in part) for part in (limited[:third], limited[-third:]))
    asked = f"≥ {LEAST} of a plain topic, p99 ≤ {MOST_P99} of it; last third ≥ {LEAST} of the first"
    ok = rate >= LEAST and p99 <= MOST_P99 and last >= LEAST * first
    ratio = f"{rate:.2f}, p99 {p99:.2f}; last third {last / first:.2f}"
    return Row(work, asked, middle(limited), f"{middle(plain)} (plain topic)", ratio, ok)


def ratios(plain: list[Load], limited: list[Load]) -> tuple[float, float]:
    """Returns the medians of the pairs: the rate and the p99 of the limited topic, as shares of the plain topic's."""
    pairs = list(zip(limited, plain, strict=True))
    return median(a.rate / b.rate for a, b in pairs), median(a.p99_ms / b.p99_ms for a, b in pairs)


def pair(instance: Instance, name: str, durability: str, limits: dict[str, Any], n: int) -> Pair:
    """Returns the loads of the pair with the number n. Every other pair begins with the plain topic."""
    wanted = {"plain": {"durability": durability}, "limited": {"durability": durability, **limits}}
    loads = {each: loads_of(instance, f"{each}-{name}", wanted[each]) for each in sorted(wanted, reverse=n % 2 == 0)}
    return Pair(**loads)


def loads_of(instance: Instance, topic: str, config: dict[str, Any]) -> Loads:
    Client(instance.port).call("PUT", f"topics/{topic}", config)
    return Loads(*(post(f"{instance.url}/v0/topics/{topic}", BODY, CONNECTIONS, SECONDS) for _ in Loads._fields))


def row(work: str, state: str, pairs: list[Pair]) -> Row:
    """Returns a row for the cold or the warm topics of these pairs."""
    plain, limited = ([getattr(loads, state) for loads in side] for side in zip(*pairs, strict=True))
    rate, p99 = ratios(plain, limited)
    asked, ratio = f"≥ {LEAST} of a plain topic, p99 ≤ {MOST_P99} of it", f"{rate:.2f}, p99 {p99:.2f}"
    ok = rate >= LEAST and p99 <= MOST_P99
    if state == "cold":
        of_warm = median(each.limited.cold.p99_ms / each.limited.warm.p99_ms for each in pairs)
        asked, ratio = f"{asked} and ≤ {MOST_COLD_P99} of warm", f"{ratio}, {of_warm:.2f} of warm"
        ok = ok and of_warm <= MOST_COLD_P99
    return Row(
        f"{work}, {CONNECTIONS} connections", asked, middle(limited), f"{middle(plain)} (plain topic)", ratio, ok
    )


def middle(loads: list[Load]) -> str:
    return f"{median(load.rate for load in loads):,.0f}/s, p99 {median(load.p99_ms for load in loads):.1f} ms"

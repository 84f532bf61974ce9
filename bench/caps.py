"""Appends to topics with a cap or a TTL, each compared with a plain topic in the same run.

A topic is cold when it was created just before the load: no web process knows it. Then the same load meets the warm topic,
which is full. Each figure is the median of pairs, because a machine's speed varies.
"""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median
from typing import Any, NamedTuple

from bench.client import Client
from bench.load import Load, post
from bench.report import Row
from tests.instances import Instance

CONNECTIONS, SECONDS, PAIRS = 100, 2, 3
BODY = f'{{"records":[{{"data":{{"n":1,"text":"{"x" * 430}"}}}}]}}'  # a record of 450 bytes
DURABILITIES = ("ephemeral", "disk")
LIMITS: dict[str, dict[str, Any]] = {
    "cap_records": {"cap_records": 10_000},
    "cap_bytes": {"cap_bytes": 4_500_000},
    "ttl_ms": {"ttl_ms": 3000},
    "cap_records and ttl_ms": {"cap_records": 10_000, "ttl_ms": 3000},
}
LEAST, MOST_P99, MOST_COLD_P99 = 0.85, 1.5, 2


class Loads(NamedTuple):
    """The loads on a topic: after its creation, and once more."""

    cold: Load
    warm: Load


class Pair(NamedTuple):
    """The loads on a plain topic and on a topic with a limit."""

    plain: Loads
    limited: Loads


def run(instance: Instance) -> Iterator[Row]:
    loads_of(instance, "warm-up", {})
    for durability in DURABILITIES:
        for name, limits in LIMITS.items():
            pairs = [
                pair(instance, f"{durability}-{name.replace(' ', '-')}-{n}", durability, limits, n)
                for n in range(PAIRS)
            ]
            for state in Loads._fields:
                yield row(f"append 1 record, {durability}, {name}, {state} topic", state, pairs)


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
    rate = median(ours.rate / theirs.rate for ours, theirs in zip(limited, plain, strict=True))
    p99 = median(ours.p99_ms / theirs.p99_ms for ours, theirs in zip(limited, plain, strict=True))
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

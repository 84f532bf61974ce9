"""`make bench-peer PEER=http://127.0.0.1:4100` compares an instance with another server of the same wire.

Start the other server on this machine first, with nothing in it worth keeping. Both servers get the same load in turn, because a
machine's speed varies. A figure is the median of the rounds.
"""

from __future__ import annotations

import multiprocessing
import os
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from statistics import median
from typing import Any, NamedTuple, TypeVar

import uvloop

from bench import caps, mix, queues, report, room
from bench.__main__ import prepare
from bench.client import Client
from bench.load import Load, Requests, require_wrk, send
from bench.report import Row
from bench.watch import NO_CAPS, Server, at, name, paced
from tests import instances
from tests.runs import begin_run

ROUNDS, SECONDS = 4, 2.0
MANY = 64  # topics for appends to many
WATCHED_MS = {1: 0.9, 100: 2.0}  # the p50 from an append to its watchers that an instance has to reach
T = TypeVar("T")


class Call(NamedTuple):
    """A call under load. `asked`: the share of the peer's rate to reach. `path` is below a prefix of topics."""

    work: str
    asked: float
    connections: int
    method: str
    path: str
    body: str = ""

    def rate(self, prefix: str, port: int) -> float:
        url = f"http://127.0.0.1:{port}/v0/topics/{prefix}{self.path}"
        requests = Requests(self.method, url, self.body, MANY if "$n" in self.path else 0)
        return send(requests, self.connections, SECONDS).rate


def calls(one: str, head: int) -> list[Call]:
    """`one`: the body of an append. `head`: the last seq of the topic that is read."""
    tail, first = f'{{"from_seq":{head}}}', '{"from_seq":7,"limit":1}'
    return [
        Call("append 1 record, 1 connection", 0.55, 1, "POST", "one", one),
        Call("append 1 record, 16 connections", 5, 16, "POST", "one", one),
        Call("append 1 record, 64 connections", 9, 64, "POST", "one", one),
        Call(f"append 1 record over {MANY} topics, 64 connections", 1.1, 64, "POST", "many$n", one),
        Call("diff, limit 1, 8 connections", 0.5, 8, "POST", "read/diff", first),
        Call("diff, limit 1,000, 8 connections", 8, 8, "POST", "read/diff", '{"limit":1000}'),
        Call("diff at the tail, 32 connections", 0.45, 32, "POST", "read/diff", tail),
        Call("GET of a topic, 32 connections", 0.5, 32, "GET", "read"),
    ]


def by_turns(ports: tuple[int, int], measure: Callable[[int], T]) -> tuple[list[T], list[T]]:
    """Returns the figures of the instance, and those of the peer. Every other round begins with the peer."""
    found: tuple[list[T], list[T]] = ([], [])
    for turn in range(ROUNDS):
        for side in (0, 1) if turn % 2 == 0 else (1, 0):
            found[side].append(measure(ports[side]))
    return found


def rates(work: str, found: tuple[list[float], list[float]], asked: float, unit: str = "/s") -> Row:
    """Returns a row for two rates. `asked`: the share of the peer's rate to reach."""
    ours, peer = map(median, found)
    figures = f"{ours:,.0f}{unit}", f"{peer:,.0f}{unit}", share(ours, peer)
    return Row(work, f"≥ {asked:g} of the peer", *figures, ours >= asked * peer)


def times(work: str, found: tuple[list[float], list[float]], asked: float) -> Row:
    """Returns a row for two latencies (ms). `asked`: the longest p50 of the instance."""
    ours, peer = map(median, found)
    return Row(work, f"p50 < {asked:g} ms", f"{ours:.1f} ms", f"{peer:.1f} ms", share(ours, peer), ours < asked)


def share(ours: float, peer: float) -> str:
    """Returns the ratio of two figures. A latency of 0, of records that arrive before their acks, has none."""
    return f"{ours / peer:.2f}" if peer else ""


def small_calls(ports: tuple[int, int]) -> Iterator[Row]:
    from bench.log import ONE  # this module needs Django's settings

    prefix, heads = f"{name()}:", []
    for client in map(Client, ports):
        for topic in ("one", "read", *(f"many{n}" for n in range(1, MANY + 1))):
            client.call("PUT", f"topics/{prefix}{topic}", {})
        heads.append(client.append(f"{prefix}read", [{"n": n} for n in range(1000)])["last_seq"])
    for call in calls(ONE, min(heads)):
        yield rates(call.work, by_turns(ports, partial(call.rate, prefix)), call.asked)


def new_topic(config: dict[str, Any], port: int) -> Load:
    """Appends to a topic that was created just before."""
    topic = name()
    Client(port).call("PUT", f"topics/{topic}", config)
    return send(Requests("POST", f"http://127.0.0.1:{port}/v0/topics/{topic}", caps.BODY), caps.CONNECTIONS, SECONDS)


def limited_topics(ports: tuple[int, int]) -> Iterator[Row]:
    for durability in caps.DURABILITIES:
        for limits, config in {"plain": {}, **caps.LIMITS}.items():
            found = by_turns(ports, partial(new_topic, {"durability": durability, **config}))
            work = f"append 1 record, new {durability} topic, {limits}, {caps.CONNECTIONS} connections"
            ours, peer = map(caps.middle, found)
            ratio = median(a.rate / b.rate for a, b in zip(*found, strict=True))
            yield Row(work, "", ours, peer, f"{ratio:.2f}")


def watched(watchers: int, port: int) -> float:
    """Returns the p50 (ms) from an append to its arrival at a watcher."""
    topic = name()
    return at(uvloop.run(paced(Server("127.0.0.1", port), [topic] * watchers, [topic], 100, 5)).latencies(), 0.5)


def worked(port: int) -> queues.Speed:
    return queues.at_full_speed_apart(port, queues.CROWD_JOBS, queues.CROWD)


def met(participants: int, port: int) -> float:
    """Returns the p50 (ms) of a room whose client discards, or infinity if the server did not accept or deliver all."""
    found = uvloop.run(room.Room(Server("127.0.0.1", port), lambda: (0.0, 0.0), participants, discards=True).meet())
    whole = found.reached_all and found.rate >= 0.98 * participants / room.EVERY
    return at(found.ages, 0.5) if whole else float("inf")


def streams(ports: tuple[int, int]) -> Iterator[Row]:
    """Yields the rows whose clients need a process of their own."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:

        def apart(measure: Callable[[int], T]) -> tuple[list[T], list[T]]:
            return by_turns(ports, lambda port: pool.submit(measure, port).result())

        records = mix.TOPICS * mix.APPENDS * mix.RECORDS
        ours, peer = apart(mix.work_apart)
        lives = [records / took for took in ours], [records / took for took in peer]
        yield rates(mix.WORK, lives, 0.9, " records/s")
        for watchers, most in WATCHED_MS.items():
            yield times(f"watchers: {watchers}, 100 appends/s", apart(partial(watched, watchers)), most)
        speeds, peers = apart(worked)
        what = f"a queue of {queues.CROWD} workers"
        yield rates(what, ([each.rate for each in speeds], [each.rate for each in peers]), 1.0, " jobs/s")
        claims = [each.claim_ms for each in speeds], [each.claim_ms for each in peers]
        yield times(f"{what}: claim", claims, queues.CROWD_MS)
        for participants, most in room.ASKED_MS.items():
            yield times(f"a room of {participants}, a client that discards", apart(partial(met, participants)), most)


def port_of(peer: str) -> int:
    found = re.fullmatch(r"http://(?:127\.0\.0\.1|localhost):(\d+)/?", peer)
    if found is None:
        raise SystemExit(
            f"bench: PEER={peer} is not a server of this machine: set PEER to its address, such as http://127.0.0.1:4100"
        )
    return int(found[1])


def main() -> None:
    peer = port_of(os.environ.get("PEER", ""))
    require_wrk()
    prepare()
    with instances.start(**NO_CAPS) as instance:
        print(report.machine(instance.servers.database_url), report.table([], limit="the peer"), sep="\n", flush=True)
        for part in (small_calls, limited_topics, streams):
            for row in part((instance.port, peer)):
                print(report.line(row), flush=True)


if __name__ == "__main__":
    begin_run("bench", memory=False)
    main()

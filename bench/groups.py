"""A consumer group under load. Members leave, join and die. The clients run in a separate process.

A member commits the records that have arrived, one commit at a time. The latency of a record is the time from the request of its
append to its last delivery. So the longest latency is the longest pause of a share. A repeated delivery counts with its pause.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import multiprocessing
import time
from collections import defaultdict
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Any, NamedTuple

import msgspec
import uvloop

from bench.report import Row
from bench.watch import PAD, Server, at, exchange, name
from tests.groups.team import Line, broken, shown_twice
from tests.instances import Instance

MEMBERS, RATE, BATCH, PRODUCERS = 10, 5_000, 100, 4
TAGS, SESSION_MS = 1_000, 2_000
QUIET_SECONDS, EVERY = 5.0, 0.5  # seconds without a change of members, and between two changes
DEATHS = 3
ASKED_MS = 1_000  # the longest pause of a share. The shares of a dead member also wait for the end of its session
WAITING = 100_000  # records that a new group finds
ASKED_RATE = 10_000  # of them that one member gets in a second
RECORD = b"event: record\ndata: "
DATA = b"\ndata: "


class Record(msgspec.Struct):
    seq: int = msgspec.field(name="$seq")


class Event(msgspec.Struct):
    """A `record` event."""

    share: int
    generation: int
    to_seq: int
    records: list[Record]


class Member(asyncio.Protocol):
    """A member with a stream."""

    def __init__(self, group: Group, member: str) -> None:
        self.group, self.member = group, member
        self.session, self.rest = 0, b""
        self.done: dict[int, tuple[int, int]] = {}  # by share: the generation and the seq to commit
        self.is_open = asyncio.get_running_loop().create_future()
        self.arrived = asyncio.Event()
        self.is_leaving = False

    # -- The stream ---------------------------------------------------------------------------------------------------

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        path = f"{self.group.path}/stream?member={self.member}&session_ms={SESSION_MS}"
        transport.write(f"GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n".encode())  # 1.0: without chunks

    def data_received(self, data: bytes) -> None:
        *events, self.rest = (self.rest + data).split(b"\n\n")
        for event in events:
            if event.startswith(RECORD):
                self.take(msgspec.json.decode(event[len(RECORD) :], type=Event))
            elif b"event: joined" in event:
                self.session = json.loads(event.partition(DATA)[2])["session"]
                self.note("joined")
                self.is_open.set_result(None)
            elif event.startswith(b"event: assigned"):
                self.note("assigned", shares=json.loads(event.partition(DATA)[2])["shares"])
        self.arrived.set()

    def take(self, event: Event) -> None:
        seqs, now = [record.seq for record in event.records], time.monotonic()
        self.group.arrived.update(dict.fromkeys(seqs, now))
        self.note("shown", share=event.share, generation=event.generation, seqs=seqs)
        self.done[event.share] = event.generation, event.to_seq

    def note(self, what: str, **data: Any) -> None:
        line = {"at": time.monotonic(), "member": self.member, "session": self.session, "what": what, **data}
        self.group.lines.append(line)

    # -- Calls --------------------------------------------------------------------------------------------------------

    async def join(self) -> None:
        server = self.group.server
        await asyncio.get_running_loop().create_connection(lambda: self, server.host, server.port)
        await self.is_open
        self.calls = await asyncio.open_connection(server.host, server.port)
        self.committing = asyncio.create_task(self.commit_all())

    async def commit_all(self) -> None:
        while self.done or not self.is_leaving:
            await self.arrived.wait()
            self.arrived.clear()
            if self.done:
                await self.commit()

    async def commit(self) -> None:
        shares = [{"share": share, "generation": each[0], "seq": each[1]} for share, each in self.done.items()]
        self.done = {}
        self.note("commits", shares=shares)
        await self.call("commit", {"session": self.session, "shares": shares})
        self.note("committed", shares=shares)

    async def call(self, what: str, body: Any) -> None:
        await exchange(*self.calls, "POST", f"{self.group.path}/{what}", body)

    async def leave(self) -> None:
        """Commits the records that have arrived, and leaves."""
        self.transport.abort()
        self.is_leaving = True
        self.arrived.set()
        await self.committing
        self.note("ended")
        await self.call("leave", {"session": self.session})
        self.calls[1].close()

    def die(self) -> None:
        self.transport.abort()
        self.committing.cancel()
        self.calls[1].close()
        self.note("ended")


class Met(NamedTuple):
    """The figures of a run. `quiet`, `moving`, `dying`: sorted latencies (ms) without changes, while members leave and join, and
    while members die. `broken`: the broken rules. `twice`: records that two live members got."""

    rate: float
    quiet: list[float]
    moving: list[float]
    dying: list[float]
    broken: list[str]
    twice: int


def records(first: int, count: int) -> Any:
    """Returns the body of an append. The tags change from record to record."""
    tags = (f"t{number % TAGS}" for number in range(first, first + count))
    return {"records": [{"tag": tag, "data": {"kind": "bench", "pad": PAD}} for tag in tags]}


class Group:
    """A group, its producers, and the log of its members."""

    def __init__(self, server: Server) -> None:
        self.server, self.topic = server, name()
        self.path = f"/v0/topics/{self.topic}/groups/bench"
        self.members: list[Member] = []
        self.names = (f"m{number}" for number in itertools.count())
        self.lines: list[Line] = []
        self.sent: dict[int, float] = {}  # by seq, like `arrived`
        self.arrived: dict[int, float] = {}
        self.is_over = False

    async def produce(self, number: int) -> None:
        connection, begun = await asyncio.open_connection(self.server.host, self.server.port), time.monotonic()
        for place in itertools.count(number, PRODUCERS):
            await asyncio.sleep(max(0.0, begun + place * BATCH / RATE - time.monotonic()))
            if self.is_over:
                break
            body = records(place * BATCH, BATCH)
            sent = time.monotonic()
            answer = await exchange(*connection, "POST", f"/v0/topics/{self.topic}", body)
            self.sent.update(dict.fromkeys(range(answer["first_seq"], answer["last_seq"] + 1), sent))
        connection[1].close()

    async def add(self) -> None:
        self.members.append(Member(self, next(self.names)))
        await self.members[-1].join()

    async def change(self) -> None:
        """Each member leaves in turn, and a new one joins."""
        for _ in range(MEMBERS):
            await self.members.pop(0).leave()
            await asyncio.sleep(EVERY)
            await self.add()
            await asyncio.sleep(EVERY)

    async def lose(self) -> None:
        """Some members die, and new ones join after the end of the sessions."""
        for _ in range(DEATHS):
            self.members.pop(0).die()
            await asyncio.sleep(SESSION_MS / 1000 + 2)  # the other members also read the waiting records
            await self.add()

    async def latencies(self, work: Coroutine[Any, Any, None]) -> Callable[[], list[float]]:
        """Does this work. Returns a function for the latencies of the records that were sent meanwhile."""
        since = time.monotonic()
        await work
        until = time.monotonic()
        await asyncio.sleep(1)

        def found() -> list[float]:
            seqs = (seq for seq, sent in self.sent.items() if since <= sent < until and seq in self.arrived)
            return sorted((self.arrived[seq] - self.sent[seq]) * 1000 for seq in seqs)

        return found

    async def state(self) -> Any:
        return await self.server.call("GET", self.path)

    async def run(self) -> Met:
        await self.server.call("PUT", f"/v0/topics/{self.topic}", {})
        for _ in range(MEMBERS):
            await self.add()
        begun, producers = time.monotonic(), [asyncio.create_task(self.produce(n)) for n in range(PRODUCERS)]
        await asyncio.sleep(1)
        phases = [await self.latencies(work) for work in (asyncio.sleep(QUIET_SECONDS), self.change(), self.lose())]
        self.is_over = True
        await asyncio.gather(*producers)
        rate = len(self.sent) / (time.monotonic() - begun)
        deadline = time.monotonic() + 30
        while (state := await self.state())["lag"] and time.monotonic() < deadline:
            await asyncio.sleep(0.1)
        found = list(broken(self.lines, state["shares"], set(self.sent)))
        twice = shown_twice(self.lines, defaultdict(list), SESSION_MS)
        quiet, moving, dying = (phase() for phase in phases)
        return Met(rate, quiet, moving, dying, found, len(twice))

    async def catch_up(self, members: int) -> float:
        """Returns the records a second that the members of a new group get from a log."""
        connection = await asyncio.open_connection(self.server.host, self.server.port)
        for first in range(0, WAITING, 1_000):
            await exchange(*connection, "POST", f"/v0/topics/{self.topic}", records(first, 1_000))
        connection[1].close()
        begun = time.monotonic()
        for _ in range(members):
            await self.add()
        while len(self.arrived) < WAITING:
            await asyncio.sleep(0.05)
        rate = WAITING / (time.monotonic() - begun)
        for member in self.members:
            await member.leave()
        return rate


async def measure(port: int) -> tuple[Met, list[float]]:
    server = Server("127.0.0.1", port)
    return await Group(server).run(), [await Group(server).catch_up(members) for members in (1, MEMBERS)]


def apart(port: int) -> tuple[Met, list[float]]:
    return uvloop.run(measure(port))


def told(latencies: list[float]) -> str:
    return f"p50 {at(latencies, 0.5):.0f}, p99 {at(latencies, 0.99):.0f}, longest {at(latencies, 1):,.0f} ms"


def run(instance: Instance) -> Iterator[Row]:
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        met, (alone, together) = pool.submit(apart, instance.port).result()
    rate = f"{met.rate:,.0f} records/s"
    yield Row(
        f"{MEMBERS} members, append to delivery",
        f"{RATE:,} records/s",
        f"{rate}, {told(met.quiet)}",
        ok=met.rate > 0.98 * RATE,
    )
    changes = f"{MEMBERS} members leave and {MEMBERS} join, one each {EVERY} s"
    for what, latencies, asked in (
        (changes, met.moving, ASKED_MS),
        (f"{DEATHS} members die, sessions of {SESSION_MS:,} ms", met.dying, SESSION_MS + ASKED_MS),
    ):
        yield Row(what, f"longest < {asked:,} ms", told(latencies), ok=at(latencies, 1) < asked)
    measured = f"{met.twice} to two live members; {', '.join(met.broken) or 'none skipped, all in order'}"
    yield Row(
        "records of this run", "none skipped, none to two live members", measured, ok=not met.twice and not met.broken
    )
    measured = f"{alone:,.0f} records/s, {MEMBERS} members {together:,.0f} records/s"
    yield Row(
        f"1 member reads {WAITING:,} records and commits",
        f"≥ {ASKED_RATE:,} records/s",
        measured,
        ok=alone >= ASKED_RATE,
    )

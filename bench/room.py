"""Rooms: each participant speaks in one topic, and watches what all others say. The topic keeps few records, for a short time.

A client that parses reads every record as JSON, like a page in a browser. A client that discards shows the server's own cost.
Both share the machine's cores with the server.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import re
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import uvloop

from bench.cpu import Cpu
from bench.report import Row
from bench.watch import PAD, Server, at, name
from tests.instances import Instance

EVERY, SECONDS = 0.06, 10.0  # a participant speaks so often, for so long
CONFIG = {"durability": "ephemeral", "cap_records": 5_000, "ttl_ms": 5_000}
ASKED_MS = {20: 25, 50: 32, 100: 120}  # the p50 that a room of so many participants has to reach
ASKED_CPU = 6.0  # µs of the server for a delivery, in the largest room and with a client that discards
SAMPLES = 3  # watchers of a client that discards which parse all the same, for the latency

CHUNK = re.compile(rb"\r\n[0-9A-Fa-f]+\r\n")  # the frame of a chunk. No event contains a line break of this kind
RECORD = b"event: record\ndata: "
REACHED = re.compile(rb'"to_seq":(\d+)')


class Watcher(asyncio.BufferedProtocol):
    """Reads a stream and keeps its last bytes, which contain the seq that it has reached."""

    def __init__(self, url: str, buffer: bytearray) -> None:
        self.url, self.buffer, self.last = url, buffer, b""
        self.open = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        transport.write(f"GET {self.url} HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n".encode())

    def get_buffer(self, sizehint: int) -> bytearray:
        return self.buffer

    def buffer_updated(self, count: int) -> None:
        self.take(bytes(memoryview(self.buffer)[max(0, count - 400) : count]))
        self.last = self.last[-400:]

    def take(self, data: bytes) -> None:
        self.last += data
        if not self.open.done() and b"event: caught-up" in self.last:
            self.open.set_result(None)

    @property
    def to_seq(self) -> int:
        return max((int(seq) for seq in REACHED.findall(self.last)), default=0)


class Reader(Watcher):
    """Parses each record, and notes its age in ms."""

    def __init__(self, url: str, buffer: bytearray) -> None:
        super().__init__(url, buffer)
        self.rest = b""
        self.ages: list[float] = []

    def buffer_updated(self, count: int) -> None:
        data = bytes(memoryview(self.buffer)[:count])
        events, end, rest = (self.rest + data).rpartition(b"\n\n")
        self.rest = rest
        self.last = b""
        self.take(CHUNK.sub(b"", events + end))
        now = time.monotonic() * 1000
        for event in self.last.split(b"\n\n"):
            start = event.find(RECORD)
            if start >= 0:
                for record in json.loads(event[start + len(RECORD) :].partition(b"\n")[0])["records"]:
                    self.ages.append(now - record["data"]["at"])


class Speaker(asyncio.Protocol):
    """Appends a record each `EVERY` seconds, from `start` on. An append waits for the answer to the one before."""

    def __init__(self, topic: str, node: str, start: float) -> None:
        self.path, self.node, self.start = f"/v0/topics/{topic}?return_seqs=false", node, start
        self.accepted = 0
        self.done: asyncio.Future[float] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.rest()

    def rest(self) -> None:
        """Waits for the time of the next append."""
        loop = asyncio.get_running_loop()
        loop.call_later(max(0.0, self.start + self.accepted * EVERY - time.monotonic()), self.speak)

    def speak(self) -> None:
        body = json.dumps(
            {"node": self.node, "records": [{"data": {"at": round(time.monotonic() * 1000, 3), "pad": PAD}}]}
        )
        head = f"POST {self.path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        self.transport.write(f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode())

    def data_received(self, data: bytes) -> None:
        if not data.startswith(b"HTTP/1.1 "):
            return  # the rest of an answer
        if not data.startswith(b"HTTP/1.1 20"):
            self.done.set_exception(RuntimeError(data.decode()))
            return
        self.accepted += 1
        if self.accepted < SECONDS / EVERY:
            self.rest()
        else:
            self.done.set_result(time.monotonic())


class Met(NamedTuple):
    """The figures of a room. `cpu`: CPU time of the web processes and of PostgreSQL for one delivery, in µs."""

    rate: float
    reached_all: bool
    ages: list[float]
    cpu: tuple[float, float]


@dataclass
class Room:
    server: Server
    spent: Callable[[], tuple[float, float]]  # returns the CPU time so far, as Cpu.now does
    participants: int
    discards: bool
    topic: str = field(default_factory=name)
    buffer: bytearray = field(default_factory=lambda: bytearray(256 * 1024))
    watchers: list[Watcher] = field(default_factory=list)

    async def enter(self, number: int) -> None:
        kind = Watcher if self.discards and number >= SAMPLES else Reader
        url = await self.server.session(self.topic, node=f"member {number}")
        loop = asyncio.get_running_loop()
        _, watcher = await loop.create_connection(lambda: kind(url, self.buffer), self.server.host, self.server.port)
        await watcher.open
        self.watchers.append(watcher)

    async def begin(self, number: int, start: float) -> Speaker:
        start += number / self.participants * EVERY
        loop = asyncio.get_running_loop()
        _, speaker = await loop.create_connection(
            lambda: Speaker(self.topic, f"member {number}", start), self.server.host, self.server.port
        )
        return speaker

    async def meet(self) -> Met:
        everybody = range(self.participants)
        await self.server.call("PUT", f"/v0/topics/{self.topic}", CONFIG)
        await asyncio.gather(*(self.enter(number) for number in everybody))
        start, before = time.monotonic() + 0.2, self.spent()
        speakers = await asyncio.gather(*(self.begin(number, start) for number in everybody))
        end = max(await asyncio.gather(*(speaker.done for speaker in speakers)))
        # The last record has no node, so that every watcher gets it.
        last = {"records": [{"data": {"at": time.monotonic() * 1000}}]}
        head_seq = (await self.server.call("POST", f"/v0/topics/{self.topic}", last))["last_seq"]
        deadline = time.monotonic() + 15
        while not (reached := self.has_reached(head_seq)) and time.monotonic() < deadline:
            await asyncio.sleep(0.05)
        used, deliveries = self.spent(), head_seq * (self.participants - 1)
        for watcher in self.watchers:
            watcher.transport.abort()
        for speaker in speakers:
            speaker.transport.abort()
        readers = [watcher for watcher in self.watchers if isinstance(watcher, Reader)]
        # Every record but its own: a loss would be missing here.
        whole = reached and all(len(each.ages) == head_seq - speakers[0].accepted for each in readers)
        ages = sorted(age for each in readers for age in each.ages)
        web, database = ((now - was) / deliveries for now, was in zip(used, before, strict=True))
        return Met(sum(each.accepted for each in speakers) / (end - start), whole, ages, (web, database))

    def has_reached(self, head_seq: int) -> bool:
        return all(watcher.to_seq == head_seq for watcher in self.watchers)


def measured(instance: Instance, participants: int, discards: bool) -> Met:
    """Runs one room in this process."""
    server = Server("127.0.0.1", instance.port)
    return uvloop.run(Room(server, Cpu(instance).now, participants, discards).meet())


def a_room(instance: Instance, participants: int, discards: bool) -> Row:
    """Returns the row of a room. Its client has a process of its own."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as apart:
        met = apart.submit(measured, Instance(instance.data, instance.port), participants, discards).result()
    wanted, p50, (web, database) = participants / EVERY, at(met.ages, 0.5), met.cpu
    asked = f"all of {wanted:,.0f} records/s, p50 < {ASKED_MS[participants]} ms"
    ok = met.reached_all and met.rate >= 0.98 * wanted and p50 < ASKED_MS[participants]
    if discards and participants == max(ASKED_MS):
        asked += f", ≤ {ASKED_CPU:.0f} µs a delivery"
        ok = ok and web + database <= ASKED_CPU
    figures = f"{met.rate:,.0f} records/s, p50 {p50:.0f}, p99 {at(met.ages, 0.99):.0f} ms"
    figures += f"; CPU {web:.1f} + {database:.1f} µs a delivery" + ("" if met.reached_all else "; NOT all delivered")
    work = f"a room of {participants}, a client that {'discards' if discards else 'parses'}"
    return Row(work, asked, figures, ok=ok)


def run(instance: Instance) -> Iterator[Row]:
    for discards in (True, False):
        for participants in ASKED_MS:
            yield a_room(instance, participants, discards)

"""WebSockets: publishes beside those over HTTP, the memory of idle sockets, and a room. The clients run in a separate process."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import time
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import AsyncExitStack
from statistics import median
from typing import Any, TypeVar

import uvloop
from websockets.asyncio.client import ClientConnection, connect

from bench import load
from bench.report import Row
from bench.room import CONFIG, EVERY
from bench.watch import PAD, Server, at, memory, name
from tests.instances import Instance

IN_FLIGHT, ROUNDS, SECONDS, ASKED_RATIO = 64, 3, 5.0, 1.3
IDLE, ASKED_KB = 10_000, 25
PARTICIPANTS, ROOM_SECONDS, QUIET_SECONDS, ASKED_MS = 100, 10.0, 4.0, 250.0
T = TypeVar("T")
RECORD = {"data": {"kind": "bench", "pad": PAD}}


def opened(port: int) -> connect:
    return connect(f"ws://127.0.0.1:{port}/v0/ws", proxy=None, compression=None, max_queue=None, ping_interval=None)


async def publish(port: int, topic: str) -> float:
    """Returns acks a second on one socket with IN_FLIGHT publishes in flight."""
    message = json.dumps({"op": "publish", "topic": topic, "records": [RECORD]})
    async with opened(port) as socket:
        for _ in range(IN_FLIGHT):
            await socket.send(message)
        started, acks = time.perf_counter(), 0
        while time.perf_counter() - started < SECONDS:
            assert '"op":"ack"' in str(await socket.recv())
            acks += 1
            await socket.send(message)
        return acks / (time.perf_counter() - started)


async def idle(port: int) -> float:
    """Returns the memory of an idle socket (kB)."""
    server = Server("127.0.0.1", port)
    before = memory(server)
    async with AsyncExitStack() as stack:
        for _ in range(IDLE):
            await stack.enter_async_context(opened(port))
        await asyncio.sleep(1)
        return (memory(server) - before) / IDLE


class Participant:
    """Publishes a record every EVERY seconds, and notes when the records of the others arrive."""

    def __init__(self, number: int, topic: str, late: list[float]) -> None:
        self.node, self.topic, self.late = f"n{number}", topic, late
        self.sent = self.seen = 0

    async def join(self, socket: ClientConnection) -> None:
        await socket.send(json.dumps({"op": "subscribe", "topic": self.topic, "tail": True, "node": self.node}))
        while '"op":"subscribed"' not in str(await socket.recv()):
            pass

    async def speak(self, socket: ClientConnection) -> None:
        begun = time.perf_counter()
        while (now := time.perf_counter()) - begun < ROOM_SECONDS:
            records = [{"data": {"at": now}}]
            await socket.send(json.dumps({"op": "publish", "topic": self.topic, "node": self.node, "records": records}))
            self.sent += 1
            await asyncio.sleep(max(0.0, begun + self.sent * EVERY - time.perf_counter()))

    async def listen(self, socket: ClientConnection) -> None:
        while True:
            try:
                frame = json.loads(await asyncio.wait_for(socket.recv(), QUIET_SECONDS))
            except TimeoutError:
                return
            if frame["op"] == "record":
                now = time.perf_counter()
                self.late += [now - record["data"]["at"] for record in frame["records"]]
                self.seen += len(frame["records"])


async def room(port: int) -> tuple[int, int, float]:
    """Returns the deliveries that must arrive, those that arrived, and the p50 from the send to the arrival (ms)."""
    topic = name()
    await Server("127.0.0.1", port).call("PUT", f"/v0/topics/{topic}", CONFIG)
    late: list[float] = []
    everybody = [Participant(number, topic, late) for number in range(PARTICIPANTS)]
    async with AsyncExitStack() as stack:
        sockets = [await stack.enter_async_context(opened(port)) for _ in everybody]
        pairs = list(zip(everybody, sockets, strict=True))
        await asyncio.gather(*(each.join(socket) for each, socket in pairs))
        await asyncio.gather(*(task for each, socket in pairs for task in (each.speak(socket), each.listen(socket))))
    due = sum(each.sent for each in everybody) * (PARTICIPANTS - 1)
    return due, sum(each.seen for each in everybody), at(sorted(late), 0.5) * 1000


def of_publishes(instance: Instance, pool: ProcessPoolExecutor) -> Row:
    topic = name()
    rates: list[float] = []
    others: list[float] = []
    url, body = f"{instance.url}/v0/topics/{topic}?return_seqs=false", json.dumps({"records": [RECORD]})
    load.post(url, body, 1, 1)
    for _ in range(ROUNDS):
        rates.append(pool.submit(in_loop, publish, instance.port, topic).result())
        others.append(load.post(url, body, IN_FLIGHT, SECONDS).rate)
    ratio = median(rates) / median(others)
    what = f"publish on one socket, {IN_FLIGHT} in flight, beside HTTP with {IN_FLIGHT} connections"
    measured = f"{median(rates):,.0f} records/s"
    return Row(
        what, f"≥ {ASKED_RATIO}", measured, f"{median(others):,.0f} by HTTP", f"{ratio:.2f}", ok=ratio >= ASKED_RATIO
    )


def of_idle(instance: Instance, pool: ProcessPoolExecutor) -> Row:
    each = pool.submit(in_loop, idle, instance.port).result()
    return Row(f"{IDLE:,} idle sockets", f"< {ASKED_KB} kB each", f"{each:.1f} kB each", ok=each < ASKED_KB)


def of_room(instance: Instance, pool: ProcessPoolExecutor) -> Row:
    due, seen, p50 = pool.submit(in_loop, room, instance.port).result()
    measured = f"{seen:,} of {due:,} deliveries, p50 {p50:.0f} ms"
    return Row(
        f"a room of {PARTICIPANTS} over WebSockets",
        f"all delivered, p50 < {ASKED_MS:.0f} ms",
        measured,
        ok=seen == due and p50 < ASKED_MS,
    )


def in_loop(work: Callable[..., Coroutine[Any, Any, T]], *arguments: Any) -> T:
    return uvloop.run(work(*arguments))


def run(instance: Instance) -> Iterator[Row]:
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield from (measure(instance, pool) for measure in (of_publishes, of_idle, of_room))

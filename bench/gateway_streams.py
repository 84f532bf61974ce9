"""Streams through a gateway: the additional latency of records, and the memory of the gateway."""

from __future__ import annotations

import asyncio
import multiprocessing
import re
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import uvloop

from bench.report import Row
from bench.watch import Crowd, Server, Watcher, at, exchange, name
from tests.gateway.running import Running, by_topic, static, union
from tests.instances import Instance

WATCHED = 256  # topics of one watch, one half on each server
APPENDS, PAUSE_SECONDS = 600, 0.01
REPLAYED, BATCH = 1_000_000, 5000
STREAMS, WARM_STREAMS = 1000, 100
MOST_GROWN_KB, MOST_STREAM_KB, MOST_LATER_MS = 30_000, 40.0, 5.0
NUMBER = re.compile(rb'"number": ?(\d+)[,}]')


def run(instance: Instance, other: Instance) -> Iterator[Row]:
    """Yields the rows of this module. The clients run in a separate process."""
    configurations = {
        "StaticRouter": static(instance.port),
        "TopicRouter": by_topic(other.port, instance.port),
        "UnionRouter": union(instance.port, other.port),
    }
    servers = Server("127.0.0.1", instance.port), Server("127.0.0.1", other.port)
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as apart:
        topic = name()
        direct = apart.submit(uvloop_run, fill_and_replay, servers[0], topic).result()
        for router, configuration in configurations.items():
            configuration["virtualClusters"][0]["gateways"].append({"host": "localhost"})  # bench.watch sends this Host
            with tempfile.TemporaryDirectory() as folder:
                gateway = Running(Path(folder), configuration).start()
                assert gateway.process is not None
                through = Server("127.0.0.1", gateway.port), gateway.process.pid
                try:
                    if router == "UnionRouter":
                        yield apart.submit(uvloop_run, watch_of_two, servers, through[0]).result()
                    else:
                        yield apart.submit(uvloop_run, replay, router, *through, topic, direct).result()
                    yield apart.submit(uvloop_run, streams, router, *through).result()
                finally:
                    gateway.kill()


def uvloop_run(work: Any, *arguments: Any) -> Any:
    return uvloop.run(work(*arguments))


# -- A watch over two servers ------------------------------------------------------------------------------------------


class Arrivals(asyncio.Protocol):
    """Reads a stream and notes the arrival of each numbered record."""

    def __init__(self, url: str) -> None:
        self.url, self.rest = url, b""
        self.arrived: dict[int, float] = {}
        self.open = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        transport.write(f"GET {self.url} HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n".encode())

    def data_received(self, data: bytes) -> None:
        now = time.monotonic()
        if not self.open.done() and b"\nretry: " in data:
            self.open.set_result(None)
        data = self.rest + data
        end = 0
        for found in NUMBER.finditer(data):
            self.arrived[int(found[1])] = now
            end = found.end()
        self.rest = data[end:][-40:]


@dataclass
class Numbered:
    """Appends one numbered record at a time, to topics of two servers in turn, and notes the start of each append."""

    servers: tuple[Server, Server]
    begun: dict[int, float] = field(default_factory=dict)

    async def append(self, topics: list[str], numbers: range, pause: float) -> None:
        connections = [await asyncio.open_connection(each.host, each.port) for each in self.servers]
        for number in numbers:
            # Each topic gets records on both servers.
            topic, connection = topics[number // 2 % len(topics)], connections[number % 2]
            self.begun[number] = time.monotonic()
            body = {"records": [{"data": {"number": number, "kind": "bench"}}]}
            await exchange(*connection, "POST", f"/v0/topics/{topic}", body)
            await asyncio.sleep(pause)
        for _, writer in connections:
            writer.close()


async def watch(server: Server, topics: list[str]) -> Arrivals:
    starts = {topic: {"tail": True} for topic in topics}
    answer = await server.call("POST", "/v0/watch", {"topics": starts})
    loop = asyncio.get_running_loop()
    _, arrivals = await loop.create_connection(lambda: Arrivals(answer["stream_url"]), server.host, server.port)
    await arrivals.open
    return arrivals


async def watch_of_two(servers: tuple[Server, Server], gateway: Server) -> Row:
    """Returns a row that compares a watch of each server with one watch of both through the gateway, for the same records."""
    topics = [name() for _ in range(WATCHED // 2)]
    for server in servers:
        for topic in topics:
            await server.call("PUT", f"/v0/topics/{topic}", {})
    direct = [await watch(server, topics) for server in servers]
    through = await watch(gateway, [f"{route}.{topic}" for route in ("eu", "us") for topic in topics])
    appends = Numbered(servers)
    await appends.append(topics, range(-200, 0), 0.001)  # warm-up: the pattern ignores negative numbers
    await appends.append(topics, range(APPENDS), PAUSE_SECONDS)
    deadline = time.monotonic() + 30
    while len(through.arrived) < APPENDS and time.monotonic() < deadline:
        await asyncio.sleep(0.02)
    for each in (*direct, through):
        each.transport.abort()
    came = {**direct[0].arrived, **direct[1].arrived}
    whole = len(came) == len(through.arrived) == APPENDS
    alone, later = (
        at(sorted((when - appends.begun[number]) * 1000 for number, when in found.items()), 0.5)
        for found in (came, through.arrived)
    )
    return Row(
        f"UnionRouter of two, a watch of {WATCHED} topics: append to delivery",
        f"all delivered, p50 + < {MOST_LATER_MS:g} ms",
        f"{'all' if whole else f'only {len(through.arrived)}'} delivered, p50 {later:.2f} ms",
        f"{alone:.2f} ms direct",
        f"+{later - alone:.2f} ms",
        whole and later - alone < MOST_LATER_MS,
    )


# -- Memory ------------------------------------------------------------------------------------------------------------


def memory(pid: int, what: str) -> int:
    """Returns the memory of a process (kB). `what`: `VmRSS`, or `VmHWM` for the peak since `forget_peak`."""
    lines = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return int(lines[what].split()[0])


def forget_peak(pid: int) -> None:
    Path(f"/proc/{pid}/clear_refs").write_text("5")


async def fill_and_replay(server: Server, topic: str) -> float:
    """Fill a topic. Returns the rate of a watch of it without a gateway (records a second)."""
    reader, writer = await asyncio.open_connection(server.host, server.port)
    body = {"records": [{"data": {"kind": "bench", "pad": "x" * 60}}] * BATCH}
    for _ in range(REPLAYED // BATCH):
        await exchange(reader, writer, "POST", f"/v0/topics/{topic}?return_seqs=false", body)
    writer.close()
    return await replayed(server, topic)


async def replayed(server: Server, topic: str) -> float:
    """Returns the rate of a watch from the beginning (records a second), or 0 if it does not get all records."""
    crowd = Crowd(server)
    answer = await server.call("POST", "/v0/watch", {"topics": {topic: {"from_seq": 0}}})
    started = time.monotonic()
    _, watcher = await asyncio.get_running_loop().create_connection(
        lambda: Watcher(topic, answer["stream_url"], None), server.host, server.port
    )
    crowd.watchers.append(watcher)
    whole = await crowd.caught_up({topic: REPLAYED}, 120) and watcher.records == REPLAYED
    crowd.close()
    return REPLAYED / (time.monotonic() - started) if whole else 0.0


async def replay(router: str, gateway: Server, pid: int, topic: str, direct: float) -> Row:
    await gateway.call("GET", f"/v0/topics/{topic}")  # the first call allocates memory that a process needs only once
    before = memory(pid, "VmRSS")
    forget_peak(pid)
    rate = await replayed(gateway, topic)
    grown = memory(pid, "VmHWM") - before
    return Row(
        f"{router}: replay of 1 million records to one watcher",
        f"all delivered, peak memory of the gateway + < {MOST_GROWN_KB // 1000} MB",
        f"{f'{rate:,.0f}/s' if rate else 'NOT all'}, {grown:+,} kB at most",
        f"{direct:,.0f}/s direct",
        f"{rate / direct:.2f}",
        rate > 0 and grown < MOST_GROWN_KB,
    )


async def streams(router: str, gateway: Server, pid: int) -> Row:
    topics = [f"us.{name()}" for _ in range(WARM_STREAMS)]
    for topic in topics:
        await gateway.call("PUT", f"/v0/topics/{topic}", {})
    crowd = Crowd(gateway)
    # The first streams allocate memory that a process needs only once.
    await crowd.gather(topics, timed=False, heartbeat_ms=60_000)
    before = memory(pid, "VmRSS")
    await crowd.gather([topics[place % WARM_STREAMS] for place in range(STREAMS)], timed=False, heartbeat_ms=60_000)
    each = (memory(pid, "VmRSS") - before) / STREAMS
    asked = [await timed_diff(gateway, topics[0]) for _ in range(100)]
    crowd.close()
    p50 = at(sorted(asked), 0.5)
    return Row(
        f"{router}: {STREAMS:,} open streams",
        f"< {MOST_STREAM_KB:g} kB a stream in the gateway, which answers",
        f"{each:.1f} kB, a diff p50 {p50:.1f} ms",
        ok=each < MOST_STREAM_KB and p50 < 50,
    )


async def timed_diff(server: Server, topic: str) -> float:
    """Returns the latency of a diff on a new connection (ms)."""
    started = time.monotonic()
    await server.call("POST", f"/v0/topics/{topic}/diff", {})
    return (time.monotonic() - started) * 1000

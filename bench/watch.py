"""Watchers on raw sockets and simultaneous appends, in a separate process with uvloop.

Latency is the time from an append's ack to its arrival at a watcher, by one clock. A record that arrives before its ack counts as
0.
"""

from __future__ import annotations

import asyncio
import json
import re
import secrets
import statistics
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.report import Row

SEQS = re.compile(rb'"from_seq":(\d+),"to_seq":(\d+),"head_seq":')
PAD = "x" * 60  # records of ~110 bytes
# Settings of a server with all watchers at one address.
NO_CAPS = {"TOPICS_MAX_STREAMS_PER_KEY": "0", "TOPICS_MAX_WATCH_SESSIONS_PER_KEY": "0"}


@dataclass
class Server:
    host: str
    port: int

    async def call(self, method: str, path: str, body: Any = None) -> Any:
        """Sends one request on a new connection. Returns the answer's body."""
        reader, writer = await asyncio.open_connection(self.host, self.port, limit=2**22)
        try:
            return await exchange(reader, writer, method, path, body)
        finally:
            writer.close()

    async def session(self, topic: str, **options: Any) -> str:
        answer = await self.call("POST", "/v0/watch", {"topics": {topic: {"tail": True}}, **options})
        return str(answer["stream_url"])


async def exchange(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, method: str, path: str, body: Any
) -> Any:
    content = b"" if body is None else json.dumps(body).encode()
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(content)}"
    writer.write(head.encode() + b"\r\n\r\n" + content)
    header = await reader.readuntil(b"\r\n\r\n")
    length = int(re.search(rb"content-length: (\d+)", header.lower())[1])  # type: ignore[index]
    answer = json.loads(await reader.readexactly(length))
    if b" 20" not in header[:14]:
        raise RuntimeError(f"{method} {path}: {answer}")
    return answer


class Appender:
    """Appends on a kept connection, and notes the time of each seq's ack."""

    def __init__(self, server: Server, acked: dict[tuple[str, int], float]) -> None:
        self.server, self.acked = server, acked

    async def __aenter__(self) -> Appender:
        self.reader, self.writer = await asyncio.open_connection(self.server.host, self.server.port)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.writer.close()

    async def append(self, topic: str, count: int = 1) -> None:
        body = {"records": [{"data": {"kind": "bench", "pad": PAD}}] * count}
        answer = await exchange(self.reader, self.writer, "POST", f"/v0/topics/{topic}", body)
        now = time.monotonic()
        for seq in range(answer["first_seq"], answer["last_seq"] + 1):
            self.acked[topic, seq] = now


class Watcher(asyncio.Protocol):
    """Reads a stream and counts its records. With `arrived`, it also notes the arrival of each seq."""

    def __init__(self, topic: str, url: str, arrived: dict[int, float] | None) -> None:
        self.topic, self.url, self.arrived = topic, url, arrived
        self.rest = b""
        self.records = self.last_seq = self.bytes = 0
        self.open = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        transport.write(f"GET {self.url} HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n".encode())

    def data_received(self, data: bytes) -> None:
        if not self.open.done() and b"\nretry: " in data:
            self.open.set_result(None)
        self.bytes += len(data)
        data = self.rest + data
        end = 0
        for match in SEQS.finditer(data):
            first, last = int(match[1]) + 1, int(match[2])
            self.records += last - first + 1
            self.last_seq = last
            if self.arrived is not None:
                now = time.monotonic()
                for seq in range(first, last + 1):
                    self.arrived[seq] = now
            end = match.end()
        self.rest = data[end:][-400:]

    def connection_lost(self, error: Exception | None) -> None:
        if not self.open.done():
            self.open.set_exception(error or ConnectionError("closed"))


@dataclass
class Crowd:
    """Watchers of some topics, and the acks and arrivals of their records."""

    server: Server
    watchers: list[Watcher] = field(default_factory=list)
    acked: dict[tuple[str, int], float] = field(default_factory=dict)

    async def gather(self, topics: list[str], timed: bool = True, **options: Any) -> None:
        loop = asyncio.get_running_loop()
        for begin in range(0, len(topics), 50):

            async def join(topic: str) -> Watcher:
                url = await self.server.session(topic, **options)
                _, watcher = await loop.create_connection(
                    lambda: Watcher(topic, url, {} if timed else None), self.server.host, self.server.port
                )
                await watcher.open
                return watcher

            self.watchers += await asyncio.gather(*(join(topic) for topic in topics[begin : begin + 50]))

    async def caught_up(self, last: dict[str, int], seconds: float = 60) -> bool:
        deadline = time.monotonic() + seconds
        while any(watcher.last_seq < last.get(watcher.topic, 0) for watcher in self.watchers):
            if time.monotonic() > deadline:
                return False
            await asyncio.sleep(0.02)
        return True

    def latencies(self) -> list[float]:
        """Returns the latencies in ms, sorted."""
        return sorted(
            max(0.0, came - self.acked[watcher.topic, seq]) * 1000
            for watcher in self.watchers
            for seq, came in (watcher.arrived or {}).items()
            if (watcher.topic, seq) in self.acked
        )

    def last(self) -> dict[str, int]:
        result: dict[str, int] = {}
        for topic, seq in self.acked:
            result[topic] = max(result.get(topic, 0), seq)
        return result

    def close(self) -> None:
        for watcher in self.watchers:
            watcher.transport.abort()


def at(sorted_values: list[float], share: float) -> float:
    return sorted_values[min(len(sorted_values) - 1, int(len(sorted_values) * share))] if sorted_values else 0.0


async def paced(server: Server, topics: list[str], appended: list[str], rate: float, seconds: float) -> Crowd:
    """Returns watchers of `topics` after appends to each of `appended` in turn. `rate`: appends a second."""
    crowd = Crowd(server)
    for topic in set(appended):
        await server.call("PUT", f"/v0/topics/{topic}", {})
    await crowd.gather(topics)
    async with Appender(server, crowd.acked) as one, Appender(server, crowd.acked) as other:
        for topic in appended[:4]:  # warms both connections
            await one.append(topic)
            await other.append(topic)
        crowd.acked.clear()
        start = time.monotonic()
        under_way: set[asyncio.Task[None]] = set()
        for place in range(int(rate * seconds)):
            await asyncio.sleep(max(0.0, start + place / rate - time.monotonic()))
            await (one, other)[place % 2].append(appended[place % len(appended)])
        await asyncio.gather(*under_way)
    await crowd.caught_up(crowd.last())
    crowd.close()
    return crowd


def name() -> str:
    return f"bench-watch:{secrets.token_hex(4)}"


async def one_watcher(server: Server) -> Row:
    topic = name()
    ms = (await paced(server, [topic], [topic], 100, 10)).latencies()
    p50, p99 = at(ms, 0.5), at(ms, 0.99)
    return Row(
        "1 watcher, 100 appends/s",
        "p50 < 0.9 ms, p99 < 15 ms",
        f"p50 {p50:.2f}, p99 {p99:.1f} ms",
        ok=p50 < 0.9 and p99 < 15,
    )


async def hundred_watchers(server: Server) -> Row:
    topic = name()
    ms = (await paced(server, [topic] * 100, [topic], 100, 10)).latencies()
    p50 = at(ms, 0.5)
    return Row(
        "100 watchers on one topic, 100 appends/s",
        "p50 < 2 ms",
        f"p50 {p50:.2f}, p99 {at(ms, 0.99):.1f} ms",
        ok=p50 < 2,
    )


async def thousand_watchers(server: Server) -> Row:
    topic = name()
    crowd = await paced(server, [topic] * 1000, [topic], 10, 10)
    ms = crowd.latencies()
    p50, p99 = at(ms, 0.5), at(ms, 0.99)
    whole = len(ms) == 1000 * len(crowd.acked)
    measured = f"{'all' if whole else f'only {len(ms)}'} delivered, p50 {p50:.1f}, p99 {p99:.1f} ms"
    return Row(
        "1,000 watchers on one topic, 10 appends/s",
        "all delivered, p50 < 25 ms, p99 < 80 ms",
        measured,
        ok=whole and p50 < 25 and p99 < 80,
    )


async def as_fast_as_it_goes(server: Server) -> Row:
    """Returns a row for appends one at a time, each after the previous ack. So frames are small, and most work is delivery."""
    topic = name()
    await server.call("PUT", f"/v0/topics/{topic}", {})
    crowd = Crowd(server)
    await crowd.gather([topic] * 1000, timed=False)
    start = time.monotonic()
    async with Appender(server, crowd.acked) as appender:
        while time.monotonic() < start + 8:
            await appender.append(topic)
    whole = await crowd.caught_up(crowd.last())
    rate = sum(watcher.records for watcher in crowd.watchers) / (time.monotonic() - start)
    crowd.close()
    measured = f"{rate:,.0f}/s of {len(crowd.acked):,} records" + ("" if whole else ", NOT all delivered")
    return Row(
        "1,000 watchers on one topic, as fast as it goes",
        "≥ 45,000 deliveries/s",
        measured,
        ok=whole and rate >= 45_000,
    )


async def thousand_topics(server: Server) -> Row:
    topics = [name() for _ in range(1000)]
    crowd = await paced(server, topics, topics, 200, 10)
    ms = crowd.latencies()
    whole, p50 = len(ms) == len(crowd.acked), at(ms, 0.5)
    measured = f"{'all' if whole else f'only {len(ms)}'} delivered, p50 {p50:.1f}, p99 {at(ms, 0.99):.1f} ms"
    work = "1,000 watchers, each its own topic, 200 appends/s over them"
    return Row(work, "p50 < 25 ms", measured, ok=whole and p50 < 25)


async def replay(server: Server, records: int = 1_000_000) -> Row:
    topic = name()
    async with Appender(server, {}) as appender:
        for _ in range(records // 5000):
            await appender.append(topic, 5000)
    before = memory(server)
    crowd = Crowd(server)
    answer = await server.call("POST", "/v0/watch", {"topics": {topic: {"from_seq": 0}}})
    loop = asyncio.get_running_loop()
    start = time.monotonic()
    _, watcher = await loop.create_connection(
        lambda: Watcher(topic, answer["stream_url"], None), server.host, server.port
    )
    crowd.watchers.append(watcher)
    whole = await crowd.caught_up({topic: records}, 120) and watcher.records == records
    rate, grown = records / (time.monotonic() - start), memory(server) - before
    crowd.close()
    measured = f"{rate:,.0f}/s{'' if whole else ', NOT all'}, memory {grown:+,} kB"
    return Row(
        "replay of 1 million records to one watcher",
        "≥ 100,000/s, memory flat",
        measured,
        ok=whole and rate >= 100_000 and grown < 30_000,
    )


async def idle_streams(server: Server, count: int = 5000) -> Row:
    topics = [name() for _ in range(100)]
    for topic in topics:
        await server.call("PUT", f"/v0/topics/{topic}", {})
    crowd = Crowd(server)
    # The first streams allocate memory that a process needs only once.
    await crowd.gather(topics * 2, heartbeat_ms=60_000)
    before = memory(server)
    await crowd.gather([topics[place % 100] for place in range(count)], timed=False, heartbeat_ms=60_000)
    each = (memory(server) - before) / count
    ms = []
    for _ in range(200):
        start = time.monotonic()
        await server.call("POST", f"/v0/topics/{topics[0]}/diff", {})
        ms.append((time.monotonic() - start) * 1000)
    crowd.close()
    measured = f"{each:.1f} kB, a diff p50 {statistics.median(ms):.1f} ms with {count:,} open"
    return Row(
        f"{count:,} idle streams",
        "< 60 kB each, the API answers",
        measured,
        ok=each < 60 and statistics.median(ms) < 50,
    )


def memory(server: Server) -> int:
    """Returns the memory of the processes that listen on the server's port (kB, proportional set size)."""
    wanted = f":{server.port:04X}"
    inodes = {
        line.split()[9]
        for line in Path("/proc/net/tcp").read_text().splitlines()[1:]
        if line.split()[1].endswith(wanted) and line.split()[3] == "0A"
    }
    total = 0
    for process in Path("/proc").glob("[0-9]*"):
        try:
            links = {str(link.readlink()) for link in (process / "fd").iterdir()}
            if any(f"socket:[{inode}]" in links for inode in inodes):
                lines = dict(line.split(":", 1) for line in (process / "smaps_rollup").read_text().splitlines()[1:])
                total += int(lines["Pss"].split()[0])
        except OSError:
            continue
    return total

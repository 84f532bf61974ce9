"""A room: a hundred clients watch one topic. Each client writes to it under its own node, and sees the records of all others."""

from __future__ import annotations

import asyncio
import re
import time
from dataclasses import dataclass
from typing import Any

from bench.report import Row
from bench.watch import PAD, Server, at, exchange, name

CLIENTS, RATE, SECONDS = 100, 17, 10.0  # RATE: records a second of each client
WRITERS = 20  # connections for writing. Each serves several clients in turn.
SENT = re.compile(rb'"at": (\d+)')


class Member(asyncio.Protocol):
    """Counts the received records, and notes the age of the last record in each piece of the stream."""

    def __init__(self, url: str) -> None:
        self.url, self.rest, self.seen = url, b"", 0
        self.ages: list[float] = []
        self.open = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        transport.write(f"GET {self.url} HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n".encode())

    def data_received(self, data: bytes) -> None:
        if not self.open.done() and b"\nretry: " in data:
            self.open.set_result(None)
        data = self.rest + data
        end = data.rfind(b"}") + 1
        sent = SENT.findall(data, 0, end)
        self.seen += len(sent)
        if sent:
            self.ages.append(time.monotonic() * 1000 - int(sent[-1]) / 1000)
        self.rest = data[end:]


@dataclass
class Room:
    server: Server
    topic: str
    members: list[Member]
    written: int = 0

    async def enter(self, number: int) -> None:
        url = await self.server.session(self.topic, node=f"member {number}")
        loop = asyncio.get_running_loop()
        _, member = await loop.create_connection(lambda: Member(url), self.server.host, self.server.port)
        await member.open
        self.members.append(member)

    async def write(self, numbers: range, start: float) -> None:
        """Write the records of these members through one connection, each member at its rate."""
        reader, writer = await asyncio.open_connection(self.server.host, self.server.port)
        every = 1 / (RATE * len(numbers))
        for turn in range(int(SECONDS * RATE)):
            for place, number in enumerate(numbers):
                await asyncio.sleep(max(0.0, start + (turn * len(numbers) + place) * every - time.monotonic()))
                record = {"node": f"member {number}", "data": {"at": int(time.monotonic() * 1e6), "pad": PAD}}
                await exchange(
                    reader, writer, "POST", f"/v0/topics/{self.topic}?return_seqs=false", {"records": [record]}
                )
                self.written += 1
        writer.close()


async def a_room(server: Server) -> Row:
    room = Room(server, name(), [])
    await server.call("PUT", f"/v0/topics/{room.topic}", {})
    await asyncio.gather(*(room.enter(number) for number in range(CLIENTS)))
    each = CLIENTS // WRITERS
    start = time.monotonic() + 0.1
    await asyncio.gather(*(room.write(range(n * each, (n + 1) * each), start) for n in range(WRITERS)))
    took = time.monotonic() - start
    wanted = room.written * (CLIENTS - 1)
    deadline = time.monotonic() + 30
    while sum(member.seen for member in room.members) < wanted and time.monotonic() < deadline:
        await asyncio.sleep(0.05)
    seen = sum(member.seen for member in room.members)
    for member in room.members:
        member.transport.abort()
    ages = sorted(age for member in room.members for age in member.ages)
    p50 = at(ages, 0.5)
    delivered = "all" if seen == wanted else f"{seen:,} of {wanted:,}"
    measured = (
        f"{delivered} delivered, {room.written / took:,.0f} written/s, p50 {p50:.0f}, p99 {at(ages, 0.99):.0f} ms"
    )
    asked = f"all delivered of {CLIENTS * RATE:,} written/s, p50 < 250 ms"
    ok = seen == wanted and p50 < 250 and room.written / took >= 0.95 * CLIENTS * RATE
    return Row("a room: 100 watchers who write, each under its own node", asked, measured, ok=ok)

"""Many short lives of topics at once. Clients in a separate process create, fill, read and empty topics."""

from __future__ import annotations

import asyncio
import multiprocessing
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor

import uvloop

from bench.report import Row
from bench.watch import PAD, Server, exchange, name
from tests.instances import Instance

TOPICS, CLIENTS, APPENDS, RECORDS = 1_000, 32, 5, 5
ASKED = 14_000  # records a second
WORK = f"{TOPICS:,} new topics, each {APPENDS} appends of {RECORDS}, two GETs and two deletes, {CLIENTS} clients"


async def live(server: Server, topics: Iterator[str]) -> None:
    """Run one client. For each topic it appends several times. After every second append it sends a GET and a delete."""
    reader, writer = await asyncio.open_connection(server.host, server.port)
    body = {"records": [{"data": {"kind": "bench", "pad": PAD}}] * RECORDS}
    for topic in topics:
        path = f"/v0/topics/{topic}"
        for turn in range(APPENDS):
            await exchange(reader, writer, "POST", path, body)
            if turn % 2:
                head = (await exchange(reader, writer, "GET", path, None))["head_seq"]
                await exchange(reader, writer, "POST", f"{path}/delete", {"before_seq": head})
    writer.close()


async def all_lives(server: Server) -> float:
    """Returns the time of all clients (s)."""
    prefix = name()
    topics = iter([f"{prefix}:{number}" for number in range(TOPICS)])
    started = time.monotonic()
    await asyncio.gather(*(live(server, topics) for _ in range(CLIENTS)))
    return time.monotonic() - started


def work_apart(port: int) -> float:
    return uvloop.run(all_lives(Server("127.0.0.1", port)))


def run(instance: Instance) -> Row:
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as apart:
        took = apart.submit(work_apart, instance.port).result()
    rate = TOPICS * APPENDS * RECORDS / took
    return Row(WORK, f"≥ {ASKED:,} records/s", f"{rate:,.0f} records/s", ok=rate >= ASKED)

"""Queues: producers and workers at full speed, and claims beside many jobs in flight. The clients run in a separate process."""

from __future__ import annotations

import asyncio
import itertools
import multiprocessing
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from statistics import median
from typing import Any, NamedTuple

import psycopg
import uvloop

from bench.report import Row
from bench.watch import PAD, Server, exchange, name
from tests.instances import Instance, until

PRODUCERS, WORKERS, BATCH, JOBS = 4, 16, 10, 60_000
CROWD, CROWD_JOBS, CROWD_MS = 50, 100_000, 10.0  # the p50 of a claim
FEW_JOBS, MANY_JOBS = 2_000, 500_000
ASKED, ASKED_BESIDE = 12_000, 8_000  # jobs a second
IN_FLIGHT, CLAIMS, ASKED_MS = 100_000, 500, 25.0


async def produce(server: Server, queue: str, turns: Iterator[int], size: int = 100) -> None:
    reader, writer = await asyncio.open_connection(server.host, server.port)
    body = {"records": [{"data": {"kind": "bench", "pad": PAD}}] * size}
    for _ in turns:
        await exchange(reader, writer, "POST", f"/v0/topics/{queue}?return_seqs=false", body)
    writer.close()


async def work(server: Server, queue: str, node: str, done: list[int], wanted: int, times: list[float]) -> None:
    """Claims and acks until all workers together have done all jobs. `times` gets the duration of each claim of jobs (ms)."""
    reader, writer = await asyncio.open_connection(server.host, server.port)
    while done[0] < wanted:
        began = time.perf_counter()
        jobs = await exchange(reader, writer, "POST", f"/v0/topics/{queue}/claim", {"node": node, "max": BATCH})
        seqs, leases = [job["$seq"] for job in jobs["claimed"]], [job["lease_id"] for job in jobs["claimed"]]
        if seqs:
            times.append((time.perf_counter() - began) * 1000)
            body = {"node": node, "seqs": seqs, "lease_ids": leases}
            answer = await exchange(reader, writer, "POST", f"/v0/topics/{queue}/ack", body)
            done[0] += answer["acked"]
    writer.close()


class Speed(NamedTuple):
    """Jobs a second, and the p50 of a claim (ms)."""

    rate: float
    claim_ms: float


async def at_full_speed(server: Server, jobs: int, workers: int) -> Speed:
    queue, turns, done = name(), iter(range(jobs // 100)), [0]
    times: list[float] = []
    await server.call("PUT", f"/v0/topics/{queue}", {"type": "queue"})
    started = time.monotonic()
    async with asyncio.TaskGroup() as group:
        for _ in range(PRODUCERS):
            group.create_task(produce(server, queue, turns))
        for n in range(workers):
            group.create_task(work(server, queue, f"w{n}", done, jobs, times))
    return Speed(jobs / (time.monotonic() - started), median(times))


async def beside_many(server: Server) -> float:
    """Returns the p99 of a claim of ten jobs, each followed by its ack (ms), with 100,000 other jobs in flight."""
    queue = name()
    await server.call("PUT", f"/v0/topics/{queue}", {"type": "queue", "lease_ms": 3_600_000})
    await produce(server, queue, iter(range((IN_FLIGHT + CLAIMS * BATCH) // 1_000)), 1_000)
    reader, writer = await asyncio.open_connection(server.host, server.port)

    async def claim(most: int) -> Any:
        body = {"node": "w", "max": most}
        return (await exchange(reader, writer, "POST", f"/v0/topics/{queue}/claim", body))["claimed"]

    for _ in itertools.repeat(None, IN_FLIGHT // 1_000):
        await claim(1_000)
    times = []
    for _ in range(CLAIMS):
        started = time.perf_counter()
        jobs = await claim(BATCH)
        times.append((time.perf_counter() - started) * 1000)
        body = {"node": "w", "seqs": [job["$seq"] for job in jobs]}
        await exchange(reader, writer, "POST", f"/v0/topics/{queue}/ack", body)
    writer.close()
    return sorted(times)[int(len(times) * 0.99)]


def at_full_speed_apart(port: int, jobs: int, workers: int = WORKERS) -> Speed:
    return uvloop.run(at_full_speed(Server("127.0.0.1", port), jobs, workers))


def beside_many_apart(port: int) -> float:
    return uvloop.run(beside_many(Server("127.0.0.1", port)))


def empty_and_vacuumed(instance: Instance) -> None:
    """Makes PostgreSQL believe that the tables of leases are empty, as after any time without a job in flight."""
    with instance.connect() as connection:
        until(lambda: emptied(connection), "a VACUUM that finds no lease")


def emptied(connection: psycopg.Connection[Any]) -> bool:
    connection.execute("VACUUM ANALYZE queues_lease")
    found = connection.execute("SELECT bool_and(reltuples = 0) FROM pg_class WHERE relname LIKE 'queues_lease_%logged'")
    return found.fetchone() == (True,)


def run(instance: Instance) -> Iterator[Row]:
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:

        def row(what: str, jobs: int, asked: int) -> Row:
            rate = pool.submit(at_full_speed_apart, instance.port, jobs).result().rate
            return Row(what, f"≥ {asked:,} jobs/s", f"{rate:,.0f} jobs/s", ok=rate >= asked)

        pool.submit(at_full_speed_apart, instance.port, FEW_JOBS).result()
        empty_and_vacuumed(instance)
        what = f"{PRODUCERS} producers, {WORKERS} workers claim {BATCH} and ack {BATCH}"
        yield row(f"{what}, after a VACUUM of a few jobs that were done", JOBS, ASKED)
        yield row(what, JOBS, ASKED)
        with instance.connect() as other, other.transaction():
            other.execute("SELECT pg_current_xact_id()")
            yield row(f"{what}: {MANY_JOBS:,} beside an open transaction", MANY_JOBS, ASKED_BESIDE)
        crowd = pool.submit(at_full_speed_apart, instance.port, CROWD_JOBS, CROWD).result()
        what = f"{PRODUCERS} producers, {CROWD} workers claim {BATCH} and ack {BATCH}: claim, p50"
        told = f"{crowd.claim_ms:.1f} ms, {crowd.rate:,.0f} jobs/s"
        yield Row(what, f"≤ {CROWD_MS:.0f} ms", told, ok=crowd.claim_ms <= CROWD_MS)
        p99 = pool.submit(beside_many_apart, instance.port).result()
        what = f"claim of {BATCH} with {IN_FLIGHT:,} jobs in flight, p99"
        yield Row(what, f"< {ASKED_MS:.0f} ms", f"{p99:.1f} ms", ok=p99 < ASKED_MS)

"""The Python client beside the same work written by hand with httpx: appends, batches, reads, and the jobs of a worker.

The JavaScript client beside the Python client.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import secrets
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
from topics_client import AsyncTopics, Topics

from bench.report import Row
from bench.watch import PAD, name
from tests.instances import Instance

APPENDS, RECORDS, JOBS, PAGE, THREADS = 1_000, 100_000, 20_000, 1_000, 8
ASKED_RATIO, ASKED_BATCH, ASKED_FOLLOW, ASKED_JOBS, ASKED_NODE = 0.9, 30_000, 100_000, 3_000, 1.5
DATA = {"kind": "bench", "pad": PAD}


def rate(count: int, work: Callable[[], object]) -> float:
    started = time.monotonic()
    work()
    return count / (time.monotonic() - started)


def post(http: httpx.Client, path: str, body: dict[str, Any]) -> Any:
    return http.post(f"/v0/topics/{path}", json=body).raise_for_status().json()


def append_by_hand(http: httpx.Client, topic: str, calls: int, size: int) -> None:
    for _ in range(calls):
        post(http, topic, {"records": [{"data": DATA}] * size, "idempotency_key": secrets.token_hex(16)})


def batch(topics: Topics, topic: str) -> None:
    with topics.topic(topic).batch() as records:
        for _ in range(RECORDS):
            records.append(DATA)


def read_by_hand(http: httpx.Client, topic: str) -> None:
    seq = 0
    while seq < RECORDS:
        seq = post(http, f"{topic}/diff", {"from_seq": seq, "limit": PAGE})["next_from_seq"]


async def follow_in_a_loop(url: str, topic: str) -> None:
    async with AsyncTopics(url) as topics:
        async for _ in topics.topic(topic).follow(cursor="bench-async", wait=False):
            pass


def work_by_hand(http: httpx.Client, queue: str) -> None:
    """Threads that claim and ack job by job."""
    left = threading.Semaphore(JOBS // 10)

    def work(node: str) -> None:
        while left.acquire(blocking=False):
            for job in post(http, f"{queue}/claim", {"node": node})["claimed"]:
                post(http, f"{queue}/ack", {"node": node, "seqs": [job["$seq"]], "lease_ids": [job["lease_id"]]})

    threads = [threading.Thread(target=work, args=(f"w{n}",)) for n in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def work(topics: Topics, queue: str) -> float:
    """Returns jobs a second, without the end of the worker."""
    worker = topics.worker(queue, concurrency=THREADS)
    done: list[float] = []
    started = time.monotonic()

    @worker
    def nothing(job: object) -> None:
        done.append(time.monotonic())
        if len(done) == JOBS:
            worker.stop()

    worker.run()
    return JOBS / (done[-1] - started)


def queue_of(http: httpx.Client, jobs: int) -> str:
    queue = name()
    http.put(f"/v0/topics/{queue}", json={"type": "queue"}).raise_for_status()
    append_by_hand(http, queue, jobs // PAGE, PAGE)
    return queue


def in_node(instance: Instance, queue: str) -> dict[str, float]:
    """Returns the rates of bench/clients.mjs, or nothing without Node.js."""
    if not shutil.which("node"):
        return {}
    given = [name(), name(), queue, APPENDS, RECORDS, JOBS, PAD]
    command = ["node", str(Path(__file__).with_suffix(".mjs")), *map(str, given)]
    environment = os.environ | {"TOPICS_URL": instance.url}
    rates: dict[str, float] = json.loads(
        subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True).stdout
    )
    return rates


def run(instance: Instance) -> Iterator[Row]:
    logging.getLogger("httpx").setLevel(logging.WARNING)  # a line for each request would be measured, too
    with Topics(instance.url) as topics, httpx.Client(base_url=instance.url) as http:
        python: dict[str, float] = {}

        def row(what: str, asked: float, unit: str, measured: float, by_hand: float, ratio: float | None = None) -> Row:
            beside = measured / by_hand
            ok = beside >= ratio if ratio else measured >= asked
            wanted = f"≥ {ratio} of the other" if ratio else f"≥ {asked:,.0f} {unit}/s"
            return Row(what, wanted, f"{measured:,.0f} {unit}/s", f"{by_hand:,.0f} {unit}/s", f"{beside:.2f}", ok)

        one, many = topics.topic(name()), name()
        by_hand = rate(APPENDS, lambda: append_by_hand(http, one.name, APPENDS, 1))
        python["append"] = rate(APPENDS, lambda: [one.append(DATA) for _ in range(APPENDS)])
        yield row("append, one by one", 0, "records", python["append"], by_hand, ASKED_RATIO)
        by_hand = rate(RECORDS, lambda: append_by_hand(http, name(), RECORDS // PAGE, PAGE))
        python["batch"] = rate(RECORDS, lambda: batch(topics, many))
        yield row("batch", ASKED_BATCH, "records", python["batch"], by_hand)
        by_hand = rate(RECORDS, lambda: read_by_hand(http, many))
        python["follow"] = rate(RECORDS, lambda: sum(1 for _ in topics.topic(many).follow(cursor="bench", wait=False)))
        yield row("follow with a cursor", ASKED_FOLLOW, "records", python["follow"], by_hand)
        measured = rate(RECORDS, lambda: asyncio.run(follow_in_a_loop(instance.url, many)))
        yield row("follow with a cursor, async", ASKED_FOLLOW, "records", measured, by_hand)
        measured = rate(RECORDS, lambda: stop_after(iter(topics.topic(many).group("bench")), RECORDS))
        yield Row("group, one member", "", f"{measured:,.0f} records/s")
        by_hand = rate(JOBS // 10, lambda: work_by_hand(http, queue_of(http, JOBS)))
        python["worker"] = work(topics, queue_of(http, JOBS))
        what = f"worker, {THREADS} threads, empty jobs, by hand one by one"
        yield row(what, ASKED_JOBS, "jobs", python["worker"], by_hand)
        for what, measured in in_node(instance, queue_of(http, JOBS)).items():
            yield row(f"{what} in JavaScript, beside Python", 0, "", measured, python[what], ASKED_NODE)


def stop_after(records: Iterator[Any], count: int) -> None:
    for _ in range(count):
        next(records)

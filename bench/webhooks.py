"""Webhooks: from the append to a receiver in a separate process (bench/callbacks.py), in the clear."""

from __future__ import annotations

import http.client
import json
import time
import uuid
from collections.abc import Iterator
from typing import Any

from bench.push import Receiver, shown
from bench.report import Row
from tests.instances import Instance, until

SETTINGS = {"PUSH_CALLBACK_LOOPBACK_HTTP": "1"}
PAD = "x" * 60
SINGLE, BATCHED, ENDPOINTS = 20_000, 100_000, 1_000


class Client:
    """One kept connection."""

    def __init__(self, instance: Instance) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", instance.port, timeout=60)

    def call(self, method: str, path: str, body: Any = None) -> Any:
        sent = None if body is None else json.dumps(body)
        self.connection.request(method, f"/v0/{path}", sent, {"Content-Type": "application/json"})
        answer = self.connection.getresponse()
        text = answer.read()
        if answer.status >= 400:
            raise SystemExit(f"bench: {method} {path}: {answer.status} {text!r}")
        return json.loads(text)

    def append(self, topic: str, *data: Any) -> None:
        self.call("POST", f"topics/{topic}?return_seqs=false", {"records": [{"data": each} for each in data]})

    def hook(self, receiver: Receiver, topic: str, path: str, **config: Any) -> None:
        wanted = {"url": receiver.url(path), "topics": [topic], **config}
        self.call("PUT", f"webhooks/{path}", wanted)


def run(instance: Instance) -> Iterator[Row]:
    client, receiver = Client(instance), Receiver()
    try:
        yield latency(client, receiver)
        yield drain(client, receiver, "single records, concurrency 16", 3_000, SINGLE, {"concurrency": 16})
        batches = {"format": "batch", "max_batch": 100, "concurrency": 4}
        yield drain(client, receiver, "batches of 100", 25_000, BATCHED, batches)
        yield many(client, receiver)
    finally:
        receiver.process.kill()


def latency(client: Client, receiver: Receiver) -> Row:
    """Returns a row for 100 appends a second to one webhook."""
    topic = f"latency-{uuid.uuid4().hex[:8]}"
    client.append(topic, {})
    client.hook(receiver, topic, topic, **{"from": "head"})
    for count in (100, 1_000):  # the first ones open the connections
        receiver.delays()
        begun = time.perf_counter()
        before = receiver.counts().get(topic, 0)
        for n in range(count):
            time.sleep(max(begun + n / 100 - time.perf_counter(), 0))
            client.append(topic, {"at": time.time()})
        until(lambda wanted=before + count: receiver.counts().get(topic, 0) >= wanted, "all records")  # type: ignore[misc]
    p50, p99, measured = shown(receiver.delays()[topic])
    return Row(
        "append to webhook received, 100 appends/s", "median < 8 ms, p99 < 60 ms", measured, ok=p50 < 8 and p99 < 60
    )


def fill(client: Client, topic: str, count: int) -> None:
    for _ in range(count // 1_000):
        client.append(topic, *[{"pad": PAD}] * 1_000)


def drain(client: Client, receiver: Receiver, work: str, asked: int, count: int, config: dict[str, Any]) -> Row:
    """Returns a row for the delivery of stored records to a new webhook."""
    topic = f"drain-{uuid.uuid4().hex[:8]}"
    fill(client, topic, count)
    began = time.perf_counter()
    client.hook(receiver, topic, topic, **{"from": "earliest", **config})
    until(lambda: receiver.counts().get(topic, 0) >= count, "all records", 300)
    rate = count / (time.perf_counter() - began)
    return Row(
        f"drain of {count:,} records by one webhook, {work}",
        f"≥ {asked:,} records/s",
        f"{rate:,.0f} records/s",
        ok=rate >= asked,
    )


def many(client: Client, receiver: Receiver) -> Row:
    """Returns a row for a thousand webhooks on one topic, and for the appends to it beside their calls."""
    topic = f"many-{uuid.uuid4().hex[:8]}"
    client.append(topic, {})
    alone = appends(client, f"{topic}-alone")
    for n in range(ENDPOINTS):
        client.hook(receiver, topic, f"{topic}-{n}", **{"from": "head"})
    began = time.perf_counter()
    beside = appends(client, topic)

    def calls() -> int:
        return sum(count for path, count in receiver.counts().items() if path.startswith(f"{topic}-"))

    until(lambda: calls() >= 20 * ENDPOINTS, "all calls", 300)
    took = time.perf_counter() - began
    counts = [count for path, count in receiver.counts().items() if path.startswith(f"{topic}-")]
    once = len(counts) == ENDPOINTS and set(counts) == {20}
    measured = (
        f"{'each once' if once else 'NOT once'} in {took:.1f} s, appends {alone:.2f} ms alone, {beside:.2f} ms beside"
    )
    asked = "each once, appends not slower than 0.9"
    return Row(f"{ENDPOINTS:,} webhooks on one topic, 20 records in 1 s", asked, measured, ratio=f"{alone / beside:.2f}",
               ok=once and alone >= 0.9 * beside)  # fmt: skip


def appends(client: Client, topic: str) -> float:
    """Returns the median duration (ms) of 20 appends in a second."""
    took = []
    for _ in range(20):
        began = time.perf_counter()
        client.append(topic, {"pad": PAD})
        took.append((time.perf_counter() - began) * 1000)
        time.sleep(0.05)
    return sorted(took)[10]

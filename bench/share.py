"""Appends of 16 clients beside six clients of another key, or of no key, that send costly bodies as fast as answers arrive.

The six run in a separate process. Their bodies are zipped, large or refused. The asked figure is the share of their rate that
the 16 clients keep.
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import multiprocessing
import re
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from statistics import median

import uvloop

from bench.load import Requests, send
from bench.report import Row
from bench.watch import PAD
from tests.instances import Instance

CLIENTS, COSTLY, SECONDS, PAIRS, ASKED = 16, 6, 3.0, 3, 0.8
SETTINGS = {
    "TOPICS_API_KEYS": "others-others-others:read+write,reader-reader-reader:read,writer-writer-writer:read+write"
}
OTHERS, READER, WRITER = "others-others-others", "reader-reader-reader", "writer-writer-writer"
MIB = 1024 * 1024
RECORD = json.dumps({"data": {"kind": "bench", "pad": PAD}})
ONE = f'{{"records":[{RECORD}]}}'
ZEROS = gzip.compress(bytes(63 * MIB))  # 61 kB
SPACES = gzip.compress(b'{"from_seq":0,"limit":1' + b" " * (MIB - 100) + b"}")
TAGS = gzip.compress(json.dumps({"from_seq": 0, "tags": [str(n) for n in range(95_000)]}).encode())
RECORDS = gzip.compress(f'{{"records":[{",".join([RECORD] * 1000)}]}}'.encode())


@dataclass(frozen=True)
class Costly:
    """A request of the six. `key`: its secret, if any."""

    work: str
    key: str
    path: str
    body: bytes
    zipped: bool = True

    def sent(self) -> bytes:
        lines = [f"POST /v0/topics/{self.path} HTTP/1.1", "host: localhost", "content-type: application/json"]
        lines += [f"content-length: {len(self.body)}"]
        lines += [f"authorization: Bearer {self.key}"] if self.key else []
        lines += ["content-encoding: gzip"] if self.zipped else []
        return "\r\n".join([*lines, "", ""]).encode() + self.body


EVERY = (
    Costly("appends of 61 kB zipped that their key may not make", READER, "costly", ZEROS),
    Costly("appends of 61 kB zipped that are too large", WRITER, "costly", ZEROS),
    Costly("appends of 61 kB zipped without a key", "", "costly", ZEROS),
    Costly("diffs of 1 MiB of spaces, zipped", READER, "others/diff", SPACES),
    Costly("diffs of 1 MiB of tags, zipped", READER, "others/diff", TAGS),
    Costly("appends of 1,000 records, zipped", WRITER, "costly", RECORDS),
    Costly("appends of 1 MiB that their key may not make", READER, "costly", b" " * MIB, zipped=False),
    Costly("appends of 1 MiB of wrong JSON", WRITER, "costly", b" " * MIB + b"x", zipped=False),
)


async def repeat(port: int, sent: bytes, answers: list[int]) -> None:
    """Sends the request again and again, on a new connection after an answer that closed the last one."""
    while True:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            with contextlib.closing(writer):
                head = b""
                while b"connection: close" not in head:
                    writer.write(sent)
                    head = (await reader.readuntil(b"\r\n\r\n")).lower()
                    await reader.readexactly(int(re.search(rb"content-length: (\d+)", head)[1]))  # type: ignore[index]
                    answers.append(int(head[9:12]))


async def costly(port: int, sent: bytes, seconds: float) -> list[int]:
    answers: list[int] = []
    tasks = [asyncio.create_task(repeat(port, sent, answers)) for _ in range(COSTLY)]
    await asyncio.sleep(seconds)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return answers


def apart(port: int, sent: bytes, seconds: float) -> list[int]:
    """Returns the statuses that the six got."""
    return uvloop.run(costly(port, sent, seconds))


def run(instance: Instance) -> Iterator[Row]:
    one = Requests("POST", f"{instance.url}/v0/topics/others", ONE, key=OTHERS)
    send(one, CLIENTS, 2)  # warm
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        for kind in EVERY:
            yield row(instance, pool, kind, one)


def row(instance: Instance, pool: ProcessPoolExecutor, kind: Costly, one: Requests) -> Row:
    """Returns a row for the median of pairs, because a machine's speed varies."""
    ratios, rates, answers = [], [], list[int]()
    for _ in range(PAIRS):
        alone = send(one, CLIENTS, SECONDS).rate
        six = pool.submit(apart, instance.port, kind.sent(), SECONDS)
        rates.append(send(one, CLIENTS, SECONDS).rate)
        ratios.append(rates[-1] / alone)
        answers += six.result()
    ratio = median(ratios)
    told = ", ".join(f"{status} {answers.count(status) / PAIRS / SECONDS:,.0f}/s" for status in sorted({*answers}))
    return Row(
        f"{CLIENTS} clients append beside {COSTLY} clients with {kind.work}",
        f"≥ {ASKED} of the rate alone",
        f"{median(rates):,.0f}/s; the {COSTLY} get {told}",
        ratio=f"{ratio:.2f}",
        ok=ratio >= ASKED,
    )

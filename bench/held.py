"""Appends to 32 topics while another client holds the head of one more topic, and while a transaction is open.

An append to the held topic arrives every 20 ms.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from bench.client import Client
from bench.load import Requests, send
from bench.log import RECORD
from bench.report import Row
from tests.instances import Instance

TOPICS, EVERY_SECONDS, SECONDS = 32, 0.02, 8.0
HELD = "held:1"
LOCK = f"SELECT FROM topics_topichead JOIN topics_topic t ON t.id = topic_id WHERE name = '{HELD}' FOR UPDATE"
LEAST, MOST_MS = 0.8, 300
OPEN_SECONDS = 45.0  # PostgreSQL keeps each version of a head meanwhile (topics/sql/functions/topic_era.sql)
REJECTS = {"discard": "reject", "cap_records": 10_000_000}
BODIES = {
    "plain": f'{{"records":[{RECORD}]}}',
    "keyed": f'{{"idempotency_key":"PREFIX$n","records":[{RECORD}]}}',
    "to topics that reject": f'{{"idempotency_key":"PREFIX$n","records":[{RECORD}]}}',
}


def run(instance: Instance) -> Iterator[Row]:
    client = Client(instance.port)
    for kind, body in BODIES.items():
        config = REJECTS if "reject" in kind else {"discard": "old", "cap_records": 0}
        for name in (HELD, *(f"passing:{n}" for n in range(1, TOPICS + 1))):
            client.call("PUT", f"topics/{name}", config)
        yield beside_a_held_head(instance, kind, body)
    yield beside_an_open_transaction(instance)


def requests(instance: Instance, body: str, prefix: str) -> Requests:
    url = f"{instance.url}/v0/topics/passing:"
    return Requests("POST", f"{url}$n", body.replace("PREFIX", f"{prefix} $round "), TOPICS)


def beside_a_held_head(instance: Instance, kind: str, body: str) -> Row:
    """Returns a row for the rate and the longest wait of 32 topics beside a held head, compared with the rate without it."""
    free = send(requests(instance, body, "free"), TOPICS, SECONDS)
    with instance.connect() as holder, holder.transaction(), arriving(instance.port, body.replace("PREFIX", "held ")):
        holder.execute(LOCK)
        held = send(requests(instance, body, "held"), TOPICS, SECONDS)
    ratio = held.rate / free.rate
    return Row(
        f"append ({kind}) to {TOPICS} topics beside a held head",
        f"≥ {LEAST} of the rate without, longest wait < {MOST_MS} ms",
        f"{held.rate:,.0f}/s, longest wait {held.most_ms:.0f} ms",
        f"{free.rate:,.0f}/s, {free.most_ms:.0f} ms",
        f"{ratio:.2f}",
        ratio >= LEAST and held.most_ms < MOST_MS,
    )


def beside_an_open_transaction(instance: Instance) -> Row:
    """Returns a row for the rate of 32 topics at the end of another client's long transaction, compared with the rate before."""
    free = send(requests(instance, BODIES["plain"], "before"), TOPICS, SECONDS)
    with instance.connect() as other, other.transaction():
        other.execute("SELECT pg_current_xact_id()")
        send(requests(instance, BODIES["plain"], "meanwhile"), TOPICS, OPEN_SECONDS - SECONDS)
        late = send(requests(instance, BODIES["plain"], "at the end"), TOPICS, SECONDS)
    ratio = late.rate / free.rate
    return Row(
        f"append (plain) to {TOPICS} topics beside a transaction that is open for {OPEN_SECONDS:.0f} s",
        f"≥ {LEAST} of the rate without",
        f"{late.rate:,.0f}/s",
        f"{free.rate:,.0f}/s",
        f"{ratio:.2f}",
        ratio >= LEAST,
    )


@contextmanager
def arriving(port: int, body: str) -> Iterator[None]:
    """Send an append to the held topic every 20 ms, each on a new connection."""
    ended = threading.Event()
    sockets: list[socket.socket] = []

    def arrive() -> None:
        while not ended.wait(EVERY_SECONDS):
            content = body.replace("$n", str(len(sockets))).encode()
            opened = socket.create_connection(("127.0.0.1", port))
            head = f"POST /v0/topics/{HELD} HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\n"
            opened.sendall(f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content)
            sockets.append(opened)

    thread = threading.Thread(target=arrive)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        for opened in sockets:
            opened.close()

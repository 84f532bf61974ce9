"""The process that serves webhooks, PostgreSQL, Redis and the web server are killed in the middle: nothing is lost, each kill
sends a record again at most once, the records of a tag keep their order, and each exhausted record is one dead letter."""

from __future__ import annotations

import http.client
import json
import os
import signal
import threading
from collections import Counter

import pytest

from tests.crash.harness.client import Client
from tests.crash.harness.processes import Processes
from tests.crash.harness.queues import read
from tests.deadlines import DEADLINE
from tests.instances import WHOLE, Instance, start, until
from tests.push.hooks import Hook, call, new_name
from tests.push.receiver import Batch, Handler, Receiver

VICTIMS, RECORDS, OF_A_TAG = ("push", "postmaster", "redis", "web"), 100, 25


def append(server: Instance, topic: str, begin: int) -> None:
    """Appends RECORDS with four tags, once, although the server may be away."""
    records = [{"data": n, "tag": f"tag-{n // OF_A_TAG % 4}"} for n in range(begin, begin + RECORDS)]
    body = {"records": records, "idempotency_key": str(begin)}

    def is_appended() -> bool:
        try:
            return call(server, "POST", f"topics/{topic}", body).status == 200
        except (OSError, http.client.HTTPException):
            return False

    until(is_appended, "an append")


@pytest.mark.guarantee("H1", "H2")
def test_kills(settings_of_bus: dict[str, str], receiver: Receiver) -> None:
    topic = new_name("killed")
    lock, attempts = threading.Lock(), Counter[int]()

    def answer(handler: Handler, batch: Batch) -> int:
        n = json.loads(batch.body)["data"]
        with lock:
            attempts[n] += 1
        if n % OF_A_TAG == OF_A_TAG - 1:
            return 500  # always
        return 503 if n % 10 == 3 and attempts[n] == 1 else 200

    receiver.answer = answer
    with start(**WHOLE, **settings_of_bus) as server:
        assert call(server, "PUT", f"topics/{topic}", {"durability": "fsync"}).status == 201
        hook = Hook(server, receiver, topic, concurrency=16)
        for kill, victim in enumerate((*VICTIMS, None)):
            begin = kill * RECORDS
            append(server, topic, begin)
            if victim is not None:
                until(lambda least=begin + RECORDS // 4: len(hook.data()) > least, "a part of the records")  # type: ignore[misc]
                for process in getattr(Processes(server), victim):
                    os.kill(process.pid, signal.SIGKILL)
        all_of_them = set(range((len(VICTIMS) + 1) * RECORDS))
        dead = {n for n in all_of_them if n % OF_A_TAG == OF_A_TAG - 1}
        until(lambda: set(hook.data()) == all_of_them - dead, "every record", seconds=2 * DEADLINE)
        client, letters = Client(server.port), f"webhooks.dead.{hook.name}"
        until(lambda: len(read(client, letters)) >= len(dead), "the dead letters")
        assert sorted(letter["data"] for letter in read(client, letters)) == sorted(dead), "one dead letter each"
        client.close()
        assert max(Counter(hook.data()).values()) <= 1 + len(VICTIMS)
        for tag in range(4):
            ours = [n for n in dict.fromkeys(hook.data()) if n // OF_A_TAG % 4 == tag]
            assert ours == sorted(ours), "the order of a tag"
        until(lambda: hook.get()["waiting"] == 0, "nothing to wait")

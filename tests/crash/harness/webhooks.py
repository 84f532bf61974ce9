"""A webhook in a run, and its endpoint, which fails at some records once and at others always."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass

from tests.crash.harness.client import Client
from tests.crash.harness.evidence import HookCall, HookEvidence, now
from tests.crash.harness.queues import read
from tests.push.receiver import Batch, Handler, Receiver

TOPIC, NAME = "fsync", "crash"
DEAD = f"webhooks.dead.{NAME}"
# An endpoint that is frozen with its server or cut off gets attempts enough. One that always fails holds up its tag for a moment.
CONFIG = {
    "topics": [TOPIC],
    "from": "earliest",
    "timeout_ms": 5_000,
    "retry": {"schedule_ms": [20, 50, 100, 300, 500]},
}


def fails_always(seq: int) -> bool:
    return seq % 40 == 7


def fails_once(seq: int) -> bool:
    return seq % 10 == 3


@dataclass
class Endpoint:
    """Answers the calls, and notes them."""

    evidence: HookEvidence

    def __call__(self, handler: Handler, batch: Batch) -> int:
        record = json.loads(batch.body)
        seq = record["$seq"]
        is_first = all(call.seq != seq for call in reversed(self.evidence.calls))
        is_good = not fails_always(seq) and not (fails_once(seq) and is_first)
        self.evidence.calls.append(HookCall(now(), seq, record["data"], record["$tag"], is_good))
        return 200 if is_good else 500


class Webhook:
    def __init__(self, evidence: HookEvidence) -> None:
        self.evidence, self.receiver = evidence, Receiver(None, answer=Endpoint(evidence))

    def set_up(self, client: Client) -> None:
        wanted = {**CONFIG, "url": self.receiver.url("/hook")}
        assert client.call("PUT", f"/v0/webhooks/{NAME}", wanted).status == 201

    def wait_until_done(self, client: Client, patience: float) -> int:
        """Wait as long as records are delivered. Returns how many are left."""
        least, deadline = 10**9, time.monotonic() + patience
        while least and time.monotonic() < deadline:
            lag = client.insist("GET", f"/v0/topics/{TOPIC}/cursors/{NAME}")["lag"]
            left = lag + client.insist("GET", f"/v0/webhooks/{NAME}")["waiting"]
            if left < least:
                least, deadline = left, time.monotonic() + patience
            time.sleep(0.2)
        return least

    def look(self, client: Client) -> None:
        """Reads the dead letters."""
        self.evidence.dead = [letter["meta"]["_topics_webhook"]["seq"] for letter in read(client, DEAD)]

    def end(self) -> None:
        self.receiver.end()

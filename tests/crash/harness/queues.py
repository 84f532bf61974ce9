"""Queues in a run: producers, workers that claim, and workers with a stream of jobs, with the record of each call.

A producer sends an append with its key until it is answered. A worker acks most of its jobs, gives some back, and forgets others.
Once the producers have stopped, the workers ack everything, so that the queues become empty.
"""

from __future__ import annotations

import http.client
import time
from typing import Any
from urllib.parse import urlencode

from tests.crash.harness.client import DEADLINE, Client, Hung, Unanswered
from tests.crash.harness.evidence import Asked, Claimed, Letter, QueueEvidence, now
from tests.crash.harness.load import Hand, Stage
from tests.crash.harness.topology import LONG_WINDOW
from tests.watch.wire import Api, Refused

DEAD, MOST_DELIVERIES, LEASE_MS = "jobs.dead", 3, 2000
# An acked ack of an `fsync` queue survives a crash of PostgreSQL, so that no job may come back after it.
QUEUES: dict[str, dict[str, Any]] = {
    "jobs": {},
    "jobs.loose": {"leases_durable": False},
    "jobs.moody": {"max_deliveries": MOST_DELIVERIES, "dead_letter": DEAD},
}


class Producer(Hand):
    """Appends jobs, each append under a key until it is answered."""

    def __init__(self, stage: Stage, queue: str) -> None:
        super().__init__(stage, f"producer-{queue}")
        self.queue, self.number = queue, 0
        self.unanswered: list[str] = []

    def step(self) -> None:
        if not self.unanswered:
            self.number += 1
            self.unanswered = [f"{self.queue}/{self.number}/{place}" for place in range(self.random.choice((1, 2, 5)))]
            self.evidence.queues[self.queue].sent |= set(self.unanswered)
        body = {"records": [{"data": data} for data in self.unanswered], "idempotency_key": f"{self.number}"}
        self.ask("POST", f"/v0/topics/{self.queue}", body)
        self.evidence.queues[self.queue].appended |= set(self.unanswered)
        self.unanswered = []


class Claimer(Hand):
    """Claims jobs, and settles each in one of the ways that there are."""

    until_ended = True

    def __init__(self, stage: Stage, queue: str, number: int) -> None:
        super().__init__(stage, f"claimer-{queue}-{number}")
        self.queue, self.path = queue, f"/v0/topics/{queue}"
        self.evident = self.evidence.queues[queue]

    def step(self) -> None:
        sent = now()
        jobs = self.ask("POST", f"{self.path}/claim", {"node": self.name, "max": self.random.choice((1, 5, 20))}).json
        self.note(sent, jobs["claimed"])
        self.settle(jobs["claimed"])

    def note(self, sent: float, jobs: list[dict[str, Any]]) -> None:
        self.evident.claimed += [
            Claimed(sent, now(), self.name, job["$seq"], job["data"], job["deliveries"]) for job in jobs
        ]

    def settle(self, jobs: list[dict[str, Any]]) -> None:
        way = 0.0 if self.stage.ending.is_set() else self.random.random()
        if way < 0.7:
            self.call("ack", jobs)
        elif way < 0.85:
            self.call("nack", jobs, delay_ms=self.random.choice((0, 300)))
        elif way < 0.95 and self.call("extend", jobs, lease_ms=LEASE_MS):
            self.call("ack", jobs)

    def call(self, name: str, jobs: list[dict[str, Any]], **more: Any) -> bool:
        """Returns True. Raises Unanswered."""
        if jobs:
            seqs, leases = [job["$seq"] for job in jobs], [job["lease_id"] for job in jobs]
            asked = Asked(now(), None, self.name, name, frozenset(seqs))
            self.evident.asked.append(asked)
            body = {"node": self.name, "seqs": seqs, "lease_ids": leases, **more}
            done = frozenset(seqs) - set(self.ask("POST", f"{self.path}/{name}", body).json["skipped"])
            self.evident.asked.append(asked._replace(answered=now(), seqs=done))
        return True


class Streamer(Claimer):
    """Gets its jobs over a stream, which it opens again when it ends."""

    pause = 0.5

    def step(self) -> None:
        sent, url = now(), f"{self.path}/work?{urlencode({'node': self.name, 'max': 5})}"
        try:
            with Api(self.port, patience=DEADLINE).stream(url) as stream:
                ends = now() + self.random.expovariate(1 / 5)
                while not (stream.ended or self.stopping.is_set() or now() > ends):
                    for event in stream.take(stream.read()):
                        if event.name == "job":
                            self.note(sent, [event.data])
                            self.settle([event.data])
        except Refused as refused:
            if not self.is_away(refused.status, refused.code):
                self.evidence.trouble(self.name, f"{url}: {refused}")
            raise Unanswered(str(refused)) from refused
        except TimeoutError as error:
            raise Hung(f"{url}: not even a heartbeat within {DEADLINE:.0f} s") from error
        except (OSError, http.client.HTTPException) as error:
            raise Unanswered(repr(error)) from error


def workers(stage: Stage) -> list[Hand]:
    found: list[Hand] = []
    for queue in QUEUES:
        found += [Producer(stage, queue), Claimer(stage, queue, 1), Claimer(stage, queue, 2), Streamer(stage, queue, 3)]
    return found


def set_up(client: Client, evidence: dict[str, QueueEvidence]) -> None:
    assert client.call("PUT", f"/v0/topics/{DEAD}", {"durability": "fsync"}).status == 201
    for queue, config in QUEUES.items():
        common = {"type": "queue", "durability": "fsync", "lease_ms": LEASE_MS, **LONG_WINDOW}
        assert client.call("PUT", f"/v0/topics/{queue}", common | config).status == 201
        evidence[queue] = QueueEvidence()


def wait_until_done(client: Client, patience: float) -> int:
    """Wait as long as jobs are acked. Returns how many are ready and left.

    A lease that began while the clock was an hour ahead lasts an hour longer. So jobs in flight may be left.
    """
    least, deadline = 10**9, time.monotonic() + patience
    while time.monotonic() < deadline:
        counts = [client.insist("GET", f"/v0/topics/{queue}")["queue"] for queue in QUEUES]
        ready = sum(each["ready"] for each in counts)
        left = ready + sum(each["in_flight"] for each in counts)
        if left == 0:
            return 0
        if left < least:
            least, deadline = left, time.monotonic() + patience
        elif ready == 0 and time.monotonic() > deadline - patience + 3 * LEASE_MS / 1000:
            return 0
        time.sleep(0.2)
    return ready


def look(client: Client, evidence: dict[str, QueueEvidence]) -> None:
    """Reads what is left in the queues, and the dead letters."""
    for queue, found in evidence.items():
        found.left = {record["$seq"]: record["data"] for record in read(client, queue)}
        found.counts = client.insist("GET", f"/v0/topics/{queue}")["queue"]
    for record in read(client, DEAD):
        meta = record["meta"]
        letter = Letter(meta["$dead_letter_src_seq"], record["data"], meta["$dead_letter_deliveries"])
        evidence[meta["$dead_letter_from"]].dead.append(letter)


def read(client: Client, topic: str) -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = []
    position, is_at_head = 0, False
    while not is_at_head:
        window = client.insist("POST", f"/v0/topics/{topic}/diff", {"from_seq": position, "limit": 1000})
        records += window["records"]
        position, is_at_head = window["next_from_seq"], window["caught_up"]
    return records

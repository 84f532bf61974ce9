"""The push bus in a run: publishers, callbacks that now and then fail, and the record of both.

Each publisher waits for the answer to an event before it sends the next one. So the order of its events is known, and
so is the order of two events of which one was acked before the other was sent.
"""

from __future__ import annotations

import base64
import http.client
import json
import random
import time
from dataclasses import dataclass, field
from typing import Any

from tests.crash.harness.client import DEADLINE, Hung, Unanswered
from tests.crash.harness.evidence import BusEvidence, Published, now
from tests.crash.harness.load import Hand, Stage
from tests.push.receiver import Batch, Handler, Receiver

ROOT = "root-key"
# An acked event of an `fsync` bus survives a crash of PostgreSQL, so that the oracle may ask for every one of them.
SETTINGS = {
    "ROUTEMASTER_ROOT_KEY": ROOT,
    "PUSH_CALLBACK_LOOPBACK_HTTP": "1",
    "TOPICS_BUS_DURABILITY": "fsync",
    "ROUTEMASTER_TIMEOUT": "5",
    "MAX_BACKOFF_MS": "1000",
    "ROUTEMASTER_MIN_BACKOFF_MS": "0",
}
PUBLISHERS = {"shop": ["orders", "invoices"], "stock": ["items"]}
# The topics of each subscriber, and the share of its batches that its callback refuses or leaves without an answer.
SUBSCRIBERS = {
    "all": (["orders", "invoices", "items"], 0.0),
    "one": (["orders"], 0.05),
    "moody": (["items", "orders"], 0.3),
}
POISON = "\x00"  # JSON can carry a NUL. A text of PostgreSQL cannot.
POISONED = 0.05  # of all events


def token(name: str) -> str:
    return f"{name}--secret"


def ask(port: int, method: str, path: str, user: str, body: Any = None) -> tuple[int, bytes]:
    """Returns status and body. Raises Unanswered, or Hung. Each call has a connection of its own and meets any web process."""
    headers = {"Authorization": "Basic " + base64.b64encode(f"{user}:x".encode()).decode()}
    if body is not None:
        headers["Content-Type"] = "application/json"
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=DEADLINE)
    try:
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    except TimeoutError as error:
        raise Hung(f"{method} {path}: no answer within {DEADLINE:.0f} s") from error
    except (OSError, http.client.HTTPException) as error:
        raise Unanswered(f"{method} {path}: {error!r}") from error
    finally:
        connection.close()


@dataclass
class Bus:
    """Clients and callbacks of the bus of one instance."""

    port: int
    seed: int
    evidence: BusEvidence

    receivers: list[Receiver] = field(default_factory=list)

    def set_up(self) -> None:
        """Make the tokens and the topics, then subscribe everybody. From here on every event has to arrive."""
        for name in [*PUBLISHERS, *SUBSCRIBERS]:
            self.demand("POST", "/api_tokens", ROOT, {"name": name, "token": token(name)})
        for publisher, topics in PUBLISHERS.items():
            for topic in topics:
                event = {"type": "create", "url": f"https://{publisher}.example/0", "data": ""}
                self.demand("POST", f"/topics/{topic}", token(publisher), event)
        for name, (topics, refused) in SUBSCRIBERS.items():
            receiver = Receiver(None, answer=Callback(f"{self.seed}/{name}", refused))
            self.receivers.append(receiver)
            self.evidence.topics[name], self.evidence.batches[name] = topics, receiver.batches
            body = {"topics": topics, "callback": receiver.url(), "uuid": name, "timeout": 50, "max": 20}
            self.demand("POST", "/subscription", token(name), body)

    def demand(self, method: str, path: str, user: str, body: Any) -> None:
        status, answer = ask(self.port, method, path, user, body)
        assert status in (201, 204), (method, path, status, answer)

    def queued(self) -> int | None:
        """Returns how many events no callback has acknowledged yet, or None where the server does not say."""
        try:
            status, body = ask(self.port, "GET", "/subscriptions", ROOT)
        except Unanswered:
            return None
        return sum(each["events"]["queued"] for each in json.loads(body)) if status == 200 else None

    def end(self) -> None:
        for receiver in self.receivers:
            receiver.end()


class Publisher(Hand):
    """Publishes to its topics, now and then an event that carries POISON."""

    def __init__(self, stage: Stage, client: str) -> None:
        super().__init__(stage, f"publisher-{client}")
        self.publisher, self.number = client, 0

    def step(self) -> None:
        self.number += 1
        topic = self.random.choice(PUBLISHERS[self.publisher])
        data = POISON if self.random.random() < POISONED else "x" * self.random.randint(0, 200)
        event = Published(now(), None, self.publisher, topic, self.number, data)
        try:
            body = {"type": "create", "url": event.url, "data": data}
            status, answer = ask(self.stage.port, "POST", f"/topics/{topic}", token(self.publisher), body)
        except Unanswered:
            self.evidence.bus.published.append(event)  # it may have been taken
            raise
        self.evidence.bus.published.append(event._replace(acked=now()) if status == 204 else event)
        if status == 503:
            raise Unanswered(f"POST /topics/{topic}: 503")
        if status != 204:
            self.evidence.trouble(self.name, f"POST /topics/{topic}: {status} {answer[:200]!r}")


def publishers(stage: Stage) -> list[Hand]:
    return [Publisher(stage, client) for client in PUBLISHERS]


class Callback:
    """Answers 200, but for a share of the batches: those it refuses, or leaves without an answer."""

    def __init__(self, seed: str, refused: float) -> None:
        self.random, self.refused = random.Random(seed), refused

    def __call__(self, handler: Handler, batch: Batch) -> int | None:
        if self.random.random() >= self.refused:
            return 200
        if self.random.random() < 0.7:
            return 500
        handler.reset()
        return None


def wait_until_drained(bus: Bus, patience: float) -> int:
    """Wait as long as queues become shorter. Returns how many events stayed in them."""
    least, deadline = 10**9, time.monotonic() + patience
    while time.monotonic() < deadline:
        queued = bus.queued()
        if queued == 0:
            return 0
        if queued is not None and queued < least:
            least, deadline = queued, time.monotonic() + patience
        time.sleep(0.2)
    return least

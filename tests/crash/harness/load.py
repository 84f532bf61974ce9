"""The load: who appends, deletes and moves a cursor, steadily and whatever happens, and notes what was answered.

An answer is 200, a refusal that the request provokes, or 503 with the wish to be asked again. No answer, or 503, says
nothing about what was done: such a request is forgotten, or sent again where a key makes that safe.
"""

from __future__ import annotations

import random
import threading
from dataclasses import dataclass, field
from typing import Any, Self

from tests.crash.harness.client import Client, Hung, Reply, Unanswered
from tests.crash.harness.evidence import Acked, Deleted, Evidence, now
from tests.crash.harness.gateway import AS_BYTES, AS_REQUESTS, AWAY
from tests.crash.harness.topology import BY_TAG, DROP, KEEP, NODES, TOPICS, Topic, Written

AGAIN = 0.2  # seconds before somebody who was not answered tries anew
CURSOR = "consumer"


@dataclass
class Stage:
    """The state that all clients share. `ending`: the writers have stopped, and the readers read on to the heads."""

    port: int
    seed: int
    evidence: Evidence
    gateway: int  # its port
    ending: threading.Event = field(default_factory=threading.Event)
    ended: threading.Event = field(default_factory=threading.Event)


class Hand(threading.Thread):
    """A thread that repeats an action until it is stopped."""

    pause = 0.1  # seconds between two steps, on average
    until_ended = False  # goes on while the writers have stopped

    def __init__(self, stage: Stage, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self.stage, self.evidence = stage, stage.evidence
        self.go_to(stage.port)
        self.random = random.Random(f"{stage.seed}/{name}")
        self.stopping = stage.ended if self.until_ended else stage.ending

    def go_to(self, port: int, host: str = "127.0.0.1") -> None:
        self.port, self.host = port, host
        self.client = Client(port, host=host)

    def through_gateway(self, host: str) -> Self:
        """Have it take the way of this name. Once it was started it keeps to its way."""
        self.go_to(self.stage.gateway, host)
        self.evidence.through_gateway.add(self.name)
        return self

    def is_away(self, status: int, code: str | None) -> bool:
        """Whether a refusal says that the service is away for a while."""
        return status == 503 or (self.port == self.stage.gateway and code in AWAY)

    def run(self) -> None:
        while not self.stopping.wait(self.random.expovariate(1 / self.pause)):
            if self.random.random() < 0.02:
                self.client.close()  # the next connection may be to another process
            try:
                self.step()
            except Hung as hung:
                self.evidence.trouble(self.name, str(hung))
            except Unanswered:
                self.stopping.wait(AGAIN)
            except Exception as error:  # a fault of the harness, or an answer that is no answer
                self.evidence.trouble(self.name, f"cannot go on with what it was answered: {error!r}")
                self.stopping.wait(1)

    def step(self) -> None:
        raise NotImplementedError

    def ask(self, method: str, path: str, body: Any = None, refusals: tuple[int, ...] = ()) -> Reply:
        """The answer, a success or one of these refusals. Raises Unanswered; anything else is noted as trouble, too."""
        reply = self.client.call(method, path, body)
        if reply.status in (200, 201, *refusals):
            return reply
        if not self.is_away(reply.status, reply.code):
            self.evidence.trouble(self.name, f"{method} {path}: {reply.status} {reply.json}")
        raise Unanswered(f"{method} {path}: {reply.status}")


class Writer(Hand):
    """Appends one to five records at a time."""

    def __init__(self, stage: Stage, topic: Topic, number: int) -> None:
        super().__init__(stage, f"writer-{topic.name}-{number}")
        self.topic, self.number = topic.name, 0

    def records(self) -> list[dict[str, Any]]:
        """The next append's. Their data are found nowhere else."""
        self.number += 1
        size = self.random.choice((1, 1, 2, 5))
        tag, node, writer = self.random.choice((KEEP, DROP)), self.random.choice(NODES), self.name.rsplit("-", 1)[1]
        padding = "x" * self.random.randint(0, 200)
        records = [Written(self.topic, writer, self.number, place, size, tag, node) for place in range(size)]
        return [{"data": record.data(padding), "tag": tag, "node": node} for record in records]

    def step(self) -> None:
        records = self.records()
        self.note(records, self.append({"records": records}))

    def append(self, body: dict[str, Any], refusals: tuple[int, ...] = ()) -> Reply:
        return self.ask("POST", f"/v0/topics/{self.topic}", body, refusals)

    def note(self, records: list[dict[str, Any]], reply: Reply) -> None:
        data = tuple(record["data"] for record in records)
        self.evidence.acks.append(Acked(now(), self.name, self.topic, reply.json["first_seq"], data))


class KeyedWriter(Writer):
    """Sends an append with its idempotency key until it is answered. It begins no other before, so that at the end all
    but the last are answered."""

    def __init__(self, stage: Stage, topic: Topic, number: int) -> None:
        super().__init__(stage, topic, number)
        self.unanswered: list[dict[str, Any]] = []

    def step(self) -> None:
        self.unanswered = self.unanswered or self.records()
        key = f"{self.name}.{self.number}"
        reply = self.append({"records": self.unanswered, "idempotency_key": key})
        self.note(self.unanswered, reply)
        self.unanswered = []


class FencedWriter(Writer):
    """The only writer of its topic: says where it believes the head to be, and is told when that is wrong."""

    def __init__(self, stage: Stage, topic: Topic, number: int) -> None:
        super().__init__(stage, topic, number)
        self.head_seq = 0

    def step(self) -> None:
        records = self.records()
        reply = self.append({"records": records, "expected_head": self.head_seq}, refusals=(409,))
        if reply.status == 409:
            self.head_seq = reply.json["error"]["detail"]["head_seq"]
            return
        self.note(records, reply)
        if reply.json["first_seq"] != self.head_seq + 1:
            what = f"{self.topic}: expected_head {self.head_seq} was met, and the append got {reply.json['first_seq']}"
            self.evidence.trouble(self.name, what)
        self.head_seq = reply.json["last_seq"]


class Trimmer(Hand):
    """Deletes by tag, and all but the latest by seq."""

    pause = 1.0
    kept = 200

    def __init__(self, stage: Stage, topic: Topic) -> None:
        super().__init__(stage, f"trimmer-{topic.name}")
        self.topic = topic.name

    def step(self) -> None:
        if self.random.random() < 0.5:
            self.evidence.deletes.append(Deleted(now(), self.topic, tag=DROP))
            self.ask("POST", f"/v0/topics/{self.topic}/delete", {"match": ["tag", "Eq", DROP]})
            return
        head_seq = self.ask("GET", f"/v0/topics/{self.topic}").json["head_seq"]
        if (before_seq := head_seq - self.kept) > 0:
            self.evidence.deletes.append(Deleted(now(), self.topic, before_seq))
            self.ask("POST", f"/v0/topics/{self.topic}/delete", {"before_seq": before_seq})


class CursorMover(Hand):
    """Owns a named cursor and moves it to the head, fenced: nobody else may have moved it."""

    pause = 0.3

    def __init__(self, stage: Stage, topic: Topic) -> None:
        super().__init__(stage, f"cursor-{topic.name}")
        self.topic, self.seq = topic.name, 0
        self.tried = {0}  # where it may stand: as answered last, and where it was sent since without an answer

    def step(self) -> None:
        head_seq = self.ask("GET", f"/v0/topics/{self.topic}").json["head_seq"]
        self.tried.add(head_seq)
        path = f"/v0/topics/{self.topic}/cursors/{CURSOR}"
        reply = self.ask("PUT", path, {"seq": head_seq, "expected_seq": self.seq}, refusals=(409, 400))
        if reply.status == 400:
            what = f"{self.topic}: the head was {head_seq}, and a cursor could not be put there: {reply.json}"
            self.evidence.trouble(self.name, what)
            return
        stands = head_seq if reply.status != 409 else reply.json["error"]["detail"]["seq"]
        if stands not in self.tried:
            what = (
                f"{self.topic}: the cursor stands at {stands}, where nobody put it; it may be at {sorted(self.tried)}"
            )
            self.evidence.trouble(self.name, what)
        self.seq, self.tried = stands, {stands}


WRITERS: dict[str, type[Writer]] = {"plain": Writer, "keyed": KeyedWriter, "fenced": FencedWriter}


def hands(stage: Stage) -> list[Hand]:
    """All clients that write. Every second of them goes through the gateway, by both of its ways."""
    found: list[Hand] = []
    for topic in TOPICS:
        if topic.written in WRITERS:
            found += [
                WRITERS[topic.written](stage, topic, number) for number in range(2 if topic.written == "keyed" else 1)
            ]
        if topic.deleted == BY_TAG:
            found.append(Trimmer(stage, topic))
        if topic.written == "plain" and topic.whole and topic.durability in ("fsync", "disk"):
            found.append(CursorMover(stage, topic))
    for place, each in enumerate(found):
        if place % 2:
            each.through_gateway((AS_BYTES, AS_REQUESTS)[place // 2 % 2])
    return found

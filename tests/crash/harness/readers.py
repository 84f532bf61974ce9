"""Who reads: followers by diff, watchers over a stream that ends often, and a consumer that deletes what it has read.

Each knows where it is and asks for what follows; what it was shown is noted as it came.
"""

from __future__ import annotations

import base64
import http.client
import json
from typing import Any

from tests.crash.harness.client import DEADLINE, Hung, Unanswered
from tests.crash.harness.evidence import Deleted, History, now
from tests.crash.harness.gateway import AS_BYTES, AS_REQUESTS
from tests.crash.harness.load import Hand, Stage
from tests.crash.harness.topology import NODES, TOPICS
from tests.watch.wire import Api, Event, Refused, Stream

HEARTBEAT_MS = 1000


class Follower(Hand):
    """Reads topics in turn by diff, directly and through the gateway, now and then with a long poll."""

    pause = 0.05
    until_ended = True

    def __init__(self, stage: Stage, name: str, topics: list[str], nodes: tuple[str, ...] = ()) -> None:
        super().__init__(stage, name)
        self.nodes = nodes
        self.histories = [self.evidence.history(name, topic, frozenset(nodes)) for topic in topics]
        self.turn = 0

    def step(self) -> None:
        self.turn += 1
        history = self.histories[self.turn % len(self.histories)]
        is_at_head = self.read(history)
        # Each crash leaves a gap in each topic, and each gap takes a read. In turns of all topics, with a pause for each, the
        # end of a long run would take minutes.
        while self.stage.ending.is_set() and not (is_at_head or self.stopping.is_set()):
            is_at_head = self.read(history)

    def read(self, history: History) -> bool:
        """Read once. Returns whether there was nothing more."""
        path, limit = f"/v0/topics/{history.topic}", self.random.choice((10, 100, 1000))
        if self.stage.ending.is_set():
            limit = 1000  # what is left is read to the heads, and nobody waits for small steps
        wait_ms = 500 if self.random.random() < 0.02 else 0
        if self.random.random() < 0.3:
            own = "".join(f"&node={node}" for node in self.nodes)
            query = f"from_seq={history.position}&limit={limit}&wait_ms={wait_ms}{own}"
            window = self.ask("GET", f"{path}/records?{query}").json
        else:
            body: dict[str, Any] = {"from_seq": history.position, "limit": limit, "wait_ms": wait_ms}
            if self.nodes:
                body["node"] = list(self.nodes)
            window = self.ask("POST", f"{path}/diff", body).json
        if window["tombstone"]:
            history.told(window["tombstone"])
        history.delivered(window["records"])
        history.reached(window["next_from_seq"], window["head_seq"])
        return bool(window["caught_up"])


class Consumer(Follower):
    """Reads the records of an inbox, and deletes them."""

    pause = 0.2

    def read(self, history: History) -> bool:
        is_at_head = super().read(history)
        before_seq = history.position + 1
        self.evidence.deletes.append(Deleted(now(), history.topic, before_seq))
        self.ask("POST", f"/v0/topics/{history.topic}/delete", {"before_seq": before_seq})
        return is_at_head


class Watcher(Hand):
    """Keeps a stream of several topics open. When it ends, or when `patience` is over, it connects again behind the last id."""

    pause = 0.2
    until_ended = True

    def __init__(
        self, stage: Stage, name: str, topics: list[str], patience: float = 1e9, consistency: str = "eventual"
    ) -> None:
        super().__init__(stage, name)
        self.patience, self.consistency = patience, consistency
        strong = consistency == "strong"
        self.histories = {topic: self.evidence.history(name, topic, strong=strong) for topic in topics}
        self.url: str | None = None
        self.last_id: str | None = None

    def step(self) -> None:
        for history in self.histories.values():
            history.opened()
        try:
            self.url = self.url or self.new_session()
            with Api(self.port, patience=DEADLINE, name=self.host).stream(self.url, self.last_id) as stream:
                self.follow(stream)
        except Refused as refused:
            if refused.status == 404:  # the session is over: nobody was there for too long, or the clock said so
                self.url = self.last_id = None
            elif not self.is_away(refused.status, refused.code):
                self.evidence.trouble(self.name, f"{self.url}: {refused}")
            raise Unanswered(str(refused)) from refused
        except TimeoutError as error:
            raise Hung(f"{self.url}: not even a heartbeat within {DEADLINE:.0f} s") from error
        except (OSError, http.client.HTTPException) as error:
            raise Unanswered(repr(error)) from error

    def new_session(self) -> str:
        topics = {topic: {"from_seq": history.position} for topic, history in self.histories.items()}
        options = {"heartbeat_ms": HEARTBEAT_MS, "consistency": self.consistency}
        return str(self.ask("POST", "/v0/watch", {"topics": topics, **options}).json["stream_url"])

    def follow(self, stream: Stream) -> None:
        ends = now() + self.random.expovariate(1 / self.patience)
        while not (stream.ended or self.stopping.is_set() or now() > ends):
            for event in stream.take(stream.read()):
                self.note(event)
            stream.comments.clear()
            if stream.last_id not in (None, self.last_id):
                self.move(str(stream.last_id))

    def note(self, event: Event) -> None:
        if event.name == "error":
            return  # it says why the stream ends now
        history = self.histories[event.data["topic"]]
        if event.name == "record":
            history.delivered(event.data["records"])
            history.reached(event.data["to_seq"], event.data["head_seq"])
        elif event.name == "tombstone":
            history.told(event.data)
        elif event.name == "caught-up":
            history.reached(event.data["head_seq"], event.data["head_seq"])
        else:
            self.evidence.trouble(self.name, f"{history.topic}: {event.name} {event.data}")

    def move(self, last_id: str) -> None:
        """An id says where the stream is in every topic: what it has passed was shown, told, or left out on purpose."""
        self.last_id = last_id
        for topic, seq in json.loads(base64.urlsafe_b64decode(last_id)).items():
            if topic in self.histories:
                self.histories[topic].reached(seq)


def readers(stage: Stage) -> list[Hand]:
    """Everybody who reads."""
    names = [topic.name for topic in TOPICS]
    whole = [topic.name for topic in TOPICS if topic.whole]
    by_diff = [name for name in names if name != "probe.watched"]
    return [
        Follower(stage, "follower", by_diff),
        Follower(stage, "follower-requests", whole).through_gateway(AS_REQUESTS),
        Follower(
            stage, "follower-left", ["fsync", "disk", "chain.2", "mirror.a", "mirror.b"], (NODES[0],)
        ).through_gateway(AS_BYTES),
        Consumer(stage, "consumer", ["inbox"]),
        Watcher(stage, "watcher", names),
        Watcher(stage, "watcher-restless", names, patience=4).through_gateway(AS_BYTES),
        Watcher(stage, "watcher-requests", whole, patience=30).through_gateway(AS_REQUESTS),
        Watcher(stage, "watcher-strong", whole, patience=30, consistency="strong"),
    ]

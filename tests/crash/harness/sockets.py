"""WebSockets in a run: a writer with several publishes in flight, and a reader of all topics that subscribes again when it ends.

A publish without an answer may be stored or not. The oracle's rules are those of all writers and readers.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from tests.crash.harness.client import DEADLINE, Hung, Reply, Unanswered
from tests.crash.harness.evidence import now
from tests.crash.harness.load import Hand, Stage, Writer
from tests.crash.harness.topology import TOPICS, Topic


@contextmanager
def answered(what: str) -> Iterator[None]:
    """Raises Unanswered for a socket that ended or was refused, and Hung for one that is silent."""
    try:
        yield
    except InvalidStatus as error:
        if error.response.status_code != 503:
            raise
        raise Unanswered(f"{what}: 503") from error
    except (ConnectionClosed, InvalidHandshake) as error:
        raise Unanswered(f"{what}: {error!r}") from error
    except TimeoutError as error:
        raise Hung(f"{what}: nothing within {DEADLINE:.0f} s") from error
    except OSError as error:
        raise Unanswered(f"{what}: {error!r}") from error


def opened(port: int) -> ClientConnection:
    return connect(
        f"ws://127.0.0.1:{port}/v0/ws",
        proxy=None,
        compression=None,
        open_timeout=DEADLINE,
        close_timeout=1,
        max_size=None,
    )


class SocketWriter(Writer):
    """Sends up to five publishes before it reads the answers, whose seqs must rise."""

    def __init__(self, stage: Stage, topic: Topic, number: int) -> None:
        super().__init__(stage, topic, number)
        self.socket: ClientConnection | None = None
        self.ids = count(1)

    def step(self) -> None:
        try:
            with answered(f"publish to {self.topic}"):
                self.publish()
        except Unanswered:
            self.hang_up()
            raise
        if self.random.random() < 0.05:
            self.hang_up()  # the next socket may be another process's

    def publish(self) -> None:
        self.socket = self.socket or opened(self.stage.port)
        sent: dict[int, list[dict[str, Any]]] = {}
        for _ in range(self.random.randint(1, 5)):
            number, records = next(self.ids), self.records()
            self.socket.send(
                json.dumps({"op": "publish", "request_id": number, "topic": self.topic, "records": records})
            )
            sent[number] = records
        last, away = 0, ""
        while sent:
            frame = json.loads(self.socket.recv(DEADLINE))
            records = sent.pop(frame["request_id"])
            if frame["op"] == "ack":
                self.note(records, Reply(200, frame))
                if frame["first_seq"] <= last:
                    self.evidence.trouble(self.name, f"seq {frame['first_seq']} was acked behind seq {last}")
                last = frame["last_seq"]
            elif "retry_after" in frame:  # 503 over HTTP
                away = frame["code"]
            else:
                self.evidence.trouble(self.name, f"publish to {self.topic}: {frame}")
        if away:
            raise Unanswered(away)

    def hang_up(self) -> None:
        if self.socket is not None:
            self.socket.close()
            self.socket = None


class SocketReader(Hand):
    """Follows all topics over a socket. When it ends, or now and then, it connects again behind the last seq of each topic."""

    pause = 0.2
    until_ended = True
    patience = 10.0

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage, "socket-reader")
        self.histories = {topic.name: self.evidence.history(self.name, topic.name) for topic in TOPICS}

    def step(self) -> None:
        for history in self.histories.values():
            history.opened()
        topics = {name: {"from_seq": history.position} for name, history in self.histories.items()}
        ends = now() + self.random.expovariate(1 / self.patience)
        with answered("subscribe"), opened(self.stage.port) as socket:
            socket.send(json.dumps({"op": "subscribe", "topics": topics}))
            while not self.stopping.is_set() and (now() < ends or self.stage.ending.is_set()):
                try:
                    message = socket.recv(1)
                except TimeoutError:
                    # No frame tells of deleted records behind the last one, but a pong does.
                    socket.send('{"op": "ping", "positions": true}')
                    message = socket.recv(DEADLINE)
                self.note(json.loads(message))

    def note(self, frame: dict[str, Any]) -> None:
        match frame["op"]:
            case "record":
                history = self.histories[frame["topic"]]
                history.delivered(frame["records"])
                history.reached(frame["to_seq"], frame["head_seq"])
            case "tombstone":
                self.histories[frame["topic"]].told(frame)
            case "caught_up":
                self.histories[frame["topic"]].reached(frame["head_seq"], frame["head_seq"])
            case "error":
                raise Unanswered(frame["message"])
            case "pong":
                for topic, seq in frame["positions"].items():
                    self.histories[topic].reached(seq)
            case "subscribed":
                pass
            case _:
                self.evidence.trouble(self.name, f"{frame}")

"""A client of the watch API as plain as can be: JSON calls, and a stream read byte by byte as an EventSource reads it."""

import http.client
import json
import re
import socket
import time
import uuid
from base64 import urlsafe_b64decode
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import psycopg

from tests.deadlines import DEADLINE


def new_name(prefix: str = "w") -> str:
    return f"{prefix}-{uuid.uuid4().hex[:12]}"


@dataclass
class Event:
    name: str
    id: str | None
    data: Any

    @property
    def seqs(self) -> list[int]:
        return [record["$seq"] for record in self.data["records"]]

    @property
    def place(self) -> dict[str, Any]:
        """What the id says."""
        assert self.id is not None
        return json.loads(urlsafe_b64decode(self.id))


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: Any


@dataclass
class Api:
    """Calls on an instance, each on a connection of its own: so they reach any of its processes."""

    port: int
    key: str | None = None
    patience: float = DEADLINE
    host: str = ""  # the address that calls come from: any of 127.0.0.0/8
    name: str = "127.0.0.1"  # of the server

    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.key}"} if self.key else {}

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        connection = http.client.HTTPConnection(
            self.name, self.port, timeout=self.patience, source_address=(self.host, 0)
        )
        try:
            content = body if body is None or isinstance(body, bytes) else json.dumps(body)
            sent = {**self.headers(), **({"Content-Type": "application/json"} if body is not None else {}), **headers}
            connection.request(method, path, content, sent)
            response = connection.getresponse()
            text = response.read()
            return Answer(response.status, dict(response.headers), json.loads(text) if text else None)
        finally:
            connection.close()

    def done(self, method: str, path: str, body: Any = None) -> Any:
        answer = self.call(method, path, body)
        assert answer.status < 300, answer
        return answer.body

    def append(self, topic: str, *values: Any, **fields: Any) -> int:
        """Appends records with these data; returns the last seq."""
        records = [value if isinstance(value, dict) and "data" in value else {"data": value} for value in values]
        return self.done("POST", f"/v0/topics/{topic}", {"records": records, **fields})["last_seq"]

    def watch(self, topics: dict[str, Any], **options: Any) -> str:
        """A new session's stream_url."""
        return self.done("POST", "/v0/watch", {"topics": topics, **options})["stream_url"]

    def stream(self, url: str, last_id: str | None = None, room: int | None = None, **headers: str) -> "Stream":
        """`room`: bytes that our kernel holds for it, more or less, while it is not read."""
        given = {"Accept": "text/event-stream", **self.headers(), **headers}
        if last_id is not None:
            given["Last-Event-ID"] = last_id
        return Stream(self.port, url, given, self.patience, self.host, self.name, room)


class Refused(Exception):
    def __init__(self, answer: Answer) -> None:
        super().__init__(answer)
        self.status = answer.status
        error = answer.body["error"] if answer.body else {}  # a head that is too long is refused without a word
        self.code, self.detail = error.get("code"), error.get("detail", {})


@dataclass
class Stream:
    """An open stream; raises Refused when it is none."""

    port: int
    url: str
    sent: dict[str, str]
    patience: float = DEADLINE
    host: str = ""
    name: str = "127.0.0.1"
    room: int | None = None
    comments: list[str] = field(default_factory=list)
    last_id: str | None = None
    ended: bool = False
    broken: bool = False  # it ended in the middle

    def __post_init__(self) -> None:
        self.connection = http.client.HTTPConnection(
            self.name, self.port, timeout=self.patience, source_address=(self.host, 0)
        )
        if self.room is not None:
            self.connection.sock = socket.socket()
            self.connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self.room)
            self.connection.sock.connect((self.name, self.port))
        self.connection.request("GET", self.url, headers=self.sent)
        assert self.connection.sock is not None
        self.socket: socket.socket = self.connection.sock
        self.response = self.connection.getresponse()
        self.status, self.headers = self.response.status, dict(self.response.headers)
        self.buffer = b""
        if self.status != 200:
            answer = Answer(self.status, self.headers, parsed(self.response.read().decode()))
            self.close()
            raise Refused(answer)

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.response.close()
        self.connection.close()

    def read(self, most: int = 65536) -> bytes:
        """Some bytes of the body; none at its end."""
        try:
            data = self.response.read1(most)
        except (http.client.IncompleteRead, ConnectionError):
            self.broken = True
            data = b""
        self.ended = self.ended or not data
        return data

    def take(self, data: bytes) -> list[Event]:
        """The events that these bytes complete; last_id follows."""
        self.buffer += data
        *blocks, self.buffer = self.buffer.split(b"\n\n")
        return [event for block in blocks if (event := self.parse(block.decode())) is not None]

    def parse(self, block: str) -> Event | None:
        fields: dict[str, list[str]] = {}
        for line in block.split("\n"):
            if line.startswith(":"):
                self.comments.append(line)
                continue
            name, _, value = line.partition(":")
            fields.setdefault(name, []).append(value.removeprefix(" "))
        if "id" in fields:
            self.last_id = fields["id"][-1]
        if "data" not in fields:
            return None
        return Event(
            fields.get("event", ["message"])[-1], fields.get("id", [None])[-1], parsed("\n".join(fields["data"]))
        )

    def events(self, seconds: float = DEADLINE) -> Iterator[Event]:
        """Events until the stream ends; fails when none comes for too long."""
        deadline = time.monotonic() + seconds
        while not self.ended:
            self.socket.settimeout(max(0.01, deadline - time.monotonic()))
            try:
                data = self.read()
            except TimeoutError:
                raise AssertionError(f"no event within {seconds:.0f} s, after {self.comments[-3:]}") from None
            for event in self.take(data):
                yield event
                deadline = time.monotonic() + seconds

    def until(self, done: Callable[[Event], bool], seconds: float = DEADLINE) -> list[Event]:
        """Events up to and with the first that is `done`."""
        got: list[Event] = []
        for event in self.events(seconds):
            got.append(event)
            if done(event):
                return got
        raise AssertionError(f"the stream ended before it came: {got[-3:]}")

    def until_seq(self, topic: str, seq: int) -> list[Event]:
        """Events up to and with the record event that reaches this seq."""
        return self.until(lambda e: e.name == "record" and e.data["topic"] == topic and e.data["to_seq"] >= seq)

    def until_event(self, *names: str) -> list[Event]:
        return self.until(lambda event: event.name in names)

    def rest(self) -> list[Event]:
        """Every event until the stream ends by itself."""
        return list(self.events())


def parsed(text: str) -> Any:
    return json.loads(text) if text else None


def seqs(events: list[Event], topic: str | None = None) -> list[int]:
    """The seqs of all records in these events."""
    wanted = [e for e in events if e.name == "record" and topic in (None, e.data["topic"])]
    return [seq for event in wanted for seq in event.seqs]


def names(events: list[Event]) -> list[str]:
    return [event.name for event in events]


def wid(url: str) -> str:
    found = re.fullmatch(r"/v0/watch/(wid_[A-Za-z0-9_-]{22})", url)
    assert found, url
    return found[1]


def still_open(database: psycopg.Connection, url: str) -> bool:
    """Whether a session's row says that it has a stream, or had one whose end is not written down."""
    row = database.execute("SELECT open FROM topics_watchsession WHERE wid = %s", [wid(url)]).fetchone()
    return row is not None and row[0]

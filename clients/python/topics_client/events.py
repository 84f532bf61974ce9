"""A stream of server-sent events that opens again after each cut."""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from contextlib import suppress
from typing import Any, NamedTuple

from topics_client.errors import Unreachable
from topics_client.script import Close, Pause, Receive, Script, backoff

HEARTBEAT_SECONDS = 15.0  # a stream without an event sends a comment so often


class Event(NamedTuple):
    name: str
    data: bytes
    id: str


class Parser:
    """Cuts bytes into events."""

    def __init__(self) -> None:
        self.events: deque[Event] = deque()
        self.rest = b""

    def feed(self, chunk: bytes) -> None:
        *blocks, self.rest = (self.rest + chunk).split(b"\n\n")
        for block in blocks:
            name, id, data = "", "", []
            for line in block.split(b"\n"):
                field, _, value = line.partition(b": ")
                if field == b"data":
                    data.append(value)
                elif field == b"event":
                    name = value.decode()
                elif field == b"id":
                    id = value.decode()
            if name:
                self.events.append(Event(name, b"\n".join(data), id))


class EventStream:
    """Yields events from a stream, and opens it again when it ends. A pause before each try grows until an event comes."""

    def __init__(self) -> None:
        self.stream: Any = None
        self.parser = Parser()
        self.tries = 0
        self.is_ending = False

    @abstractmethod
    def connect(self) -> Script[Any]:
        """Opens the stream where it shall continue."""

    def before_wait(self) -> Script[None]:
        """Called before each wait for the server."""
        yield from ()

    def event(self) -> Script[Event | None]:
        """Returns the next event, or None after `is_ending` is set."""
        while not self.parser.events:
            yield from self.before_wait()
            if self.is_ending:
                return None
            if self.stream is None:
                if self.tries:
                    yield Pause(backoff(self.tries - 1))
                self.tries += 1
                self.parser = Parser()
                self.stream = yield from self.connect()
            chunk = b""
            with suppress(Unreachable):  # a cut: the next turn connects again
                chunk = yield Receive(self.stream)
            if chunk:
                self.parser.feed(chunk)
            else:
                yield from self.hang_up()
        self.tries = 0
        return self.parser.events.popleft()

    def hang_up(self) -> Script[None]:
        stream, self.stream = self.stream, None
        self.parser = Parser()
        if stream is not None:
            yield Close(stream)

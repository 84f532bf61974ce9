"""`tail -f`: a watch stream (watch/stream.py) in this process, which prints where others send over HTTP.

No web server has to run. The stream stays while PostgreSQL or Redis is away, and then goes on where it was.
"""

from __future__ import annotations

import asyncio
import signal
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
from django.conf import settings
from django.db import connection

from shell.reading import LIMIT, Tail, say, say_lost
from store.script import run
from topics.cache import absent, topic_called
from watch.hub import hub
from watch.sessions import Options, SavedPosition, Session
from watch.stream import Stream
from wire.keys import OPEN

HEARTBEAT_MS = 60_000  # nobody needs one here


class Told(msgspec.Struct):
    """Of an event's data, what is printed."""

    topic: str
    records: list[msgspec.Raw] = []
    reason: str = ""
    cause: str = ""
    gap_from: int = 0
    gap_to: int = 0


TOLD = msgspec.json.Decoder(Told)


def follow(printed: Tail) -> None:
    """Print what comes after what was printed, until somebody interrupts. Raises TopicNotFound with the last topic."""
    positions = {name: SavedPosition(run(topic_called(name)).id, seq) for name, seq in printed.seqs.items()}
    connection.close()  # a stream has connections of its own
    asyncio.run(Following(printed).run(positions))


class Following:
    """The reader of a stream, at its other end."""

    def __init__(self, printed: Tail) -> None:
        self.printed = printed
        self.gone: set[str] = set()  # the topics that were deleted

    async def run(self, positions: dict[str, SavedPosition]) -> None:
        options = Options(LIMIT, settings.TOPICS_DIFF_BYTES, HEARTBEAT_MS, tags=True)
        # No row in the database: this session ends with its only stream.
        stream = Stream(hub(), Session("", options, positions, stream=1, exact=True), OPEN, self.send)
        try:
            await stream.begin(None)
            await stream.pump()
        finally:
            stream.close()
            await hub().close()

    async def send(self, message: dict[str, Any]) -> None:
        with interruptible():
            for name, data in events(message["body"]):
                self.tell(name, TOLD.decode(data))

    def tell(self, event: str, told: Told) -> None:
        if event == "topic-deleted":
            self.lose(told.topic)
            return
        self.gone.discard(told.topic)
        if event == "tombstone":
            say_lost(told.topic, told.cause or told.reason, told.gap_from, told.gap_to)
        self.printed.print(told.topic, told.records)

    def lose(self, topic: str) -> None:
        """The others go on, and this one too if it is created again. Raises TopicNotFound when none is left."""
        self.gone.add(topic)
        if len(self.gone) == len(self.printed.seqs):
            raise absent(topic)
        say(absent(topic).message)


def events(frames: bytes) -> Iterator[tuple[str, bytes]]:
    """Name and data of each event in what a stream sent."""
    for frame in frames.split(b"\n\n"):
        fields = defaultdict(list)
        for line in frame.split(b"\n"):
            field, _, value = line.partition(b": ")
            fields[field].append(value)
        if b"data" in fields:  # others are heartbeats, or an id alone
            yield fields[b"event"][-1].decode(), b"\n".join(fields[b"data"])


@contextmanager
def interruptible() -> Iterator[None]:
    """asyncio notes a Ctrl-C and acts on it later: never, while a pipe that nobody reads holds up a write."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)

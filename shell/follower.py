"""Prints the events of a watch stream (docs/watch.md). The stream runs in this process (local_stream.py) or comes over HTTP
(remote_stream.py)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from base.errors import Forbidden, TopicNotFound, Unauthorized
from shell.printing import PrintedTail, say, say_lost


class Told(msgspec.Struct):
    """The fields of an event's data that are printed."""

    topic: str = ""
    records: list[msgspec.Raw] = []
    reason: str = ""
    cause: str = ""
    gap_from: int = 0
    gap_to: int = 0
    lost_from: int | None = None
    to_seq: int = 0
    code: str = ""
    error: str = ""


TOLD = msgspec.json.Decoder(Told)
# All other errors end a stream that can be opened again, for example a shutdown of the server.
FINAL = {each.code: each for each in (Unauthorized, Forbidden)}


class Follower:
    """Prints the matching records of several topics, including topics that do not exist yet."""

    def __init__(self, printed: PrintedTail, awaited: Iterable[str], match: Any = None) -> None:
        self.printed, self.match = printed, match
        self.seqs = printed.seqs  # last printed seq of each topic that exists or was deleted
        self.awaited = set(awaited)
        self.gone: set[str] = set()  # the topics that were deleted

    def hear(self, frames: bytes) -> None:
        """Prints whole frames of a stream. Raises TopicNotFound if all topics are deleted, and an error of FINAL if the key is no
        longer valid."""
        for name, data in events(frames):
            self.tell(name, TOLD.decode(data))

    def tell(self, event: str, told: Told) -> None:
        if event == "error":
            if told.code in FINAL:
                raise FINAL[told.code](told.error)
            return
        if event == "topic-deleted":
            self.lose(told.topic)
            return
        if told.topic in self.awaited:
            self.appear(told.topic)
        elif event == "tombstone":
            say_lost(told.topic, told.cause or told.reason, told.gap_from, told.gap_to, told.lost_from)
        if event == "tombstone":
            self.seqs[told.topic] = told.gap_to
        self.gone.discard(told.topic)
        self.printed.print(told.topic, told.records)
        if event == "record":
            self.seqs[told.topic] = told.to_seq

    def wait_for(self, topic: str) -> None:
        """Waits for an absent or deleted topic. The topic will be printed from its beginning."""
        self.seqs.pop(topic, None)
        self.gone.discard(topic)
        self.awaited.add(topic)

    def appear(self, topic: str) -> None:
        """Notes that an awaited topic exists now. The topic is printed from the beginning."""
        self.awaited.discard(topic)
        self.seqs[topic] = 0
        say(f"{topic} exists now")

    def lose(self, topic: str) -> None:
        """Notes that a topic was deleted. Other topics continue, and a new topic of the same name continues later. Raises
        TopicNotFound if no topic is left."""
        self.gone.add(topic)
        if not self.awaited and self.gone == self.seqs.keys():
            raise TopicNotFound(f"topic {topic!r} does not exist")
        say(f"topic {topic!r} does not exist")


def events(frames: bytes) -> Iterator[tuple[str, bytes]]:
    """Yields name and data of each event in these frames."""
    for frame in frames.split(b"\n\n"):
        fields = defaultdict(list)
        for line in frame.split(b"\n"):
            field, _, value = line.partition(b": ")
            fields[field].append(value)
        if b"data" in fields:  # other frames are heartbeats, or only have an id
            yield fields[b"event"][-1].decode(), b"\n".join(fields[b"data"])

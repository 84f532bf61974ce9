"""What a watch stream tells (docs/watch.md), printed: the other end of one in this process (local_stream.py) or of one over
HTTP (remote_stream.py)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

import msgspec

from base.errors import TopicsError
from shell.printing import Tail, say, say_lost


class Told(msgspec.Struct):
    """Of an event's data, what is printed."""

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
# Other errors end a stream that another one follows: the server shuts down, say.
FINAL = ("unauthorized", "forbidden")


class Follower:
    """Prints what is heard of several topics, some of which may not be there yet."""

    def __init__(self, printed: Tail, awaited: Iterable[str]) -> None:
        self.printed = printed
        self.seqs = printed.seqs  # up to where each topic that is there was printed
        self.awaited = set(awaited)
        self.gone: set[str] = set()  # the topics that were deleted

    def hear(self, frames: bytes) -> None:
        """Whole frames of a stream. Raises TopicsError when there is nothing left to follow, or to be seen."""
        for name, data in events(frames):
            self.tell(name, TOLD.decode(data))

    def tell(self, event: str, told: Told) -> None:
        if event == "error":
            if told.code in FINAL:
                raise TopicsError(told.error)
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
        """A topic that is not there, or not any more: it is printed from its beginning when it is."""
        self.seqs.pop(topic, None)
        self.gone.discard(topic)
        self.awaited.add(topic)

    def appear(self, topic: str) -> None:
        """A topic that was waited for is there now, and is printed from its beginning."""
        self.awaited.discard(topic)
        self.seqs[topic] = 0
        say(f"{topic} is there now")

    def lose(self, topic: str) -> None:
        """The others go on, and this one too if it is created again. Raises TopicsError when none is left."""
        self.gone.add(topic)
        if not self.awaited and self.gone == self.seqs.keys():
            raise TopicsError(f"there is no topic {topic!r}")
        say(f"there is no topic {topic!r}")


def events(frames: bytes) -> Iterator[tuple[str, bytes]]:
    """Name and data of each event in what a stream sent."""
    for frame in frames.split(b"\n\n"):
        fields = defaultdict(list)
        for line in frame.split(b"\n"):
            field, _, value = line.partition(b": ")
            fields[field].append(value)
        if b"data" in fields:  # others are heartbeats, or an id alone
            yield fields[b"event"][-1].decode(), b"\n".join(fields[b"data"])

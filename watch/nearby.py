"""Wake-ups between the web processes of one server, without Redis: they arrive 0.3 ms earlier, and can bring small records along.

Hints can be lost, come twice, or come in another order than the commits. docs/concurrency.md ("Records from memory") says why
this changes nothing. A process that dies while it sends, and a full socket, lose whole messages, never a part of one. Removed
records are not in a tail for long: a read that meets a loss drops the tail, and a stream that connects after the removal uses no
reading that started before.

Redis carries the same wake-ups to all machines (wakes.py). So a message that is lost here costs a delay. While all processes that
listen to Redis are neighbours, Redis gets a message each 50 ms instead of each 5 ms.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator

import msgspec

from base.neighbours import Neighbours
from topics import wake
from topics.append.records import Rows
from topics.append.written import Written
from topics.cache import cached

PAUSE_SECONDS = 0.005  # between two messages of a process. The first one after a rest leaves at once
MOST_HEADS = 500  # of a message
MOST_BYTES = 8192  # of the records of a message and the names of their topics. Other records are read
LONGEST_MESSAGE = 2**18

Moved = Callable[[int, int, Written | None], None]  # topic id, head seq, and the records that moved the head there


class Records(msgspec.Struct, array_like=True):
    """Records of an append (Written). The receiver uses them only if it knows the topic in this version."""

    name: str
    version: int
    base: int
    ts: int
    started: float
    rows: list[Rows]


Head = tuple[int, int, Records | None]  # topic id, head seq
Heads = msgspec.json.Decoder(list[Head])


class Nearby:
    """Sends the moved heads of this process, and calls `moved` for those of the others. Lives in the hub's event loop."""

    def __init__(self, neighbours: Neighbours, slot: int, moved: Moved) -> None:
        self.neighbours, self.slot, self.moved = neighbours, slot, moved
        self.loop, self.thread = asyncio.get_running_loop(), threading.get_ident()
        self.heads: dict[int, tuple[int, Written | None]] = {}
        self.sent_at = 0.0
        self.timer: asyncio.TimerHandle | None = None  # of the next message
        self.listen(False)
        self.loop.add_reader(neighbours.inboxes[slot], self.receive)
        # A process that listens to its neighbours also listens to Redis (Hub.follow).
        wake.listen(self.hint, neighbours.count)

    def listen(self, is_listening: bool) -> None:
        """Says whether this process has streams."""
        self.neighbours.listen(self.slot, is_listening)

    def hint(self, topic_id: int, head_seq: int, written: Written | None) -> None:
        """Notes that a head advanced. Called in the appending thread, which can be any thread."""
        if not self.neighbours.listeners(self.slot):
            return
        if threading.get_ident() != self.thread:
            self.loop.call_soon_threadsafe(self.hint, topic_id, head_seq, written)
            return
        # Two appends to a topic within the pause: it is busy, and a read finds the records of both.
        self.heads[topic_id] = head_seq, None if topic_id in self.heads else written
        if self.timer is None:
            self.timer = self.loop.call_at(self.sent_at + PAUSE_SECONDS, self.send)

    def send(self) -> None:
        self.timer, self.sent_at = None, self.loop.time()
        heads, self.heads = list(packed(self.heads)), {}
        for start in range(0, len(heads), MOST_HEADS):
            self.neighbours.send(self.slot, msgspec.json.encode(heads[start : start + MOST_HEADS]))

    def receive(self) -> None:
        try:
            message = self.neighbours.inboxes[self.slot].recv(LONGEST_MESSAGE)
        except BlockingIOError:
            return
        for topic_id, head_seq, records in Heads.decode(message):
            self.moved(topic_id, head_seq, None if records is None else unpacked(topic_id, records))

    def close(self) -> None:
        wake.leave(self.hint)
        if self.timer is not None:
            self.timer.cancel()
        self.listen(False)
        self.loop.remove_reader(self.neighbours.inboxes[self.slot])


def packed(heads: dict[int, tuple[int, Written | None]]) -> Iterator[Head]:
    left = MOST_BYTES
    for topic_id, (head_seq, written) in heads.items():
        size = 0 if written is None else written.bytes + len(written.topic.name)
        if written is None or size > left:
            yield topic_id, head_seq, None
            continue
        left -= size
        topic, base, rows, ts, started = written
        yield topic_id, head_seq, Records(topic.name, topic.version, base, ts, started, rows)


def unpacked(topic_id: int, records: Records) -> Written | None:
    topic = cached(records.name)
    if topic is None or (topic.id, topic.version) != (topic_id, records.version):
        return None
    # All processes of a machine have one monotonic clock.
    return Written(topic, records.base, records.rows, records.ts, records.started)

"""Read a topic at the shell: its last records, what comes next, or all of it as lines.

Lines go to standard output, and what a reader must be told beside them (records that were lost) to standard error.
"""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import BinaryIO

import msgspec

from topics.diff import Diff, Window, diff, tombstone
from topics.errors import TopicNotFound
from topics.management.lines import Shape, one_line

LIMIT = 1000
POLL_SECONDS = 0.2

Clock = Callable[[], int]
Line = Callable[[msgspec.Raw], bytes]


class Shown(msgspec.Struct):
    """Of a record, what a line of data is made of."""

    data: msgspec.Raw


DATA = msgspec.json.Decoder(Shown)
RECORDS = msgspec.json.Decoder(list[msgspec.Raw])


def line_of(whole: bool, shape: Shape) -> Line:
    """How a record is printed: whole, or only its data."""
    if whole:
        return lambda record: one_line(bytes(record))
    return lambda record: shape.line(bytes(DATA.decode(record).data))


def windows(name: str, from_seq: int, upto: int | None, clock: Clock) -> Iterator[tuple[list[msgspec.Raw], Window]]:
    """What the topic shows above from_seq, up to its head, or the seq that it had when somebody looked."""
    while True:
        window = diff(name, Diff(from_seq=from_seq, limit=LIMIT, include_tags=True), clock())
        say_lost(name, window, from_seq)
        yield RECORDS.decode(f"[{window.records or ''}]"), window
        from_seq = window.next_from_seq
        if window.caught_up or (upto is not None and from_seq >= upto):
            return


def say_lost(name: str, window: Window, from_seq: int) -> None:
    if (lost := tombstone(window, from_seq)) is None:
        return
    if lost["reason"] == "recreated":
        message = "is a new one of this name: it begins again"
    else:
        message = f"lost records {lost['gap_from']} to {lost['gap_to']} ({lost['reason']})"
    print(f"topics: {name} {message}", file=sys.stderr)


def export(name: str, from_seq: int, line: Line, out: BinaryIO, clock: Clock, tick: Callable[[int], None]) -> int:
    """Write every record that the topic shows now, above from_seq; answers how many."""
    head_seq = diff(name, Diff(limit=1), clock()).head_seq
    written = 0
    for records, _ in windows(name, from_seq, head_seq, clock):
        out.write(b"".join(map(line, records)))
        written += len(records)
        tick(written)
    return written


def last(name: str, count: int, clock: Clock) -> tuple[deque[msgspec.Raw], int]:
    """The last `count` records, and the seq to go on from. Looks further back where records were deleted."""
    now = diff(name, Diff(limit=1), clock())
    earliest, head_seq, reach = now.earliest_seq, now.head_seq, count
    while True:
        start = max(head_seq - reach, earliest - 1)
        found: deque[msgspec.Raw] = deque(maxlen=count)
        seq = head_seq
        if count:
            for records, window in windows(name, start, head_seq, clock):
                found.extend(records)
                seq = window.next_from_seq
        if len(found) == count or start < earliest:
            return found, seq
        reach = reach * 4 + LIMIT


class Follower:
    """Prints several topics, with a heading where the topic changes, as tail(1) does."""

    def __init__(self, names: list[str], line: Line, out: BinaryIO, clock: Clock) -> None:
        self.cursors = dict.fromkeys(names, 0)
        self.line = line
        self.out = out
        self.clock = clock
        self.heading = ""

    def print(self, name: str, records: list[msgspec.Raw] | deque[msgspec.Raw]) -> None:
        if records and len(self.cursors) > 1 and name != self.heading:
            self.out.write(b"==> %b <==\n" % name.encode())
            self.heading = name
        self.out.write(b"".join(map(self.line, records)))
        self.out.flush()

    def print_last(self, count: int) -> None:
        for name in self.cursors:
            records, self.cursors[name] = last(name, count, self.clock)
            self.print(name, records)

    def step(self) -> bool:
        """Print what is new; False: nothing was. A deleted topic is told and left out from then on."""
        moved = False
        for name, seq in list(self.cursors.items()):
            try:
                for records, window in windows(name, seq, None, self.clock):
                    self.print(name, records)
                    moved |= window.next_from_seq != seq
                    self.cursors[name] = window.next_from_seq
            except TopicNotFound as error:
                del self.cursors[name]
                if not self.cursors:
                    raise
                print(f"topics: {error.message}", file=sys.stderr)
        return moved

    def follow(self) -> None:
        """Until nothing is left to follow, or somebody interrupts."""
        while True:
            if not self.step():
                time.sleep(POLL_SECONDS)

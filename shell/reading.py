"""Read a topic at the shell: its last records, or all of it as lines. What comes next: following.py.

Lines go to standard output, and what a reader must be told beside them (records that were lost) to standard error.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import BinaryIO

import msgspec

from shell.lines import Shape, one_line
from store.script import run
from topics.diff import Diff, Window, diff, tombstone

LIMIT = 1000

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


def windows(name: str, from_seq: int, upto: int, clock: Clock) -> Iterator[tuple[list[msgspec.Raw], Window]]:
    """What the topic shows above from_seq, up to its head, or to what that was when somebody looked."""
    while True:
        window = run(diff(name, Diff(from_seq=from_seq, limit=LIMIT, include_tags=True), clock))
        if (lost := tombstone(window, from_seq)) is not None:
            say_lost(name, lost["reason"], lost["gap_from"], lost["gap_to"])
        yield RECORDS.decode(f"[{window.records or ''}]"), window
        from_seq = window.next_from_seq
        if window.caught_up or from_seq >= upto:
            return


def say_lost(name: str, reason: str, gap_from: int, gap_to: int) -> None:
    if reason == "recreated":
        say(f"{name} is a new one of this name: it begins again")
    else:
        say(f"{name} lost records {gap_from} to {gap_to} ({reason})")


def say(message: str) -> None:
    print(f"topics: {message}", file=sys.stderr)


def export(name: str, from_seq: int, line: Line, out: BinaryIO, clock: Clock, tick: Callable[[int], None]) -> int:
    """Write every record that the topic shows now, above from_seq; returns how many."""
    head_seq = run(diff(name, Diff(limit=1), clock)).head_seq
    written = 0
    for records, _ in windows(name, from_seq, head_seq, clock):
        out.write(b"".join(map(line, records)))
        written += len(records)
        tick(written)
    return written


def last(name: str, count: int, clock: Clock) -> tuple[deque[msgspec.Raw], int]:
    """The last `count` records, and the seq to go on from. Looks further back where records were deleted."""
    now = run(diff(name, Diff(limit=1), clock))
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


class Tail:
    """Prints several topics, with a heading where the topic changes, as tail(1) does."""

    def __init__(self, names: list[str], line: Line, out: BinaryIO) -> None:
        self.seqs = dict.fromkeys(names, 0)  # up to where each topic is printed
        self.line = line
        self.out = out
        self.heading = ""

    def print(self, name: str, records: Iterable[msgspec.Raw]) -> None:
        lines = b"".join(map(self.line, records))
        if lines and len(self.seqs) > 1 and name != self.heading:
            self.out.write(b"==> %b <==\n" % name.encode())
            self.heading = name
        self.out.write(lines)
        self.out.flush()

    def print_last(self, count: int, clock: Clock) -> None:
        for name in self.seqs:
            records, self.seqs[name] = last(name, count, clock)
            self.print(name, records)

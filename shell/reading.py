"""Reads a topic: the last records, or all records. follower.py prints later records."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import BinaryIO

import msgspec

from base.errors import TopicsError
from shell.printing import LIMIT, Line, say_lost
from shell.server import Server, path


class Tombstone(msgspec.Struct):
    reason: str
    gap_from: int
    gap_to: int
    lost_from: int | None = None


class Window(msgspec.Struct):
    """The fields of a diff's answer that are used here."""

    records: list[msgspec.Raw]
    next_from_seq: int
    head_seq: int
    earliest_seq: int
    caught_up: bool
    tombstone: Tombstone | None


WINDOW = msgspec.json.Decoder(Window)


def diff(server: Server, name: str, from_seq: int = 0, limit: int = 1) -> Window:
    """Returns the window above a seq. Raises TopicsError."""
    body = msgspec.json.encode({"from_seq": from_seq, "limit": limit, "include_tags": True})
    return WINDOW.decode(server.send("POST", path("topics", name, "diff"), body=body, again=True))


def windows(server: Server, name: str, from_seq: int, upto: int, floor: int | None = None) -> Iterator[Window]:
    """Yields the windows above from_seq up to the head, or until `upto` is reached.

    `floor`: the seq below the topic's first record, as the caller found it. A tombstone `recreated` up to `floor` is not printed.
    """
    while True:
        window = diff(server, name, from_seq, LIMIT)
        lost = window.tombstone
        if lost is not None and not (lost.reason == "recreated" and lost.gap_to == from_seq == floor):
            say_lost(name, lost.reason, lost.gap_from, lost.gap_to, lost.lost_from)
        yield window
        from_seq = window.next_from_seq
        if window.caught_up or from_seq >= upto:
            return


def export(server: Server, name: str, from_seq: int, line: Line, out: BinaryIO, tick: Callable[[int], None]) -> int:
    """Writes all current records above from_seq. Returns their number.

    Raises TopicsError if a crash of the server took back records written by this export, or by an export up to from_seq.
    """
    head_seq = diff(server, name).head_seq
    written = 0
    for window in windows(server, name, from_seq, head_seq):
        if (lost := window.tombstone) is not None and lost.lost_from is not None and lost.lost_from < lost.gap_from:
            raise TopicsError(
                f"a crash of the server took back the records of {name} from seq {lost.lost_from} on, which were exported: "
                f"drop them and export from seq {lost.lost_from - 1}"
            )
        out.write(b"".join(map(line, window.records)))
        written += len(window.records)
        tick(written)
    return written


def last(server: Server, name: str, count: int) -> tuple[deque[msgspec.Raw], int]:
    """Returns the last `count` records, and the seq to continue after. Reads further back if records were deleted."""
    now = diff(server, name)
    earliest, head_seq, reach = now.earliest_seq, now.head_seq, count
    while True:
        start = max(head_seq - reach, earliest - 1)
        found: deque[msgspec.Raw] = deque(maxlen=count)
        seq = head_seq
        if count:
            for window in windows(server, name, start, head_seq, earliest - 1):
                found.extend(window.records)
                seq = window.next_from_seq
        if len(found) == count or start < earliest:
            return found, seq
        reach = reach * 4 + LIMIT

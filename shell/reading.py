"""Reads a topic: the last records, or all records. follower.py prints later records."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

import msgspec

from base.errors import TopicsError
from shell.printing import LIMIT, Line, say_lost
from shell.server import CommandServer, path


class ReadTombstone(msgspec.Struct):
    reason: str
    gap_from: int
    gap_to: int
    lost_from: int | None = None


class DiffFields(msgspec.Struct):
    """The fields of a diff's answer that are used here."""

    records: list[msgspec.Raw]
    next_from_seq: int
    head_seq: int
    earliest_seq: int
    caught_up: bool
    tombstone: ReadTombstone | None


WINDOW = msgspec.json.Decoder(DiffFields)


def diff(server: CommandServer, name: str, from_seq: int = 0, limit: int = 1, match: Any = None) -> DiffFields:
    """Returns the next `limit` records above a seq that match. Raises TopicsError."""
    wanted: dict[str, Any] = {"from_seq": from_seq, "limit": limit, "include_tags": True}
    if match is not None:
        wanted |= {"match": match, "window": "matches"}
    body = msgspec.json.encode(wanted)
    return WINDOW.decode(server.send("POST", path("topics", name, "diff"), body=body, again=True))


def windows(
    server: CommandServer, name: str, from_seq: int, upto: int, floor: int | None = None, match: Any = None
) -> Iterator[DiffFields]:
    """Yields the windows of matches above from_seq up to the head, or until `upto` is reached.

    `floor`: the seq below the topic's first record, as the caller found it. A tombstone `recreated` up to `floor` is not printed.
    """
    while True:
        window = diff(server, name, from_seq, LIMIT, match)
        lost = window.tombstone
        if lost is not None and not (lost.reason == "recreated" and lost.gap_to == from_seq == floor):
            say_lost(name, lost.reason, lost.gap_from, lost.gap_to, lost.lost_from)
        yield window
        from_seq = window.next_from_seq
        if window.caught_up or from_seq >= upto:
            return


def export(
    server: CommandServer, name: str, from_seq: int, match: Any, line: Line, out: BinaryIO, tick: Callable[[int], None]
) -> int:
    """Writes all current records above from_seq that match. Returns their number.

    Raises TopicsError if a crash of the server took back records written by this export, or by an export up to from_seq.
    """
    head_seq = diff(server, name).head_seq
    written = 0
    for window in windows(server, name, from_seq, head_seq, match=match):
        if (lost := window.tombstone) is not None and lost.lost_from is not None and lost.lost_from < lost.gap_from:
            raise TopicsError(
                f"a crash of the server took back the records of {name} from seq {lost.lost_from} on, which were exported: "
                f"drop them and export from seq {lost.lost_from - 1}"
            )
        out.write(b"".join(map(line, window.records)))
        written += len(window.records)
        tick(written)
    return written


def last(server: CommandServer, name: str, count: int, match: Any = None) -> tuple[deque[msgspec.Raw], int]:
    """Returns the last `count` records that match, and the seq to continue after. Reads further back if it finds too few."""
    now = diff(server, name)
    earliest, head_seq, reach = now.earliest_seq, now.head_seq, count
    while True:
        start = max(head_seq - reach, earliest - 1)
        found: deque[msgspec.Raw] = deque(maxlen=count)
        seq = head_seq
        if count:
            for window in windows(server, name, start, head_seq, earliest - 1, match):
                found.extend(window.records)
                seq = window.next_from_seq
        if len(found) == count or start < earliest:
            return found, seq
        reach = reach * 4 + LIMIT

"""Prints records on standard output, and messages about them on standard error."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import BinaryIO

import msgspec

from shell.lines import Shape, one_line
from shell.streams import messages

LIMIT = 1000  # records of one read

Line = Callable[[msgspec.Raw], bytes]


class PrintedRecord(msgspec.Struct):
    """The part of a record that a line of data needs."""

    data: msgspec.Raw


DATA = msgspec.json.Decoder(PrintedRecord)


def line_of(whole: bool, shape: Shape) -> Line:
    """Returns the function that formats a record: the whole record, or only its data."""
    if whole:
        return lambda record: one_line(bytes(record))
    return lambda record: shape.line(bytes(DATA.decode(record).data))


def say(message: str) -> None:
    with messages() as err:
        err.write(f"topics: {message}\n")  # in one piece: threads write at once


def say_lost(name: str, reason: str, gap_from: int, gap_to: int, lost_from: int | None = None) -> None:
    if reason == "recreated":
        say(f"{name} was deleted and created again: it continues above seq {gap_to}")
    else:
        say(f"{name} lost records {gap_from} to {gap_to} ({reason})")
    if lost_from is not None and lost_from < gap_from:
        say(f"{name}: a crash of the server took back the printed records {lost_from} to {gap_from - 1}")


class PrintedTail:
    """Prints several topics, with a heading where the topic changes, like tail(1)."""

    def __init__(self, several: bool, line: Line, out: BinaryIO) -> None:
        self.seqs: dict[str, int] = {}  # last printed seq of each topic
        self.several = several
        self.line = line
        self.out = out
        self.heading = ""

    def print(self, name: str, records: Iterable[msgspec.Raw]) -> None:
        lines = b"".join(map(self.line, records))
        if lines and self.several and name != self.heading:
            self.out.write(b"==> %b <==\n" % name.encode())
            self.heading = name
        self.out.write(lines)
        self.out.flush()

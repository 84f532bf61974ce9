"""Numbers and texts for people, for the admin's pages and the shell's lines."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime


def amount(number: int) -> str:
    return f"{number:,}"


def counted(number: int, noun: str) -> str:
    """Returns the number with its noun: "1 task", "2 tasks"."""
    return f"{amount(number)} {noun}" if number == 1 else f"{amount(number)} {noun}s"


def first(names: Sequence[object], most: int) -> str:
    """Returns the first names, and a sign for the rest: "a, b, …"."""
    return ", ".join([*map(str, names[:most]), *(["…"] if len(names) > most else [])])


def waits(number: int, noun: str) -> str:
    """Returns who waits: "1 record waits", "2 records wait"."""
    return f"{counted(number, noun)} {'waits' if number == 1 else 'wait'}"


def sentence(text: str) -> str:
    """Returns the message of an error as a sentence."""
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."


def printable(text: str, most: int) -> str:
    """Returns at most `most` characters of a text of others, which can hold anything, and an ellipsis for the rest."""
    begin = "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in text[:most])
    return begin if len(text) <= most else f"{begin}…"


def size(count: int) -> str:
    """Returns a number of bytes in a unit from B to TB."""
    value = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:,.1f} TB"


def duration(ms: int) -> str:
    """Returns a time span in its two largest units."""
    seconds = max(ms, 0) / 1000
    minutes, hours = int(seconds) // 60, int(seconds) // 3600
    if seconds < 60:
        return f"{seconds:.1f} s"
    if hours == 0:
        return f"{minutes} min {int(seconds) % 60} s"
    if hours < 24:
        return f"{hours} h {minutes % 60} min"
    return f"{hours // 24} d {hours % 24} h"


def moment(ts: int | None) -> str | None:
    """Returns a time (ms since the epoch) as text in UTC, or None if there is no time."""
    return f"{datetime.fromtimestamp(ts / 1000, UTC):%Y-%m-%d %H:%M:%S}" if ts else None

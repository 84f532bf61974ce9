"""A number that somebody wrote, of those that PostgreSQL keeps as a bigint."""

from __future__ import annotations

DIGITS = 19  # of the largest one: Python refuses to read thousands, and nobody writes zeros before a number


def bigint(text: str) -> int | None:
    """The number from 0 to 2**63 - 1 that stands there in ASCII digits. None: it is none."""
    if not (text.isascii() and text.isdigit() and len(text) <= DIGITS):
        return None
    number = int(text)
    return number if number < 2**63 else None

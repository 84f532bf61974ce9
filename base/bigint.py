"""Parses decimal text into an integer that fits PostgreSQL's bigint."""

from __future__ import annotations

DIGITS = 19  # of 2**63 - 1. Python refuses to parse thousands of digits, and clients write no leading zeros.


def bigint(text: str) -> int | None:
    """Returns the number from 0 to 2**63 - 1 in ASCII digits, or None for any other text."""
    if not (text.isascii() and text.isdigit() and len(text) <= DIGITS):
        return None
    number = int(text)
    return number if number < 2**63 else None

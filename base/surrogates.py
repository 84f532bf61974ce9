"""Finds half of a UTF-16 surrogate pair that a JSON text escapes. A half is not a character."""

from __future__ import annotations

import re

# A backslash can itself be escaped: `\\ud800` is a backslash and five letters. So the pattern reads the body from its beginning
# to the first half, in one step. A body can have 30 million escapes, and an event loop waits for this match.
UP_TO_HALF = re.compile(
    rb"(?:[^\\]++|\\[^u]|\\u(?![dD][89a-fA-F]\w\w)|\\u[dD][89abAB]\w\w\\u[dD][c-fC-F]\w\w)*+(?P<half>\\u[dD][89a-fA-F]\w\w)"
)


def lone_surrogate(body: bytes) -> str | None:
    """Returns a message about the first escaped half of a UTF-16 pair in a body, with its position. Returns None without one.

    Many JSON readers refuse a half. msgspec refuses a half too, but with a message that does not help.
    """
    found = UP_TO_HALF.match(body)
    if found is None:
        return None
    return f"the JSON contains half a surrogate pair, {found['half'].decode()} (byte {found.start('half')})"

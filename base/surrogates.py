"""Half of a UTF-16 pair in JSON: escaped, it is no character."""

from __future__ import annotations

import re

# A backslash may itself be escaped: `\\ud800` is a backslash and five letters. So a body is read from its beginning, up to the
# first half, in one step: it may have 30 million escapes, and an event loop waits for this.
UP_TO_HALF = re.compile(
    rb"(?:[^\\]++|\\[^u]|\\u(?![dD][89a-fA-F]\w\w)|\\u[dD][89abAB]\w\w\\u[dD][c-fC-F]\w\w)*+(?P<half>\\u[dD][89a-fA-F]\w\w)"
)


def lone_surrogate(body: bytes) -> str | None:
    """Where a body escapes half of a UTF-16 pair, which is no character and which many JSON readers refuse, as ours does
    (saying of it what does not help). None: nowhere."""
    found = UP_TO_HALF.match(body)
    if found is None:
        return None
    return f"the JSON escapes half a surrogate pair, {found['half'].decode()} (byte {found.start('half')})"

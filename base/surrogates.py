"""Half of a UTF-16 pair in JSON: escaped, it is no character."""

from __future__ import annotations

import re

# A backslash may itself be escaped: `\\ud800` is a backslash and five letters.
SURROGATES = re.compile(
    rb"(?P<other>\\[^u]|\\u(?![dD][89a-fA-F]))|(?P<pair>\\u[dD][89abAB]\w\w\\u[dD][c-fC-F]\w\w)|(?P<lone>\\u[dD][89a-fA-F]\w\w)"
)


def lone_surrogate(body: bytes) -> str | None:
    """Where a body escapes half of a UTF-16 pair, which is no character and which many JSON readers refuse, as ours does
    (saying of it what does not help). None: nowhere."""
    for found in SURROGATES.finditer(body):
        if found["lone"]:
            return f"the JSON escapes half a surrogate pair, {found['lone'].decode()} (byte {found.start()})"
    return None

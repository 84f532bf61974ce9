"""The bound for the depth of the JSON that clients send, at every way in (docs/wire.md). json_is_deep in topics/sql/functions/
has the same bound for records that come through SQL.

Readers decode recursively. A reader that fails at a record could hold up the readers of other records. So the bound is far below
what every reader can decode (`READ_DEPTH`), and records from releases without the bound can be read, too.
"""

from __future__ import annotations

import re
from itertools import accumulate

from base.errors import InvalidRequest

MOST_DEPTH = 128  # arrays and objects within one another
OLD_DEPTH = 960  # what releases up to 0.3.0 accepted. An operator's copy of a topic keeps such records
READ_DEPTH = 3000  # Python's limit of recursion in our processes (topics_project/__init__.py)
SHALLOW_BYTES = 2 * MOST_DEPTH + 1  # a value with so few bytes is not too deep: each level has two brackets
NO_MARKS = bytes(code for code in range(256) if code not in b'[]{}"')
STRING = re.compile(rb'"[^"]*"')
STEPS = bytes({ord("["): 1, ord("{"): 1, ord("]"): 255, ord("}"): 255}.get(code, 0) for code in range(256))


def check_depth(what: str, json: bytes, most: int = MOST_DEPTH) -> None:
    """Raises InvalidRequest if a JSON value has more than `most` levels, at least MOST_DEPTH. `json` must be valid."""
    if len(json) <= SHALLOW_BYTES:
        return
    opening = len(json) - len(json.replace(b"[", b"").replace(b"{", b""))  # faster than count()
    if opening <= MOST_DEPTH:
        return
    found = depth(json)
    if found > most:
        raise too_deep(what, f"has {found} levels of arrays and objects", most)


def too_deep(what: str, told: str = "is nested too deeply", most: int = MOST_DEPTH) -> InvalidRequest:
    return InvalidRequest(f"{what} {told}: expected at most {most} levels", max_depth=most)


def depth(json: bytes) -> int:
    """Returns the number of levels of a valid JSON value: 0 for a number."""
    # Without escaped quotes, the number of quotes before a bracket says whether the bracket is in a string.
    marks = json.replace(b"\\\\", b"").replace(b'\\"', b"").translate(None, NO_MARKS).replace(b'""', b"")
    brackets = STRING.sub(b"", marks)
    return max(accumulate(memoryview(brackets.translate(STEPS)).cast("b")), default=0)

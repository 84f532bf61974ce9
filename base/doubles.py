"""Finds numbers of JSON beyond the range of a 64-bit double, such as 1e400. Parsers read infinity, or refuse the whole text.

json_overflow in topics/sql/functions/ finds the same numbers in records that come through SQL.
"""

from __future__ import annotations

import re
from math import isinf

from base.errors import InvalidRequest

# A number beyond the range has an exponent without a minus, or 309 digits in a row. Few values have either, also in strings.
EXPONENT = re.compile(rb"[0-9][eE]\+?[0-9]")
MANY_DIGITS, ZEROS = b"0" * 309, bytes.maketrans(b"123456789", b"0" * 9)
TEXT = rb'"(?:[^"\\]++|\\.)*+"'
NUMBER = rb"-?[0-9]++(?:\.[0-9]++)?+(?:[eE][+-]?+[0-9]++)?+"
NUMBERS = re.compile(rb"%b|(%b)" % (TEXT, NUMBER))  # the group is empty for a string
TOKENS = re.compile(rb"%b|%b|[\[\]{},:]" % (TEXT, NUMBER))
PLAIN = re.compile(rb'"[A-Za-z_][A-Za-z0-9_]*"')  # a key that stands in a path without quotes
MOST_PATH = 256  # characters of a path in a message. A key can have a MiB


def overflows(json: bytes) -> bool:
    """Returns whether a number is beyond the range of a double. `json`: valid JSON values, with commas between them."""
    if EXPONENT.search(json) is None and MANY_DIGITS not in json.translate(ZEROS):
        return False
    return any(isinf(float(each)) for each in NUMBERS.findall(json) if each)


def overflow(json: bytes) -> str | None:
    """Returns the path of the first number beyond the range of a double, or None. `json`: a valid JSON value.

    The path is `.amounts[2]` or `["a key"][0]`, with keys as they are written, and empty for a value that is a number.
    """
    steps: list[int | bytes] = []  # in each array and object around: the index or the key
    text = b""
    for found in TOKENS.finditer(json):
        match token := found[0]:
            case b"[":
                steps.append(0)
            case b"{":
                steps.append(b"")
            case b"]" | b"}":
                steps.pop()
            case b",":
                last = steps[-1]
                if isinstance(last, int):
                    steps[-1] = last + 1
            case b":":
                steps[-1] = text
            case _ if token.startswith(b'"'):
                text = token
            case _ if isinf(float(token)):
                path = "".join(map(shown, steps))
                return path if len(path) <= MOST_PATH else f"{path[:MOST_PATH]}…"
    return None


def shown(step: int | bytes) -> str:
    """Returns an index or a key as a step of a path."""
    if isinstance(step, int):
        return f"[{step}]"
    return f".{step[1:-1].decode()}" if PLAIN.fullmatch(step) else f"[{step.decode()}]"


def beyond_double(field: str, index: int) -> InvalidRequest:
    """Returns the error of a number, by its path in the request and the index of its record."""
    return InvalidRequest(
        f'{field} is beyond the range of a double, and the topic has numbers "double": send the number as a string',
        field=field,
        index=index,
    )

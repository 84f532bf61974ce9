"""JSON values as the raw text that a client may send: odd ones that a server must keep, and broken ones that it must refuse."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

# Values that every way has to deliver as the bytes that they are.
KEPT = [
    b"null", b"true", b"-0", b"0.0", b"1.0E+05", b"1e-7", b"1E400", b"9007199254740993", b"1" * 3000, b'""',
    rb'"\u0000"', rb'{"\u0000":"\u0000"}', rb'"\ud83d\ude00"', '"\U0001f600"'.encode(), rb'"\/"', rb'"\u2028"',
    '"\u2028 \ufffe"'.encode(), b'{"a":1,"a":2}', b'{"":{"":[[[]]]}}', b'{"x" : [ 1 ,\t2 ]\r\n}', b"[" * 100 + b"]" * 100,
    b"[" * 127 + b"]" * 127, b'{"a":' * 60 + b"[" * 67 + b"]" * 67 + b"}" * 60, b"[" + b'[{"[":"{"}],' * 40 + b"0]",
    b'"' + rb'[{\\\"[' * 45 + b'"', b'["' + rb'\\",[],"\"' * 66 + b'"]',
    b'"<script>alert(1)</script>"', b'"{{ 7 * 7 }} %s %(a)s"', b'{"$seq":1,"topic":"x","error":{}}',
    rb'{"_topics_router":{"router":"r"}}', b'"' + b"x" * 17_000 + b'"', b"[" + b"0," * 1500 + b"0]",
]  # fmt: skip
# More levels than 128, with brackets in strings.
DEEPER = [b"[" * 129 + b"]" * 129, b'{"]":' * 129 + b"1" + b"}" * 129, b'[["]"],' * 957 + b"1" + b"]" * 957]
# What is no JSON, or what the wire refuses by its rules: half a surrogate pair, too much depth.
REFUSED = [
    b"", b"nul", b"NaN", b"Infinity", b"01", b"+1", b".5", b"1.", b"'x'", b'"', b'"\x00"', b'"\n"', rb'"\x"', rb'"\u12"',
    b"[1,]", b"{1:2}", b'{"a"}', b"[", b"]", b'{"a":1', b'"\xff"', b'"\xed\xa0\x80"', rb'"\ud800"', rb'["\udc00\ud800"]',
    b"[" * 100_000 + b"]" * 100_000, b"1 2", *DEEPER,
]  # fmt: skip
SPACE = st.sampled_from([b"", b"", b"", b" ", b"\n", b"\t", b"\r\n  "])


def escaped(text: str) -> bytes:
    """A string in one of its spellings."""
    return json.dumps(text, ensure_ascii=len(text) % 2 == 0).encode("utf-8", "surrogatepass")


STRINGS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20).map(escaped)
NUMBERS = st.one_of(
    st.integers().map(lambda number: str(number).encode()),
    st.floats(allow_nan=False, allow_infinity=False).map(lambda number: repr(number).encode()),
    st.from_regex(rb"-?(0|[1-9][0-9]{0,30})(\.[0-9]{1,20})?([eE][+-]?[0-9]{1,3})?", fullmatch=True),
)


def spaced(parts: list[Any], opening: bytes, closing: bytes) -> st.SearchStrategy[bytes]:
    """The parts with commas, and white space of every kind between the tokens."""
    return st.lists(SPACE, min_size=2 * len(parts) + 1, max_size=2 * len(parts) + 1).map(
        lambda space: (
            opening
            + b",".join(space[2 * n] + part + space[2 * n + 1] for n, part in enumerate(parts))
            + space[-1]
            + closing
        )
    )


def containers(inner: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    lists = st.lists(inner, max_size=4).flatmap(lambda parts: spaced(parts, b"[", b"]"))
    pairs = st.tuples(STRINGS, SPACE, inner).map(lambda pair: pair[0] + pair[1] + b":" + pair[2])
    return lists | st.lists(pairs, max_size=4).flatmap(lambda parts: spaced(parts, b"{", b"}"))


VALUES = st.one_of(
    st.sampled_from(KEPT),
    st.recursive(st.sampled_from([b"null", b"true"]) | STRINGS | NUMBERS, containers, max_leaves=12),
)

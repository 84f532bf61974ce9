"""Statements and values as libpq (psycopg.pq) takes and gives them: psycopg's cursors take longer than most of our statements.

Statements are written as for psycopg (`%s` or `%(name)s`). Arguments go as text and without a type: the statement says what
they are.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import psycopg
from psycopg import pq

FINE = (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK, pq.ExecStatus.PIPELINE_SYNC)  # what is no refusal
LOADERS: dict[int, Callable[[bytes], Any]] = {
    16: b"t".__eq__,  # boolean
    20: int,  # bigint
    23: int,  # integer
}  # by type; what else the statements answer is text

Arguments = Sequence[Any] | Mapping[str, Any]
Rows = list[tuple[Any, ...]]


@functools.cache
def numbered(statement: str) -> tuple[bytes, list[str] | None]:
    """A statement with psycopg's placeholders as PostgreSQL wants it, and which argument each `$n` is (None: in order)."""
    names = list(dict.fromkeys(re.findall(r"%\((\w+)\)s", statement)))
    places = iter(range(1, statement.count("%s") + 1))
    text = re.sub(r"%\((\w+)\)s", lambda match: f"${names.index(match[1]) + 1}", statement)
    return re.sub("%s", lambda match: f"${next(places)}", text).replace("%%", "%").encode(), names or None


def dump(statement: str, arguments: Arguments) -> list[Any]:
    """A statement's arguments, in the order of its `$n`. Raises psycopg.DataError."""
    _, names = numbered(statement)
    wanted = arguments if names is None else [arguments[each] for each in names]  # type: ignore[call-overload]
    return [dumped(value) for value in wanted]


def dumped(value: Any) -> bytes | None:
    """An argument as PostgreSQL reads it. Raises psycopg.DataError for a NUL, at which libpq would cut the text off."""
    kind = type(value)  # most are of these two, and there are many
    if kind is int:
        return b"%d" % value
    if kind is not str:
        if value is None:
            return None
        if kind is bool:
            return b"t" if value else b"f"
        if kind is list:
            return b"{%b}" % b",".join(map(element, value))
        value = str(value)
    if "\0" in value:
        raise psycopg.DataError("a text holds a NUL character")
    return bytes(value, "utf-8")


def element(value: Any) -> bytes:
    """A value as it stands in an array."""
    if isinstance(value, str):
        value = '"{}"'.format(value.replace("\\", r"\\").replace('"', r"\""))
    return dumped(value) or b"NULL"


def refused(result: pq.abc.PGresult) -> psycopg.Error:
    """The error of a result that is no success. One without an SQLSTATE is not the server's but libpq's own, which says that
    the connection was lost."""
    error = psycopg.errors.error_from_result(result)
    return error if error.sqlstate else psycopg.OperationalError(str(error))


def load(result: pq.abc.PGresult) -> Rows:
    """The rows of a result."""
    if not result.ntuples:
        return []
    loaders, value_at = [LOADERS.get(result.ftype(n), bytes.decode) for n in range(result.nfields)], result.get_value
    found = []
    for row in range(result.ntuples):
        values = []
        for n, loaded in enumerate(loaders):
            value = value_at(row, n)
            values.append(None if value is None else loaded(value))
        found.append(tuple(values))
    return found

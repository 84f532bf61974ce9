"""Converts statements and values for libpq (psycopg.pq), because psycopg's cursors take longer than most of our statements.

Statements have psycopg's placeholders (`%s` or `%(name)s`). Arguments are sent as text without a type. The statement determines
their types.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import psycopg
from psycopg import pq

FINE = (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK, pq.ExecStatus.PIPELINE_SYNC)  # others are refusals
LOADERS: dict[int, Callable[[bytes], Any]] = {
    16: b"t".__eq__,  # boolean
    20: int,  # bigint
    23: int,  # integer
}  # by type. Values of all other types are text.

Arguments = Sequence[Any] | Mapping[str, Any]
Rows = list[tuple[Any, ...]]


@functools.cache
def numbered(statement: str) -> tuple[bytes, list[str] | None]:
    """Returns a statement with `$n` instead of psycopg's placeholders, and the argument name of each `$n` (None: by order)."""
    names = list(dict.fromkeys(re.findall(r"%\((\w+)\)s", statement)))
    places = iter(range(1, statement.count("%s") + 1))
    text = re.sub(r"%\((\w+)\)s", lambda match: f"${names.index(match[1]) + 1}", statement)
    return re.sub("%s", lambda match: f"${next(places)}", text).replace("%%", "%").encode(), names or None


def dump(statement: str, arguments: Arguments) -> list[Any]:
    """Returns a statement's arguments in the order of its `$n`. Raises psycopg.DataError."""
    _, names = numbered(statement)
    wanted = arguments if names is None else [arguments[each] for each in names]  # type: ignore[call-overload]
    return [dumped(value) for value in wanted]


def dumped(value: Any) -> bytes | None:
    """Returns an argument in PostgreSQL's text format. Raises psycopg.DataError for a NUL, where libpq would cut the text."""
    kind = type(value)  # int and str come first, because most arguments have these types
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
        raise psycopg.DataError("a text contains a NUL character: remove it")
    return bytes(value, "utf-8")


def element(value: Any) -> bytes:
    """Returns a value in the format of an array element."""
    if isinstance(value, str):
        value = '"{}"'.format(value.replace("\\", r"\\").replace('"', r"\""))
    return dumped(value) or b"NULL"


def refused(result: pq.abc.PGresult) -> psycopg.Error:
    """Returns the error of a refused result. An error without an SQLSTATE comes from libpq and means a lost connection."""
    error = psycopg.errors.error_from_result(result)
    return error if error.sqlstate else psycopg.OperationalError(str(error))


def load(result: pq.abc.PGresult) -> Rows:
    """Returns the rows of a result."""
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

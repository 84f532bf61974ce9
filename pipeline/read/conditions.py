"""Conditions on records that PostgreSQL evaluates: Spark's filters, and the filters of options.

Spark hands a Python source comparisons of a column with constants, joined by AND, and no OR.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from psycopg import sql
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    StringStartsWith,
)

OPERATORS: dict[type[Filter], str] = {
    EqualTo: "=",
    GreaterThan: ">",
    GreaterThanOrEqual: ">=",
    LessThan: "<",
    LessThanOrEqual: "<=",
    In: "= ANY",
    StringStartsWith: "^@",
    IsNull: "IS NULL",
    IsNotNull: "IS NOT NULL",
}
# Columns, and the types of their values.
PUSHED = {"seq": int, "ts": int, "ts_time": datetime, "tag": str, "node": str}
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SPECIAL = re.compile(r"[\\%_]")  # characters of a pattern of LIKE
MOST = 2**63 - 1  # of Spark and PostgreSQL


@dataclass(frozen=True)
class Condition:
    """A comparison that PostgreSQL evaluates."""

    column: str
    operator: str
    value: Any = None

    @property
    def bounds(self) -> tuple[int, int]:
        """Returns the least and the greatest number that can fulfil a condition on `seq` or `ts`."""
        if self.value is None:
            return 0, MOST
        values = self.value if self.operator == "= ANY" else [self.value]
        least = 0 if self.operator in ("<", "<=") else min(values, default=MOST)
        most = MOST if self.operator in (">", ">=") else max(values, default=0)
        return min(least + (self.operator == ">"), MOST), most - (self.operator == "<")

    def sql(self) -> sql.Composable:
        column = sql.Identifier(self.column)
        if self.operator in ("IS NULL", "IS NOT NULL"):
            return column + sql.SQL(f" {self.operator}")
        if self.operator in ("= ANY", "LIKE ANY"):
            return column + sql.SQL(f" {self.operator} ({{}})").format(sql.Literal(list(self.value)))
        return column + sql.SQL(f" {self.operator} {{}}").format(sql.Literal(self.value))


def condition(wanted: Filter) -> Condition | None:
    """Translates a Spark filter for PostgreSQL. Returns None if Spark must evaluate the filter itself."""
    operator = OPERATORS.get(type(wanted))
    path: tuple[str, ...] = getattr(wanted, "attribute", ())
    if operator is None or len(path) != 1 or path[0] not in PUSHED:
        return None
    if isinstance(wanted, IsNull | IsNotNull):
        return Condition("ts" if path[0] == "ts_time" else path[0], operator)
    values: Sequence[Any] = wanted.value if isinstance(wanted, In) else (wanted.value,)  # type: ignore[attr-defined]
    kind = PUSHED[path[0]]
    # PostgreSQL orders this text by bytes, like Spark. PostgreSQL text cannot contain NUL.
    if not all(isinstance(value, kind) and "\0" not in str(value) for value in values):
        return None
    if kind is datetime:
        return of_times(operator, values)
    return Condition(path[0], operator, tuple(values) if isinstance(wanted, In) else wanted.value)  # type: ignore[attr-defined]


def one_of(tags: Sequence[str]) -> Condition:
    """Returns the condition that a tag is one of these. A `*` at the end of a tag stands for any text."""
    return Condition(
        "tag",
        "LIKE ANY",
        tuple(SPECIAL.sub(r"\\\g<0>", tag.removesuffix("*")) + "%" * tag.endswith("*") for tag in tags),
    )


def of_times(operator: str, times: Sequence[datetime]) -> Condition:
    """Returns the condition on `ts`, in ms, for a comparison of `ts_time` with times, which are exact to the µs."""
    ms = [divmod((time - EPOCH) // timedelta(microseconds=1), 1000) for time in times]
    if operator in ("=", "= ANY"):
        return Condition("ts", "= ANY", tuple(whole for whole, rest in ms if not rest))  # no ts is between two ms
    whole, rest = ms[0]
    return Condition("ts", operator, whole + (rest > 0 and operator in (">=", "<")))

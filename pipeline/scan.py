"""Reads a range of a topic's seqs in a Python worker of Spark.

Yields Arrow batches of bounded size, by seq, from one snapshot.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import psycopg
import pyarrow as pa
from psycopg import IsolationLevel, sql
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    StringStartsWith,
)

from base.errors import NotReady
from pipeline.database import Database
from pipeline.extent import Extent, Part

SCHEMA = (
    "topic STRING, seq LONG, ts LONG, node STRING, tag STRING, meta STRING, data STRING, "
    "home_topic STRING, home_topic_id LONG, home_seq LONG, hops INT"
)
ARROW = pa.schema(
    [
        ("topic", pa.string()),
        ("seq", pa.int64()),
        ("ts", pa.int64()),
        ("node", pa.string()),
        ("tag", pa.string()),
        ("meta", pa.string()),
        ("data", pa.string()),
        ("home_topic", pa.string()),
        ("home_topic_id", pa.int64()),
        ("home_seq", pa.int64()),
        ("hops", pa.int32()),
    ]
)
# Reads a topic's range by index and in order. For own records the index already has this order.
READ = """
SELECT topic, seq, ts, node, tag, meta::text, data::text, home_topic, home_topic_id, home_seq, cardinality(path)
  FROM topic_log_range({topic}, {first}, {last}) log
 WHERE {conditions}
 ORDER BY seq
"""
CHECK = "SELECT pipeline_check(%s, %s, %s, %s)"
# Selects the reason of a loss, and the first seq that a crash took from the reader.
LOSS = "SELECT pipeline_loss(%s, %s, %s, %s), topic_lost_from(%s, %s)"
MOST_ROWS = 2_000  # rows per batch
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
PUSHED = {"seq": int, "ts": int, "tag": str, "node": str}  # columns, and the types of their values


class DataLoss(NotReady):
    """Records that a query was to read no longer exist."""


@dataclass(frozen=True)
class Condition:
    """A comparison that PostgreSQL evaluates."""

    column: str
    operator: str
    value: Any = None

    def sql(self) -> sql.Composable:
        column = sql.Identifier(self.column)
        if self.operator in ("IS NULL", "IS NOT NULL"):
            return column + sql.SQL(f" {self.operator}")
        if self.operator == "= ANY":
            return column + sql.SQL(" = ANY ({})").format(sql.Literal(list(self.value)))
        return column + sql.SQL(f" {self.operator} {{}}").format(sql.Literal(self.value))


def condition(wanted: Filter) -> Condition | None:
    """Translates a Spark filter for PostgreSQL. Returns None if Spark must evaluate the filter itself."""
    operator = OPERATORS.get(type(wanted))
    path: tuple[str, ...] = getattr(wanted, "attribute", ())
    if operator is None or len(path) != 1 or path[0] not in PUSHED:
        return None
    if isinstance(wanted, IsNull | IsNotNull):
        return Condition(path[0], operator)
    values: Sequence[Any] = wanted.value if isinstance(wanted, In) else (wanted.value,)  # type: ignore[attr-defined]
    kind = PUSHED[path[0]]
    # PostgreSQL orders this text by bytes, like Spark. PostgreSQL text cannot contain NUL.
    if not all(isinstance(value, kind) and "\0" not in str(value) for value in values):
        return None
    return Condition(path[0], operator, tuple(values) if isinstance(wanted, In) else wanted.value)  # type: ignore[attr-defined]


@dataclass
class Range(InputPartition):
    """Seqs first..last of a topic. `floor` is the topic's floor at planning."""

    topic: str
    topic_id: int
    floor: int
    first: int
    last: int
    rows: int  # rows per batch


def planned(topic: Extent, parts: Iterable[Part]) -> list[Range]:
    return [
        Range(topic.name, topic.id, topic.floor, part.first, part.last, min(part.fetch, MOST_ROWS)) for part in parts
    ]


@dataclass(frozen=True)
class Scan:
    """How to read ranges: the database, the filters, and the handling of losses.

    `follows`: True for a stream, which fails at tombstones but not at deletes.
    """

    database: Database
    fail_on_data_loss: bool
    follows: bool = False
    conditions: list[Condition] = field(default_factory=list)
    without_nodes: tuple[str, ...] = ()

    def read(self, part: Range) -> Iterator[pa.RecordBatch]:
        """Yields the records of a range. Raises DataLoss, unless losses are accepted."""
        conditions: list[sql.Composable] = [sql.SQL("true"), *(each.sql() for each in self.conditions)]
        if self.without_nodes:
            nodes = sql.Literal(list(self.without_nodes))
            conditions.append(sql.SQL("(node IS NULL OR node <> ALL ({}))").format(nodes))
        # All values are literals, because with parameters a percent sign in a literal would be misread.
        ends = {"topic": sql.Literal(part.topic), "first": sql.Literal(part.first), "last": sql.Literal(part.last)}
        statement = sql.SQL(READ).format(**ends, conditions=sql.SQL(" AND ").join(conditions))
        with self.database.connect() as connection:
            connection.autocommit = False
            connection.isolation_level = IsolationLevel.REPEATABLE_READ  # the check and the rows use one snapshot
            connection.read_only = True
            if self.fail_on_data_loss:
                self.check(connection, part)
            with connection.cursor(name="topics") as cursor:
                cursor.execute(statement)
                while rows := cursor.fetchmany(part.rows):
                    columns = zip(*rows, strict=True)
                    arrays = [pa.array(column, kind.type) for column, kind in zip(columns, ARROW, strict=True)]
                    yield pa.RecordBatch.from_arrays(arrays, schema=ARROW)

    def check(self, connection: psycopg.Connection[Any], part: Range) -> None:
        """Raises DataLoss if records of the range were lost."""
        if self.follows:
            check_loss(connection, part.topic, part.topic_id, part.first - 1, part.last)
            return
        try:
            connection.execute(CHECK, [part.topic, part.topic_id, part.floor, part.first])
        except psycopg.DataError as error:
            raise DataLoss(f"{error.diag.message_primary}; failOnDataLoss=false accepts that") from error


def check_loss(connection: psycopg.Connection[Any], topic: str, topic_id: int, after: int, upto: int) -> None:
    """Raises DataLoss if a reader at `after` would get a tombstone before `upto`."""
    row = connection.execute(LOSS, [topic, topic_id, after, upto, topic_id, after]).fetchone()
    if row is not None and row[0] is not None:
        if row[0] in ("restart", "mixed") and row[1] <= after:
            raise DataLoss(
                f"topic {topic} lost records above seq {after} ({row[0]}), and a crash of PostgreSQL took back what the query "
                f"read from seq {row[1]} on: undo its effects. failOnDataLoss=false accepts the loss and continues"
            )
        what = {"deleted": "was deleted", "recreated": "was deleted and created again"}.get(
            row[0], f"lost records above seq {after} ({row[0]})"
        )
        raise DataLoss(f"topic {topic} {what}. failOnDataLoss=false accepts the loss and continues")

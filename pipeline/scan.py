"""A range of a topic's seqs, read by a Python worker of Spark's: Arrow batches of bounded size, by seq, from one snapshot."""

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
# Of a topic's range, by index; in order, which for own records is the index's.
READ = """
SELECT topic, seq, ts, node, tag, meta::text, data::text, home_topic, home_topic_id, home_seq, cardinality(path)
  FROM topic_log_range({topic}, {first}, {last}) log
 WHERE {conditions}
 ORDER BY seq
"""
CHECK = "SELECT pipeline_check(%s, %s, %s, %s)"
# Why a reader is told of a loss, and where a loss by a crash begins for it.
LOSS = "SELECT pipeline_loss(%s, %s, %s, %s), topic_lost_from(%s, %s)"
MOST_ROWS = 2_000  # of a batch
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
PUSHED = {"seq": int, "ts": int, "tag": str, "node": str}  # columns, and what they are compared with


class DataLoss(NotReady):
    """Records that a query was to read are gone."""


@dataclass(frozen=True)
class Condition:
    """A comparison that PostgreSQL makes."""

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
    """A filter of Spark's as PostgreSQL makes it; None for one that Spark has to make itself."""
    operator = OPERATORS.get(type(wanted))
    path: tuple[str, ...] = getattr(wanted, "attribute", ())
    if operator is None or len(path) != 1 or path[0] not in PUSHED:
        return None
    if isinstance(wanted, IsNull | IsNotNull):
        return Condition(path[0], operator)
    values: Sequence[Any] = wanted.value if isinstance(wanted, In) else (wanted.value,)  # type: ignore[attr-defined]
    kind = PUSHED[path[0]]
    # PostgreSQL orders text by bytes here, as Spark does, but holds no NUL.
    if not all(isinstance(value, kind) and "\0" not in str(value) for value in values):
        return None
    return Condition(path[0], operator, tuple(values) if isinstance(wanted, In) else wanted.value)  # type: ignore[attr-defined]


@dataclass
class Range(InputPartition):
    """Seqs first..last of a topic; `floor` is the topic's when this was planned."""

    topic: str
    topic_id: int
    floor: int
    first: int
    last: int
    rows: int  # of a batch


def planned(topic: Extent, parts: Iterable[Part]) -> list[Range]:
    return [
        Range(topic.name, topic.id, topic.floor, part.first, part.last, min(part.fetch, MOST_ROWS)) for part in parts
    ]


@dataclass(frozen=True)
class Scan:
    """How ranges are read: from where, and what of them. `follows`: for a stream, which is told of tombstones and no deletes."""

    database: Database
    fail_on_data_loss: bool
    follows: bool = False
    conditions: list[Condition] = field(default_factory=list)
    without_nodes: tuple[str, ...] = ()

    def read(self, part: Range) -> Iterator[pa.RecordBatch]:
        """The records of a range. Raises DataLoss, unless that is accepted."""
        conditions: list[sql.Composable] = [sql.SQL("true"), *(each.sql() for each in self.conditions)]
        if self.without_nodes:
            nodes = sql.Literal(list(self.without_nodes))
            conditions.append(sql.SQL("(node IS NULL OR node <> ALL ({}))").format(nodes))
        # All of it literals: where there are parameters as well, a percent sign in one would be none.
        ends = {"topic": sql.Literal(part.topic), "first": sql.Literal(part.first), "last": sql.Literal(part.last)}
        statement = sql.SQL(READ).format(**ends, conditions=sql.SQL(" AND ").join(conditions))
        with self.database.connect() as connection:
            connection.autocommit = False
            connection.isolation_level = IsolationLevel.REPEATABLE_READ  # the look and the rows are of one moment
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
        """Raises DataLoss when some of the range is gone."""
        if self.follows:
            check_loss(connection, part.topic, part.topic_id, part.first - 1, part.last)
            return
        try:
            connection.execute(CHECK, [part.topic, part.topic_id, part.floor, part.first])
        except psycopg.DataError as error:
            raise DataLoss(f"{error.diag.message_primary}; failOnDataLoss=false accepts that") from error


def check_loss(connection: psycopg.Connection[Any], topic: str, topic_id: int, after: int, upto: int) -> None:
    """Raises DataLoss when a reader behind `after` is told of a tombstone on its way to `upto`."""
    row = connection.execute(LOSS, [topic, topic_id, after, upto, topic_id, after]).fetchone()
    if row is not None and row[0] is not None:
        if row[0] in ("restart", "mixed") and row[1] <= after:
            raise DataLoss(
                f"topic {topic} lost records above seq {after} ({row[0]}), and a crash of PostgreSQL took back what the query "
                f"read from seq {row[1]} on: undo that; failOnDataLoss=false accepts it, and goes on with what is there"
            )
        what = {"deleted": "was deleted", "recreated": "was deleted and created again"}.get(
            row[0], f"lost records above seq {after} ({row[0]})"
        )
        raise DataLoss(f"topic {topic} {what}; failOnDataLoss=false accepts that, and goes on with what is there")

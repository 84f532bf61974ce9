"""Reads a range of a topic's seqs in a Python worker of Spark.

Yields Arrow batches of bounded size, by seq, from one snapshot. PostgreSQL's binary COPY becomes Arrow in C (ADBC), so no value
becomes a Python object.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from psycopg import sql
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
from pipeline.columns import ARROW
from pipeline.database import Database
from pipeline.extent import ONE, Extent, Part
from topics.ranges import OWN_RECORDS

if TYPE_CHECKING:
    from pipeline.snapshot import Session

EXPRESSIONS = {"hops": "cardinality(path)"}
# Columns that follow from the part and other columns, if all records of the part are the topic's own.
OWN = frozenset(("topic", "home_topic", "home_topic_id", "home_seq", "hops"))
# Reads a topic's range by index and in order.
READ = """
SELECT {columns} FROM topic_log_range({topic}, {first}, {last}) log WHERE {conditions} ORDER BY seq
"""
CHECK = "SELECT pipeline_check({topic}, {id}, {floor}, {first})"
# Selects the reason of a loss, and the first seq that a crash took from the reader.
LOSS = "SELECT pipeline_loss({topic}, {id}, {after}, {upto}), topic_lost_from({id}, {after})"
MOST_SEQS = 100_000  # per batch of generated seqs
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


Ask = Callable[[sql.Composed], Sequence[Any]]  # returns the row of a statement


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
    """Seqs first..last of a topic. `floor` and `holes` are the topic's at planning."""

    topic: str
    topic_id: int
    floor: int
    holes: int
    first: int
    last: int

    @property
    def own(self) -> bool:
        """Whether all records are the topic's own: routers write only at or below `holes`, and new seqs are above `last`."""
        return self.first > self.holes


def planned(topic: Extent, parts: Iterable[Part]) -> list[Range]:
    return [Range(topic.name, topic.id, topic.floor, topic.holes, part.first, part.last) for part in parts]


@dataclass(frozen=True)
class Scan:
    """How to read ranges: the database, the columns, the filters, and the handling of losses.

    `follows`: True for a stream, which fails at tombstones but not at deletes.
    """

    database: Database
    columns: tuple[str, ...]
    fail_on_data_loss: bool
    follows: bool = False
    conditions: list[Condition] = field(default_factory=list)
    without_nodes: tuple[str, ...] = ()

    def read(self, part: Range) -> Iterator[pa.RecordBatch]:
        """Yields the records of a range. Raises DataLoss, unless losses are accepted."""
        if self.wants_seqs_only and self.is_whole(part):
            for batch in consecutive(part):
                yield self.completed(batch, part)
            return
        from pipeline.snapshot import snapshot  # a process that only plans reads does not load ADBC

        with snapshot(self.database) as session:
            if self.fail_on_data_loss:
                self.check(session, part)
            for batch in session.batches(self.statement(part)):
                yield self.completed(batch, part)

    @property
    def wants_seqs_only(self) -> bool:
        """Whether the wanted columns of a topic's own records follow from their seqs."""
        filtered = bool(self.conditions or self.without_nodes)
        return not filtered and OWN.issuperset(set(self.columns) - {"seq"})

    def is_whole(self, part: Range) -> bool:
        """Whether every seq of the part now has a record of the topic's own. Such a part has lost nothing.

        The head tells it in one row. The first connection for Arrow of a worker takes more than ten times as long as this row.
        """
        if not part.own:
            return False
        with self.database.connect() as connection:
            row = connection.execute(ONE, [part.topic]).fetchone()
        now = Extent(*row) if row else None
        return now is not None and now.id == part.topic_id and now.floor < part.first and now.holes < part.first

    def statement(self, part: Range) -> sql.Composed:
        """Returns the query of a range. All values are literals, because the statement has no parameters."""
        conditions: list[sql.Composable] = [sql.SQL("true"), *(each.sql() for each in self.conditions)]
        if self.without_nodes:
            nodes = sql.Literal(list(self.without_nodes))
            conditions.append(sql.SQL("(node IS NULL OR node <> ALL ({}))").format(nodes))
        columns = sql.SQL(", ").join(sql.SQL(EXPRESSIONS.get(name, name)) for name in self.stored(part))
        return sql.SQL(OWN_RECORDS if part.own else READ).format(
            columns=columns,
            topic=sql.Literal(part.topic),
            id=sql.Literal(part.topic_id),
            first=sql.Literal(part.first),
            last=sql.Literal(part.last),
            conditions=sql.SQL(" AND ").join(conditions),
        )

    def stored(self, part: Range) -> list[str]:
        """Returns the columns to ask for. `completed` makes all others from these."""
        wanted = {
            "ts" if name == "ts_time" else "seq" if name == "home_seq" and part.own else name for name in self.columns
        }
        return [name for name in ARROW if name in wanted and not (part.own and name in OWN)] or ["seq"]

    def completed(self, batch: pa.RecordBatch, part: Range) -> pa.RecordBatch:
        """Returns a batch with all wanted columns in their order."""
        held = dict(zip(self.stored(part), batch.columns, strict=True))
        fixed = {"topic": part.topic, "home_topic": part.topic, "home_topic_id": part.topic_id, "hops": 0}
        arrays = []
        for name in self.columns:
            kind = ARROW[name]
            if name == "ts_time":
                array = pc.multiply(held["ts"], 1000).cast(kind)
            elif name == "home_seq" and part.own:
                array = held["seq"]
            elif name in held:
                array = held[name].cast(kind)  # Arrow's JSON is text
            else:
                array = pa.repeat(pa.scalar(fixed[name], kind), batch.num_rows)
            arrays.append(array)
        return pa.RecordBatch.from_arrays(arrays, schema=pa.schema([(name, ARROW[name]) for name in self.columns]))

    def check(self, session: Session, part: Range) -> None:
        """Raises DataLoss if records of the range were lost."""
        if self.follows:
            check_loss(session.row, part.topic, part.topic_id, part.first - 1, part.last)
            return
        wanted = {"topic": part.topic, "id": part.topic_id, "floor": part.floor, "first": part.first}
        told = session.refusal(sql.SQL(CHECK).format(**{name: sql.Literal(value) for name, value in wanted.items()}))
        if told is not None:
            raise DataLoss(f"{told}; failOnDataLoss=false accepts that")


def consecutive(part: Range) -> Iterator[pa.RecordBatch]:
    """Yields the seqs of a part without holes."""
    for first in range(part.first, part.last + 1, MOST_SEQS):
        seqs = pa.array(range(first, min(first + MOST_SEQS, part.last + 1)), pa.int64())
        yield pa.RecordBatch.from_arrays([seqs], names=["seq"])


def check_loss(ask: Ask, topic: str, topic_id: int, after: int, upto: int) -> None:
    """Raises DataLoss if a reader at `after` would get a tombstone before `upto`."""
    wanted = {"topic": topic, "id": topic_id, "after": after, "upto": upto}
    row = ask(sql.SQL(LOSS).format(**{name: sql.Literal(value) for name, value in wanted.items()}))
    if row and row[0] is not None:
        if row[0] in ("restart", "mixed") and row[1] <= after:
            raise DataLoss(
                f"topic {topic} lost records above seq {after} ({row[0]}), and a crash of PostgreSQL took back what the query "
                f"read from seq {row[1]} on: undo its effects. failOnDataLoss=false accepts the loss and continues"
            )
        what = {"deleted": "was deleted", "recreated": "was deleted and created again"}.get(
            row[0], f"lost records above seq {after} ({row[0]})"
        )
        raise DataLoss(f"topic {topic} {what}. failOnDataLoss=false accepts the loss and continues")

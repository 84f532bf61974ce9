"""Reads a range of a topic's seqs in a Python worker of Spark.

Yields Arrow batches of bounded size, by seq, from one snapshot. PostgreSQL's binary COPY becomes Arrow in C (ADBC), so no value
becomes a Python object.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import psycopg
import pyarrow as pa
import pyarrow.compute as pc
from psycopg import sql
from pyspark.sql.datasource import InputPartition

from base.errors import NotReady
from pipeline.database import Database
from pipeline.read.columns import ARROW
from pipeline.read.conditions import Condition
from pipeline.read.extent import BY_NAMES, Extent, Part, divide
from topics.read.ranges import OWN_RECORDS

if TYPE_CHECKING:
    from pipeline.read.snapshot import SnapshotSession

EXPRESSIONS = {"hops": "cardinality(path)"}
# Columns that follow from the part and other columns, if all records of the part are the topic's own.
OWN = frozenset(("topic", "home_topic", "home_topic_id", "home_seq", "hops"))
# Reads a topic's range by index and in order.
READ = """
SELECT {columns} FROM topic_log_range({topic}, {first}, {last}) log WHERE {conditions} ORDER BY seq
"""
CHECK = """
SELECT bool_and(pipeline_check(topic, id, floor, first))
  FROM unnest({topics}::text[], {ids}::bigint[], {floors}::bigint[], {firsts}::bigint[]) part (topic, id, floor, first)
"""
# Selects the first of the readers that lost records: its topic and position, the reason, and the first seq that a crash took from
# it. OFFSET 0 keeps PostgreSQL from evaluating pipeline_loss twice.
LOSS = """
SELECT topic, after, why, topic_lost_from(id, after)
  FROM (SELECT *, pipeline_loss(topic, id, after, upto) AS why
          FROM unnest({topics}::text[], {ids}::bigint[], {afters}::bigint[], {uptos}::bigint[])
               WITH ORDINALITY reader (topic, id, after, upto, n) OFFSET 0) loss
 WHERE why IS NOT NULL ORDER BY n LIMIT 1
"""
SMALL = 5_000  # up to this many records one task is enough
MOST_SEQS = 100_000  # per batch of generated seqs


Ask = Callable[[sql.Composed], Sequence[Any]]  # returns the row of a statement


class DataLoss(NotReady):
    """Records that a query was to read no longer exist."""


@dataclass
class Range:
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


@dataclass
class ScanShare(InputPartition):
    """The ranges that one task reads, with one connection. The ranges of a topic are in order."""

    ranges: list[Range]


class ScanReader(NamedTuple):
    """A reader of a topic that continues after the seq `after`, and reads up to `upto`."""

    topic: str
    id: int
    after: int
    upto: int


def ranges(
    connection: psycopg.Connection[Any],
    topic: Extent,
    first: int,
    last: int,
    most: int,
    *,
    small: int = SMALL,
    counted: bool = False,
) -> list[Range]:
    """Divides first..last into at most `most` ranges with equal numbers of records.

    Up to `small` seqs are one range, which needs no statement, unless `counted`: then a range has at least one record.
    """
    if first > last:
        return []
    most = min(most, -(-(last - first + 1) // small))
    parts = [Part(first, last, last - first + 1)]
    if most > 1 or counted:
        parts = divide(connection, topic, first, last, most)
    return [Range(topic.name, topic.id, topic.floor, topic.holes, part.first, part.last) for part in parts]


def seq_ranges(topic: Extent, first: int, last: int, most: int) -> list[Range]:
    """Divides first..last into at most `most` ranges with equal numbers of seqs, whatever became of their records."""
    seqs = last - first + 1
    most = min(most, -(-seqs // SMALL))
    return [
        Range(
            topic.name, topic.id, topic.floor, topic.holes, first + seqs * n // most, first + seqs * (n + 1) // most - 1
        )
        for n in range(most)
    ]


def shares(found: Iterable[Range]) -> list[ScanShare]:
    """Puts ranges that follow each other into a share, up to SMALL seqs: the number of tasks depends on seqs, not on topics."""
    made: list[ScanShare] = []
    room = 0
    for each in found:
        room -= each.last - each.first + 1
        if room < 0:
            made.append(ScanShare([]))
            room = SMALL - (each.last - each.first + 1)
        made[-1].ranges.append(each)
    return made


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

    def read(self, share: ScanShare) -> Iterator[pa.RecordBatch]:
        """Yields the records of the ranges. Raises DataLoss, unless losses are accepted."""
        if self.wants_seqs_only and self.are_whole(share.ranges):
            for part in share.ranges:
                for batch in consecutive(part):
                    yield self.completed(batch, part)
            return
        from pipeline.read.snapshot import snapshot  # a process that only plans reads does not load ADBC

        with snapshot(self.database) as session:
            if self.fail_on_data_loss:
                self.check(session, share.ranges)
            for part in share.ranges:
                for batch in session.batches(self.statement(part)):
                    yield self.completed(batch, part)

    @property
    def wants_seqs_only(self) -> bool:
        """Whether the wanted columns of a topic's own records follow from their seqs."""
        filtered = bool(self.conditions or self.without_nodes)
        return not filtered and OWN.issuperset(set(self.columns) - {"seq"})

    def are_whole(self, parts: Sequence[Range]) -> bool:
        """Whether every seq of the parts now has a record of its topic's own. Such parts have lost nothing.

        The heads tell it, a row for each. The first connection for Arrow of a worker takes more than ten times as long as a row.
        """
        if not all(part.own for part in parts):
            return False
        with self.database.connect() as connection:
            rows = connection.execute(BY_NAMES, [[part.topic for part in parts]])
            heads = {topic.id: topic for topic in (Extent(*row) for row in rows)}
        return all(
            (now := heads.get(part.topic_id)) is not None and now.floor < part.first and now.holes < part.first
            for part in parts
        )

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

    def check(self, session: SnapshotSession, parts: Sequence[Range]) -> None:
        """Raises DataLoss if records of the ranges were lost."""
        if self.follows:
            check_loss(
                session.row, [ScanReader(part.topic, part.topic_id, part.first - 1, part.last) for part in parts]
            )
            return
        told = session.refusal(
            sql.SQL(CHECK).format(
                topics=sql.Literal([part.topic for part in parts]),
                ids=sql.Literal([part.topic_id for part in parts]),
                floors=sql.Literal([part.floor for part in parts]),
                firsts=sql.Literal([part.first for part in parts]),
            )
        )
        if told is not None:
            raise DataLoss(f"{told}; failOnDataLoss=false accepts that")


def consecutive(part: Range) -> Iterator[pa.RecordBatch]:
    """Yields the seqs of a part without holes."""
    for first in range(part.first, part.last + 1, MOST_SEQS):
        seqs = pa.array(range(first, min(first + MOST_SEQS, part.last + 1)), pa.int64())
        yield pa.RecordBatch.from_arrays([seqs], names=["seq"])


def check_loss(ask: Ask, readers: Sequence[ScanReader]) -> None:
    """Raises DataLoss if one of the readers would get a tombstone before its `upto`. One statement asks for all readers."""
    row = ask(
        sql.SQL(LOSS).format(
            topics=sql.Literal([reader.topic for reader in readers]),
            ids=sql.Literal([reader.id for reader in readers]),
            afters=sql.Literal([reader.after for reader in readers]),
            uptos=sql.Literal([reader.upto for reader in readers]),
        )
    )
    if not row:
        return
    topic, after, why, lost_from = row
    if why in ("restart", "mixed") and lost_from <= after:
        raise DataLoss(
            f"topic {topic} lost records above seq {after} ({why}), and a crash of PostgreSQL took back records that the query "
            f"had read, from seq {lost_from} on: undo its effects. failOnDataLoss=false accepts the loss and continues"
        )
    what = {"deleted": "was deleted", "recreated": "was deleted and created again"}.get(
        why, f"lost records above seq {after} ({why})"
    )
    raise DataLoss(f"topic {topic} {what}. failOnDataLoss=false accepts the loss and continues")

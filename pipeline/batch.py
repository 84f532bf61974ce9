"""Batch reads of the data source `topics`: plans ranges of seqs with equal numbers of records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from pipeline import stream
from pipeline.extent import divide, seq_at
from pipeline.options import Options
from pipeline.scan import Condition, Range, Scan, condition, planned
from pipeline.stream import SMALL

STREAMS_ONLY = {"maxRecordsPerTrigger", "cursor"}
OPTIONS = stream.OPTIONS - STREAMS_ONLY | {"endingSeq"}
MOST_TS = 2**63 - 1  # the maximum in Spark and PostgreSQL
MOST_SEQS = 1_000_000  # up to this many records that need no rows, one task is enough


def batch_reader(given: Mapping[str, str], columns: tuple[str, ...]) -> BatchReader:
    """Returns the reader for options. Raises InvalidRequest for an unknown option or an invalid value."""
    return BatchReader(Options(given, OPTIONS, dict.fromkeys(STREAMS_ONLY, "streams")), columns)


class BatchReader(DataSourceReader):
    """Reads the topics as they are at planning."""

    def __init__(self, given: Options, columns: tuple[str, ...]) -> None:
        self.selection = stream.Selection(given, starting="earliest")
        self.columns = columns
        self.ending = None if (given.text("endingSeq") or "").lower() == "latest" else given.number("endingSeq")
        self.conditions: list[Condition] = [*self.selection.conditions]

    @property
    def scan(self) -> Scan:
        chosen = self.selection
        return Scan(
            chosen.database, self.columns, chosen.fail_on_data_loss, False, self.conditions, chosen.without_nodes
        )

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        for wanted in filters:
            made = condition(wanted)
            if made is None:
                yield wanted
            else:
                self.conditions.append(made)

    def partitions(self) -> Sequence[InputPartition]:
        """Returns ranges with equal numbers of records for each topic. Filters on seq and ts narrow the ranges."""
        found: list[Range] = []
        for topic in self.selection.look().values():
            first = self.selection.start(topic) + 1
            last = topic.head if self.ending is None else min(topic.head, self.ending)
            with self.selection.database.connect() as connection:
                for made in self.conditions:
                    if made.column == "ts" and made.operator in (">", ">=", "="):
                        first = max(first, seq_at(connection, topic, made.value))
                    if made.column == "ts" and made.operator in ("<", "<=", "="):
                        last = min(last, seq_at(connection, topic, min(made.value + 1, MOST_TS)) - 1)
                    if made.column == "seq" and made.operator in (">", ">=", "="):
                        first = max(first, made.value)
                    if made.column == "seq" and made.operator in ("<", "<=", "="):
                        last = min(last, made.value)
                # A part that needs no rows is quick, so it may be larger.
                small = SMALL if first <= topic.holes or not self.scan.wants_seqs_only else MOST_SEQS
                most = min(self.selection.partitions, -(-(last - first + 1) // small))
                parts = divide(connection, topic, first, last, max(most, 1))
            found += planned(topic, parts)
        return found

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, Range):  # Spark passes its own partition if there is no range
            return iter(())
        return self.scan.read(partition)

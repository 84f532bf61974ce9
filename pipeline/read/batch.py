"""Batch reads of the data source `topics`: plans ranges of seqs with equal numbers of records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from pipeline.options import Options
from pipeline.read import stream
from pipeline.read.conditions import MOST, Condition, condition
from pipeline.read.extent import seq_at
from pipeline.read.scan import SMALL, Range, Scan, ScanReader, ScanShare, ranges, shares

STREAMS_ONLY = {"maxRecordsPerTrigger", "cursor"}
OPTIONS = stream.OPTIONS - STREAMS_ONLY | {"endingSeq"}
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
        """Returns ranges with equal numbers of records for each topic. Filters on seq and ts narrow the ranges.

        Raises DataLoss if the read continues after a seq, and records above the seq were lost.
        """
        (least, most), (oldest, newest) = self.bounds("seq"), self.bounds("ts")
        readers: list[ScanReader] = []
        found: list[Range] = []
        with self.selection.database.connect() as connection:
            for topic in self.selection.look(connection).values():
                first = max(self.selection.start(connection, topic) + 1, least)
                last = min(topic.head, most, topic.head if self.ending is None else self.ending)
                if self.selection.continues:
                    readers.append(ScanReader(topic.name, topic.id, first - 1, last))
                if oldest > 0:
                    first = max(first, seq_at(connection, topic, oldest))
                if newest < MOST:
                    last = min(last, seq_at(connection, topic, newest + 1) - 1)
                # A part that needs no rows is quick, so it may be larger.
                small = SMALL if first <= topic.holes or not self.scan.wants_seqs_only else MOST_SEQS
                found += ranges(connection, topic, first, last, self.selection.partitions, small=small)
            self.selection.check(connection, readers)
        return shares(found)

    def bounds(self, column: str) -> tuple[int, int]:
        """Returns the least and the greatest number in a column that all conditions together allow."""
        found = [made.bounds for made in self.conditions if made.column == column]
        return max((least for least, _ in found), default=0), min((most for _, most in found), default=MOST)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, ScanShare):  # Spark passes its own partition if there is no range
            return iter(())
        return self.scan.read(partition)

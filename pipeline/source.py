"""The data source `topics`: spark.read.format("topics"), spark.readStream.format("topics"), and both ways to write.

`pipeline.session.session()` makes a session with the source. In a session of your own, register the source with
`pipeline.session.register(spark)`, or with `spark.dataSource.register(Topics)`. The import of this module sets PYSPARK_PYTHON and
JAVA_HOME, if nobody did, for a Spark that starts later.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    Filter,
    InputPartition,
)
from pyspark.sql.types import StructType

from base.errors import InvalidRequest
from pipeline import stream
from pipeline.extent import divide, seq_at
from pipeline.java import use_this_machine
from pipeline.options import Options
from pipeline.scan import SCHEMA, Condition, Range, Scan, chosen_columns, condition, planned
from pipeline.sink import BATCH_OPTIONS, OPTIONS, BatchWriter, StreamWriter

STREAMS_ONLY = {"maxRecordsPerTrigger", "cursor"}
READ_OPTIONS = stream.OPTIONS - STREAMS_ONLY | {"endingSeq"}
use_this_machine()
MOST_TS = 2**63 - 1  # the maximum in Spark and PostgreSQL


class Topics(DataSource):
    """Reads one topic, or all topics with a prefix. Appends to one topic."""

    @classmethod
    def name(cls) -> str:
        return "topics"

    def schema(self) -> StructType:
        """Returns the columns of the option `columns`, by default all. Raises InvalidRequest for an unknown column."""
        wanted = [name.strip() for name in self.options.get("columns", "").split(",") if name.strip()]
        known = SCHEMA.fieldNames()
        if unknown := set(wanted) - set(known):
            raise InvalidRequest(f"no column is called {', '.join(sorted(unknown))}: there are {', '.join(known)}")
        return StructType([SCHEMA[name] for name in wanted]) if wanted else SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        given = Options(self.options, READ_OPTIONS, dict.fromkeys(STREAMS_ONLY, "streams"))
        return BatchReader(given, chosen_columns(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return stream.StreamReader(
            Options(self.options, stream.OPTIONS, {"endingSeq": "batch reads"}), chosen_columns(schema)
        )

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        if overwrite:
            raise InvalidRequest("a topic is appended to: use mode('append')")
        return BatchWriter(Options(self.options, BATCH_OPTIONS), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        if overwrite:
            raise InvalidRequest("a topic is appended to: use outputMode('append')")
        return StreamWriter(Options(self.options, OPTIONS), schema)


class BatchReader(DataSourceReader):
    """Reads the topics as they are at planning."""

    def __init__(self, given: Options, columns: tuple[str, ...]) -> None:
        self.selection = stream.Selection(given, starting="earliest")
        self.columns = columns
        self.ending = None if (given.text("endingSeq") or "").lower() == "latest" else given.number("endingSeq")
        self.conditions: list[Condition] = [*self.selection.conditions]

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
                parts = divide(connection, topic, first, last, self.selection.partitions)
            found += planned(topic, parts)
        return found

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, Range):  # Spark passes its own partition if there is no range
            return iter(())
        chosen = self.selection
        scan = Scan(
            chosen.database, self.columns, chosen.fail_on_data_loss, False, self.conditions, chosen.without_nodes
        )
        return scan.read(partition)

"""The sink of the data source `topics`. A query appends each record once, even if Spark retries a task.

The transaction of the append stores the writer, batch and partition (pipeline/written.py). Records of a partition keep their
order. Partitions are appended in the order in which they finish. The code runs in Spark's Python workers, which need the login of
a writer and nothing else of the site.
"""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StringType, StructType

from base.errors import InvalidRequest
from pipeline.chunks import COLUMNS, Bounds, chunks
from pipeline.database import Database
from pipeline.options import Options
from pipeline.written import LIMITS, Caps, Claim, append_whole

OPTIONS = {"dsn", "url", "topic"}
BATCH_OPTIONS = OPTIONS | {"writeId", "batch"}
ONCE = "once:"  # writers of unnamed batches; pipeline/tasks.py deletes their rows after 7 days


@dataclass
class Wrote(WriterCommitMessage):
    """How many records a task appended."""

    records: int


@dataclass(frozen=True)
class Target:
    """The database and the topic to append to, the bounds of a record, and the caps of all topics."""

    database: Database
    topic: str
    bounds: Bounds
    caps: Caps

    def append(self, writer: str, batch: int, incoming: Iterator[pa.RecordBatch]) -> Wrote:
        """Appends the records of a task. Raises TopicsError, which fails the query, if a retry would not help."""
        context = TaskContext.get()
        assert context is not None
        claim = Claim(self.topic, writer, context.partitionId(), batch)
        with self.database.connect() as connection, tempfile.TemporaryFile() as kept:
            connection.execute(LIMITS)
            # Store all records in a file first. Otherwise slow upstream code would keep the topic locked, and the next partition
            # would be read only after this one.
            made = chunks(spooled(incoming, kept), self.bounds)
            return Wrote(append_whole(connection, claim, made, self.caps))


def spooled(incoming: Iterator[pa.RecordBatch], file: object) -> Iterator[pa.RecordBatch]:
    """Returns the batches from a temporary file. The function writes all batches to the file first."""
    writer = None
    for batch in incoming:
        writer = writer or pa.ipc.new_stream(file, batch.schema)
        writer.write_batch(batch)
    if writer is None:
        return iter(())
    writer.close()
    file.seek(0)  # type: ignore[attr-defined]
    return iter(pa.ipc.open_stream(file))


def target(options: Options, schema: StructType) -> Target:
    """Returns the target of the options. Raises InvalidRequest for options or columns that cannot be written."""
    topic = options.text("topic")
    if topic is None:
        raise InvalidRequest("the option topic is missing: it names the topic to append to")
    for field in schema.fields:
        if field.name not in COLUMNS or not isinstance(field.dataType, StringType):
            raise InvalidRequest(
                f"column {field.name} ({field.dataType.simpleString()}) cannot be written: a record has {', '.join(COLUMNS)}, "
                "all of them strings; data and meta are JSON (to_json)"
            )
    if "data" not in schema.fieldNames():
        raise InvalidRequest("there is no column data")
    return Target(options.database(), topic, Bounds.of_environment(), Caps.of_environment())


def batch_writer(given: Mapping[str, str], schema: StructType) -> BatchWriter:
    """Returns the writer for options and columns. Raises InvalidRequest for options or columns that cannot be written."""
    return BatchWriter(Options(given, BATCH_OPTIONS), schema)


def stream_writer(given: Mapping[str, str], schema: StructType) -> StreamWriter:
    """Returns the writer of a streaming query. Raises InvalidRequest like `batch_writer`."""
    return StreamWriter(Options(given, OPTIONS), schema)


class StreamWriter(DataSourceStreamArrowWriter):
    """Writer of a streaming query. The writer's name is the query's id, which the checkpoint stores."""

    def __init__(self, given: Options, schema: StructType) -> None:
        self.target = target(given, schema)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Wrote:
        context = TaskContext.get()
        assert context is not None
        query = context.getLocalProperty("sql.streaming.queryId")
        batch = context.getLocalProperty("streaming.sql.batchId")
        if not query or not batch:
            raise InvalidRequest("Spark does not tell which query and batch this is: exactly once cannot be kept")
        return self.target.append(f"query:{query}", int(batch), iterator)


class BatchWriter(DataSourceArrowWriter):
    """Writer of a DataFrame.

    With `writeId`, the batch is written only once in all calls. Without `writeId`, each call writes once.
    """

    def __init__(self, given: Options, schema: StructType) -> None:
        self.target = target(given, schema)
        name, number = given.text("writeId"), given.number("batch")
        if number is not None and name is None:
            raise InvalidRequest("batch counts the writes of a writeId: give both")
        # The driver creates the name, so all attempts of all tasks of this write share the name.
        self.writer = f"{ONCE}{uuid.uuid4()}" if name is None else f"write:{name}"
        self.batch = number or 0

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Wrote:
        return self.target.append(self.writer, self.batch, iterator)

"""The sink of the data source `topics`: what a query writes is appended once, however often a part of it is tried.

What was written is kept for each writer, batch and partition in the transaction of the append (pipeline/written.py). Records of a
partition come in its order; partitions come as they are done. Runs in Spark's Python workers, which know nothing of the driver.
"""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StringType, StructType

from base.errors import InvalidRequest
from pipeline.options import Options
from pipeline.site import enter

if TYPE_CHECKING:
    from topics.records import NewRecord

OPTIONS = {"dsn", "url", "topic"}
BATCH_OPTIONS = OPTIONS | {"writeId", "batch", "inOrder"}
COLUMNS = ("data", "tag", "node", "meta")
ONCE = "once:"  # writers of batches that nobody named; their rows are dropped after a while (pipeline/tasks.py)


@dataclass
class Wrote(WriterCommitMessage):
    """How many records a task appended."""

    records: int


@dataclass(frozen=True)
class Target:
    """Where to, from which database."""

    dsn: str
    topic: str

    def append(self, writer: str, batch: int, incoming: Iterator[pa.RecordBatch], in_order: bool = False) -> Wrote:
        """Append what a task holds. Raises TopicsError: a reason that another try would not mend fails the query."""
        enter(self.dsn)
        from pipeline.written import Claim, append_in_order, append_whole

        context = TaskContext.get()
        assert context is not None
        claim = Claim(self.topic, writer, context.partitionId(), batch)
        if in_order:
            return Wrote(append_in_order(claim, records(incoming)))
        with tempfile.TemporaryFile() as kept:
            # First all of it here: whatever makes these records must not take its time while the topic is locked.
            return Wrote(append_whole(claim, records(spooled(incoming, kept))))


def spooled(incoming: Iterator[pa.RecordBatch], file: object) -> Iterator[pa.RecordBatch]:
    """The batches, from a file that holds all of them before the first comes out."""
    writer = None
    for batch in incoming:
        writer = writer or pa.ipc.new_stream(file, batch.schema)
        writer.write_batch(batch)
    if writer is None:
        return iter(())
    writer.close()
    file.seek(0)  # type: ignore[attr-defined]
    return iter(pa.ipc.open_stream(file))


def records(batches: Iterable[pa.RecordBatch]) -> Iterator[NewRecord]:
    """Rows as records. Raises InvalidRequest for data or meta that is no JSON."""
    import msgspec

    from topics.records import NO_META, NewRecord

    verbatim = msgspec.json.Decoder(msgspec.Raw)
    for batch in batches:
        columns = {name: batch.column(name).to_pylist() for name in batch.schema.names}
        absent = [None] * batch.num_rows
        rows = zip(*(columns.get(name, absent) for name in COLUMNS), strict=True)
        for data, tag, node, meta in rows:
            try:
                if data is None:
                    raise InvalidRequest("data is null: a record's data is JSON, which has a null of its own")
                yield NewRecord(
                    verbatim.decode(data.strip(" \t\r\n")),
                    tag,
                    node,
                    NO_META if meta is None else verbatim.decode(meta.strip(" \t\r\n")),
                )
            except msgspec.MsgspecError as error:
                raise InvalidRequest(f"{data[:80]!r} with meta {meta!r} is no JSON: {error}") from error


def target(options: Options, schema: StructType) -> Target:
    """Raises InvalidRequest for options or columns that cannot be written."""
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
    return Target(options.database().dsn, topic)


class StreamWriter(DataSourceStreamArrowWriter):
    """Writer of a streaming query: named by the query's id, which its checkpoint keeps."""

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
    """Writer of a DataFrame. With a `writeId` of its own a batch is written once, ever; without one, once a call."""

    def __init__(self, given: Options, schema: StructType) -> None:
        self.target = target(given, schema)
        name, number = given.text("writeId"), given.number("batch")
        if number is not None and name is None:
            raise InvalidRequest("batch counts the writes of a writeId: give both")
        # Made here, on the driver: all tries of all tasks of this write have the same.
        self.writer = f"{ONCE}{uuid.uuid4()}" if name is None else f"write:{name}"
        self.batch = number or 0
        self.in_order = given.flag("inOrder", False)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Wrote:
        return self.target.append(self.writer, self.batch, iterator, self.in_order)

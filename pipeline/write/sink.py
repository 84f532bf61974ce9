"""The sink of the data source `topics`. A query appends each record once, even if Spark retries a task.

The transaction of the append stores the writer, batch and partition (written.py). Records of a partition keep their
order. Partitions are appended in the order in which they finish. The code runs in Spark's Python workers, which need the login of
a writer and nothing else of the site.
"""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StringType, StructType

from base.errors import InvalidRequest
from base.names import check_topic_name
from pipeline.database import Database
from pipeline.options import Options
from pipeline.write.chunks import COLUMNS, Bounds, chunks
from pipeline.write.repeats import Repeat, look
from pipeline.write.written import LIMITS, Claim, append_whole

OPTIONS = {"dsn", "url", "topic"}
BATCH_OPTIONS = OPTIONS | {"writeId", "batch", "stablePartitions"}
ONCE = "once:"  # writers of unnamed batches; pipeline/tasks.py deletes their rows after 7 days
LONGEST_ID = 249  # characters of a writeId: with `write:` before it, it is a writer, a column of 255


@dataclass
class Wrote(WriterCommitMessage):
    """How many records a task appended, and the topics of its records."""

    records: int
    topics: tuple[str, ...] = ()


@dataclass(frozen=True)
class AppendTarget:
    """The database, the topic to append to, and the bounds of a record.

    `topic`: None if the column `topic` names the topic of each record.
    """

    database: Database
    topic: str | None
    bounds: Bounds

    def append(
        self, writer: str, batch: int, incoming: Iterator[pa.RecordBatch], repeat: Repeat | None = None
    ) -> Wrote:
        """Appends the records of a task. Raises TopicsError, which fails the query, if a retry would not help."""
        context = TaskContext.get()
        assert context is not None
        partition, done = context.partitionId(), 0
        with self.database.connect() as connection, tempfile.TemporaryFile() as file:
            connection.execute(LIMITS)
            # Store all records in a file first. Otherwise slow upstream code would keep the topic locked, and the next partition
            # would be read only after this one.
            kept = Spooled(incoming, file, self.topic)
            if repeat is not None:
                repeat.check(connection, partition, kept.records)
            for topic in kept.records:
                claim = Claim(topic, writer, partition, batch)
                done += append_whole(connection, claim, chunks(kept.of(topic), self.bounds))
            return Wrote(done, tuple(kept.records))


class Spooled:
    """The batches of a task in a temporary file. `records`: their numbers by topic."""

    def __init__(self, incoming: Iterator[pa.RecordBatch], file: Any, topic: str | None) -> None:
        """`topic`: of all records, or None if the column `topic` names it. Raises InvalidRequest for a record without a topic."""
        self.records: dict[str, int] = {}
        self.places: dict[str, list[int]] = {}  # the numbers of the batches that have records of a topic
        self.topic = topic
        writer = None
        for place, batch in enumerate(each for each in incoming if each.num_rows):
            writer = writer or pa.ipc.new_file(file, batch.schema)
            writer.write_batch(batch)
            for name, count in [(topic, batch.num_rows)] if topic is not None else topics_of(batch):
                self.records[name] = self.records.get(name, 0) + count
                self.places.setdefault(name, []).append(place)
        if writer is not None:
            writer.close()
            self.file = pa.ipc.open_file(file)

    def of(self, topic: str) -> Iterator[pa.RecordBatch]:
        """Yields the batches with the records of a topic."""
        for place in self.places[topic]:
            batch = self.file.get_batch(place)
            yield batch if self.topic is not None else batch.filter(pc.equal(batch["topic"], topic))


def topics_of(batch: pa.RecordBatch) -> list[tuple[str, int]]:
    """Returns the topics of a batch with the numbers of their records. Raises InvalidRequest for a record without a topic."""
    found = [(each["values"], each["counts"]) for each in pc.value_counts(batch["topic"]).to_pylist()]
    for name, _ in found:
        if name is None:
            raise InvalidRequest("topic is null: name a topic in each record, or give the option topic")
        check_topic_name(name)
    return found


def target(options: Options, schema: StructType) -> AppendTarget:
    """Returns the target of the options. Raises InvalidRequest for options or columns that cannot be written."""
    topic = options.text("topic")
    by_column = "topic" in schema.fieldNames()
    if topic is None and not by_column:
        raise InvalidRequest("the option topic is missing: it names the topic to append to. Or add a column topic")
    if topic is not None and by_column:
        raise InvalidRequest("the option topic and the column topic both name the topic: leave one out")
    known = ("topic", *COLUMNS)
    for field in schema.fields:
        if field.name not in known or not isinstance(field.dataType, StringType):
            raise InvalidRequest(
                f"column {field.name} ({field.dataType.simpleString()}) cannot be written: a record has {', '.join(known)}, "
                "all of them strings; data and meta are JSON (to_json)"
            )
    if "data" not in schema.fieldNames():
        raise InvalidRequest("there is no column data")
    return AppendTarget(options.database(), topic, Bounds.of_environment())


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

    With `writeId`, the batch is written only once in all calls (repeats.py). Without `writeId`, each call writes once.
    """

    def __init__(self, given: Options, schema: StructType) -> None:
        self.target = target(given, schema)
        name, number, is_stable = given.text("writeId"), given.number("batch"), given.flag("stablePartitions", False)
        if number is not None and name is None:
            raise InvalidRequest("batch counts the writes of a writeId: give both")
        if is_stable and name is None:
            raise InvalidRequest("stablePartitions says how a writeId is repeated: give both")
        if name is not None and len(name) > LONGEST_ID:
            raise InvalidRequest(f"writeId has {len(name)} characters: expected at most {LONGEST_ID}")
        # The driver creates the name, so all attempts of all tasks of this write share the name.
        self.writer = f"{ONCE}{uuid.uuid4()}" if name is None else f"write:{name}"
        self.batch = number or 0
        self.repeat = None if name is None else look(self.target.database, self.writer, self.batch, ONCE, is_stable)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Wrote:
        if self.repeat is not None and self.repeat.is_done:
            return Wrote(0)
        return self.target.append(self.writer, self.batch, iterator, self.repeat)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Notes the end of the write. Spark calls it in the driver, when all tasks have finished."""
        if self.repeat is not None and not self.repeat.is_done:
            topics = {topic for message in messages if isinstance(message, Wrote) for topic in message.topics}
            if self.target.topic is not None:  # which a write without a record must note, too
                topics.add(self.target.topic)
            self.repeat.finish(self.target.database, topics, len(messages))

"""The streaming part of the data source. Offsets are seqs, and Spark's checkpoint stores them. A named cursor shows the lag.

An offset has each topic's id and the last seq that was read, and how its batch is planned: {"orders": {"id": 17, "seq": 4711,
"after": 4000, "partitions": 4}}. The query resumes from Spark's checkpoint only. The cursor follows the checkpoint.

If a query ends during a batch, Spark plans the batch again at its next start, and sinks then count on the same records in each
task. So the plan follows from the end of the batch alone: `after` is the last seq before the batch, and `partitions` the most
tasks for the topic. It depends neither on records that exist, because deletes, caps and TTLs change them, nor on the start,
because Spark asks for the start of a first batch again. Older versions left out both, and planned by the number of records. With
`shared`, small topics shared a task; 0.3.0 left out this, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import psycopg
import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from base.errors import InvalidRequest, TopicNotFound
from pipeline.options import OF_DATABASE, Options
from pipeline.read.conditions import Condition, one_of
from pipeline.read.extent import Extent, extent, extents, seq_at
from pipeline.read.scan import Range, Scan, ScanReader, ScanShare, check_loss, ranges, seq_ranges, shares
from pipeline.write.written import translated

OPTIONS = {
    *OF_DATABASE,
    "topic",
    "prefix",
    "startingSeq",
    "startingTs",
    "maxRecordsPerTrigger",
    "partitions",
    "withoutNodes",
    "tag",
    "tags",
    "columns",
    "failOnDataLoss",
    "cursor",
}
FOLLOW = "SELECT pipeline_follow(%s, %s, %s)"  # leaves out deleted topics
Offset = dict[str, dict[str, int]]


def stream_reader(given: Mapping[str, str], columns: tuple[str, ...]) -> StreamReader:
    """Returns the reader for options. Raises InvalidRequest for an unknown option or an invalid value."""
    return StreamReader(Options(given, OPTIONS, {"endingSeq": "batch reads"}), columns)


class Selection:
    """The topics to read, and the start position in each topic."""

    def __init__(self, given: Options, starting: str) -> None:
        """Raises InvalidRequest for contradictory options."""
        self.database = given.database()
        self.topic, self.prefix = given.text("topic"), given.text("prefix")
        if (self.topic is None) == (self.prefix is None):
            raise InvalidRequest("give one of the options topic and prefix")
        self.starting = (given.text("startingSeq") or starting).lower()
        self.starting_ts = given.number("startingTs")
        if self.starting_ts is not None and given.text("startingSeq"):
            raise InvalidRequest("startingSeq and startingTs both say where to begin: give one of them")
        if self.starting not in ("earliest", "latest"):
            given.number("startingSeq")
        self.partitions = given.number("partitions", least=1) or 4
        self.without_nodes = given.listed("withoutNodes")
        tag, tags = given.text("tag"), given.listed("tags")
        if tag is not None and tags:
            raise InvalidRequest("tag and tags are filters of the same records: give one of them")
        self.conditions: list[Condition] = []
        if tag is not None:
            self.conditions.append(Condition("tag", *(("^@", tag[:-1]) if tag.endswith("*") else ("=", tag))))
        elif tags:
            self.conditions.append(one_of(tags))
        self.fail_on_data_loss = given.flag("failOnDataLoss", True)

    def look(self, connection: psycopg.Connection[Any]) -> dict[str, Extent]:
        """Returns the current topics by name. Raises TopicNotFound if the named topic does not exist."""
        found = extents(connection, self.prefix) if self.prefix is not None else [extent(connection, self.topic or "")]
        return {each.name: each for each in found}

    def start(self, connection: psycopg.Connection[Any], topic: Extent) -> int:
        """Returns the seq after which the reading of a topic starts."""
        if self.starting_ts is not None:
            return max(seq_at(connection, topic, self.starting_ts) - 1, topic.floor)
        if self.starting == "earliest":
            return topic.floor
        if self.starting == "latest":
            return topic.head
        seq = int(self.starting)
        # The predecessor's last head counts as a cursor of the predecessor. Such a reader gets a tombstone, like a reader
        # below.
        return seq - 1 if seq == topic.recreated > 0 else seq

    @property
    def continues(self) -> bool:
        """Whether the reading continues after a given seq. Then all records above this seq are expected."""
        return self.starting_ts is None and self.starting not in ("earliest", "latest")

    def check(self, connection: psycopg.Connection[Any], readers: Sequence[ScanReader]) -> None:
        """Raises DataLoss if one of the readers lost records, unless losses are accepted."""
        if self.fail_on_data_loss and readers:
            check_loss(lambda loss: connection.execute(loss).fetchone() or (), readers)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads appended records, trigger by trigger.

    `read` runs on executors. All other methods run in one process beside the driver.
    """

    def __init__(self, given: Options, columns: tuple[str, ...]) -> None:
        self.selection = Selection(given, starting="latest")
        self.most = given.number("maxRecordsPerTrigger", least=1)
        self.cursor = given.text("cursor")
        self.target: Offset | None = None  # end for Trigger.AvailableNow
        self.followed: Offset = {}  # position of the cursor
        chosen = self.selection
        self.scan = Scan(
            chosen.database, columns, chosen.fail_on_data_loss, True, chosen.conditions, chosen.without_nodes
        )

    def initialOffset(self) -> Offset:
        with self.connect() as connection:
            topics = self.selection.look(connection)
            starts = {name: self.selection.start(connection, topic) for name, topic in topics.items()}
        return self.planned(starts, {name: place(topics[name], seq) for name, seq in starts.items()})

    def planned(self, after: Mapping[str, int], ends: Offset) -> Offset:
        """Returns the end of a batch with its plan. `after`: the last seq before the batch, by topic."""
        most = self.selection.partitions
        return {name: {**end, "after": after[name], "partitions": most} for name, end in ends.items()}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadAllAvailable() if self.most is None else ReadMaxRows(self.most)

    def prepareForTriggerAvailableNow(self) -> None:
        self.target = self.reportLatestOffset()

    def reportLatestOffset(self) -> Offset:
        with self.connect() as connection:
            return heads(self.topics(connection))

    def connect(self) -> psycopg.Connection[Any]:
        return self.selection.database.connect()

    def topics(self, connection: psycopg.Connection[Any]) -> dict[str, Extent]:
        """Returns the current topics.

        A deleted topic is left out. latestOffset raises DataLoss if the query has read the topic.
        """
        try:
            return self.selection.look(connection)
        except TopicNotFound:
            return {}

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        """Returns the end of the next batch: the heads, or less if the limit is lower. Raises DataLoss.

        Spark calls this method after the batch that ended at `start`. Spark calls commit() for that batch only if another batch
        follows.
        """
        with self.connect() as connection:
            self.follow(connection, start)
            topics = self.topics(connection)
            ends = heads(topics)
            if self.target is not None:
                ends = {
                    name: dict(self.target[name])
                    for name in ends
                    if self.target.get(name, {}).get("id") == ends[name]["id"]
                }
            gone = {name: at for name, at in start.items() if name not in ends}
            self.selection.check(
                connection, [ScanReader(name, at["id"], at["seq"], at["seq"]) for name, at in gone.items()]
            )
        after = {name: position(start, topics[name]) for name in ends}
        for name, end in ends.items():
            end["seq"] = max(end["seq"], after[name])
        if isinstance(limit, ReadMaxRows):
            share(after, ends, limit.max_rows)
        # Spark begins a batch if anything differs from the start, also the plan alone.
        return start if ends == reached(start) else self.planned(after, ends)

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """Returns the ranges of a batch, by topic and seq. Topics without new records have none. Raises DataLoss."""
        if end == start:  # it says how the batch before was planned
            return []
        is_shared = all("after" in to or "shared" in to for to in end.values())
        readers: list[ScanReader] = []
        found: list[Range] = []
        with self.connect() as connection:
            topics = self.topics(connection)
            for name, to in end.items():
                topic = topics.get(name)
                if topic is None or topic.id != to["id"]:
                    topic = gone(name, to)
                after = to.get("after", position(start, topic))
                if name in start:
                    readers.append(ScanReader(name, start[name]["id"], start[name]["seq"], to["seq"]))
                readers.append(ScanReader(name, topic.id, after, to["seq"]))
                if "after" in to:
                    found += seq_ranges(topic, after + 1, to["seq"], to["partitions"])
                else:
                    most, counted = self.selection.partitions, "shared" not in to
                    found += ranges(connection, topic, after + 1, to["seq"], most, counted=counted)
            self.selection.check(connection, list(dict.fromkeys(readers)))
        return shares(found) if is_shared else [ScanShare([each]) for each in found]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, ScanShare)
        return self.scan.read(partition)

    def commit(self, end: Offset) -> None:
        """Moves the named cursor to `end`, which is now in Spark's checkpoint. The cursor only shows lags to people."""
        if self.cursor is not None and reached(end) != self.followed:
            with self.connect() as connection:
                self.follow(connection, end)

    def follow(self, connection: psycopg.Connection[Any], end: Offset) -> None:
        """Moves the named cursor in the topics where it is not at `end`."""
        if self.cursor is None:
            return
        with translated():
            for name, at in reached(end).items():
                if self.followed.get(name) != at:
                    connection.execute(FOLLOW, [name, self.cursor, at["seq"]])
        self.followed = reached(end)


def heads(topics: dict[str, Extent]) -> Offset:
    return {name: place(topic, topic.head) for name, topic in topics.items()}


def place(topic: Extent, seq: int) -> dict[str, int]:
    return {"id": topic.id, "seq": seq}


def reached(offset: Offset) -> Offset:
    """Returns the topics and the last seqs that were read, without the plan."""
    return {name: {"id": at["id"], "seq": at["seq"]} for name, at in offset.items()}


def position(start: Offset, topic: Extent) -> int:
    """Returns the last seq that was read. A topic that was created after the query started is read from its first record."""
    read = start.get(topic.name, {})
    return read["seq"] if read.get("id") == topic.id else topic.recreated


def gone(name: str, to: Mapping[str, int]) -> Extent:
    """Returns a topic that was deleted since a batch was planned. Its ranges stay, so that all tasks keep their numbers."""
    return Extent(to["id"], name, head=to["seq"], floor=to["seq"], holes=0, recreated=to["seq"])


def share(after: dict[str, int], ends: Offset, most: int) -> None:
    """Lowers `ends` so that a batch reads at most `most` seqs.

    Topics with small lags get all of their lag. The other topics share the rest equally. `after`: the last seq that was read,
    by topic.
    """
    lags = {name: end["seq"] - after[name] for name, end in ends.items()}
    behind = sorted((name for name in lags if lags[name] > 0), key=lambda name: lags[name])
    for place, name in enumerate(behind):
        given = min(lags[name], max(most // (len(behind) - place), 1 if most > 0 else 0))
        ends[name]["seq"] -= lags[name] - given
        most -= given

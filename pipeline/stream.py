"""The streaming part of the data source. Offsets are seqs, and Spark's checkpoint stores them. A named cursor shows the lag.

An offset has each topic's id and the last seq that was read: {"orders": {"id": 17, "seq": 4711}}. The query resumes from
Spark's checkpoint only. The cursor follows the checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from base.errors import InvalidRequest, TopicNotFound
from pipeline.extent import Extent, divide, extent, extents, seq_at
from pipeline.options import OF_DATABASE, Options
from pipeline.scan import Condition, Range, Scan, check_loss, planned
from pipeline.written import translated

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
    "columns",
    "failOnDataLoss",
    "cursor",
}
FOLLOW = "SELECT pipeline_follow(%s, %s, %s)"  # leaves out deleted topics
SMALL = 5_000  # up to this many records one task is enough
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
        nodes = given.text("withoutNodes") or ""
        self.without_nodes = tuple(node.strip() for node in nodes.split(",") if node.strip())
        tag = given.text("tag")
        self.conditions = (
            [] if tag is None else [Condition("tag", *(("^@", tag[:-1]) if tag.endswith("*") else ("=", tag)))]
        )
        self.fail_on_data_loss = given.flag("failOnDataLoss", True)

    def look(self) -> dict[str, Extent]:
        """Returns the current topics by name. Raises TopicNotFound if the named topic does not exist."""
        with self.database.connect() as connection:
            found = (
                extents(connection, self.prefix) if self.prefix is not None else [extent(connection, self.topic or "")]
            )
        return {each.name: each for each in found}

    def start(self, topic: Extent) -> int:
        """Returns the seq after which the reading of a topic starts."""
        if self.starting_ts is not None:
            with self.database.connect() as connection:
                return max(seq_at(connection, topic, self.starting_ts) - 1, topic.floor)
        if self.starting == "earliest":
            return topic.floor
        if self.starting == "latest":
            return topic.head
        seq = int(self.starting)
        # The predecessor's last head counts as a cursor of the predecessor. Such a reader gets a tombstone, like a reader
        # below.
        return seq - 1 if seq == topic.recreated > 0 else seq


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
        topics = self.selection.look()
        return {name: {"id": topic.id, "seq": self.selection.start(topic)} for name, topic in topics.items()}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadAllAvailable() if self.most is None else ReadMaxRows(self.most)

    def prepareForTriggerAvailableNow(self) -> None:
        self.target = heads(self.topics())

    def reportLatestOffset(self) -> Offset:
        return heads(self.topics())

    def topics(self) -> dict[str, Extent]:
        """Returns the current topics.

        A deleted topic is left out. latestOffset raises DataLoss if the query has read the topic.
        """
        try:
            return self.selection.look()
        except TopicNotFound:
            return {}

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        """Returns the end of the next batch: the heads, or less if the limit is lower. Raises DataLoss.

        Spark calls this method after the batch that ended at `start`. Spark calls commit() for that batch only if another batch
        follows.
        """
        self.commit(start)
        topics = self.topics()
        ends = heads(topics)
        if self.target is not None:
            ends = {
                name: dict(self.target[name])
                for name in ends
                if self.target.get(name, {}).get("id") == ends[name]["id"]
            }
        if self.selection.fail_on_data_loss:
            for name in start.keys() - ends.keys():
                self.check(name, start[name], start[name]["seq"])
        after = {name: position(start, topics[name]) for name in ends}
        for name, end in ends.items():
            end["seq"] = max(end["seq"], after[name])
        if isinstance(limit, ReadMaxRows):
            share(after, ends, limit.max_rows)
        return ends

    def check(self, name: str, place: dict[str, int], upto: int) -> None:
        with self.selection.database.connect() as connection:
            check_loss(lambda loss: connection.execute(loss).fetchone() or (), name, place["id"], place["seq"], upto)

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """Returns the ranges of a batch, by topic and seq. Raises DataLoss."""
        found: list[Range] = []
        topics = self.topics()
        for name, to in end.items():
            if self.selection.fail_on_data_loss and name in start:
                self.check(name, start[name], to["seq"])
            topic = topics.get(name)
            if topic is None or topic.id != to["id"]:
                if self.selection.fail_on_data_loss:
                    self.check(name, to, to["seq"])
                continue
            after = position(start, topic)
            if self.selection.fail_on_data_loss:
                self.check(name, {"id": topic.id, "seq": after}, to["seq"])
            if after >= to["seq"]:
                continue
            most = min(self.selection.partitions, -(-(to["seq"] - after) // SMALL))
            with self.selection.database.connect() as connection:
                parts = divide(connection, topic, after + 1, to["seq"], most)
            found += planned(topic, parts)
        return found

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Range)
        return self.scan.read(partition)

    def commit(self, end: Offset) -> None:
        """Moves the named cursor to `end`, which is now in Spark's checkpoint. The cursor only shows lags to people."""
        if self.cursor is None or end == self.followed:
            return
        with translated(), self.selection.database.connect() as connection:
            for name, place in end.items():
                connection.execute(FOLLOW, [name, self.cursor, place["seq"]])
        self.followed = end


def heads(topics: dict[str, Extent]) -> Offset:
    return {name: {"id": topic.id, "seq": topic.head} for name, topic in topics.items()}


def position(start: Offset, topic: Extent) -> int:
    """Returns the last seq that was read. A topic that was created after the query started is read from its first record."""
    place: dict[str, Any] = start.get(topic.name, {})
    return int(place["seq"]) if place.get("id") == topic.id else topic.recreated


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

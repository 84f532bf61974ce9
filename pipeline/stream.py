"""The streaming side of the data source: offsets are seqs, which Spark keeps in its checkpoint; a named cursor shows the lag.

An offset holds each topic's id and the last seq read: {"orders": {"id": 17, "seq": 4711}}. Only Spark's checkpoint says where the
query goes on; the cursor follows it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from base.errors import InvalidRequest, TopicNotFound
from pipeline.extent import Extent, divide, extent, extents, seq_at
from pipeline.options import Options
from pipeline.scan import Range, Scan, check_loss, planned

OPTIONS = {
    "dsn",
    "url",
    "topic",
    "prefix",
    "startingSeq",
    "startingTs",
    "maxRecordsPerTrigger",
    "partitions",
    "withoutNodes",
    "failOnDataLoss",
    "cursor",
}
SMALL = 5_000  # records that are not worth a second task
Offset = dict[str, dict[str, int]]


class Selection:
    """Which topics are read, and where a reading of them begins."""

    def __init__(self, given: Options, starting: str) -> None:
        """Raises InvalidRequest for options that contradict each other."""
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
        self.fail_on_data_loss = given.flag("failOnDataLoss", True)

    def look(self) -> dict[str, Extent]:
        """The topics as they are now, by name. Raises TopicNotFound for one that is named and not there."""
        with self.database.connect() as connection:
            found = (
                extents(connection, self.prefix) if self.prefix is not None else [extent(connection, self.topic or "")]
            )
        return {each.name: each for each in found}

    def start(self, topic: Extent) -> int:
        """The seq behind which a reading of this topic begins."""
        if self.starting_ts is not None:
            with self.database.connect() as connection:
                return max(seq_at(connection, topic, self.starting_ts) - 1, topic.floor)
        if self.starting == "earliest":
            return topic.floor
        if self.starting == "latest":
            return topic.head
        seq = int(self.starting)
        # The last head of the topic's predecessor counts as a cursor of that one: such a reader is told, as one below it is.
        return seq - 1 if seq == topic.recreated > 0 else seq


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads what is appended, trigger by trigger. `read` runs on executors; all else in one process beside the driver."""

    def __init__(self, given: Options) -> None:
        self.selection = Selection(given, starting="latest")
        self.most = given.number("maxRecordsPerTrigger", least=1)
        self.cursor = given.text("cursor")
        self.target: Offset | None = None  # of Trigger.AvailableNow
        self.followed: Offset = {}  # where the cursor is
        chosen = self.selection
        self.scan = Scan(chosen.database, chosen.fail_on_data_loss, True, [], chosen.without_nodes)

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
        """Returns the topics as they are now. A named topic that was deleted is missing: latestOffset tells the query, if it has
        read of it."""
        try:
            return self.selection.look()
        except TopicNotFound:
            return {}

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        """Where the next batch ends: the heads, or as far as the limit goes. Raises DataLoss.

        Spark asks when the batch that ended at `start` is done, and says so by commit() only when there is another.
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
            check_loss(connection, name, place["id"], place["seq"], upto)

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """The ranges of a batch, by topic and seq. Raises DataLoss."""
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
        """Spark has this batch in its checkpoint: the named cursor follows, for people who look at lags."""
        if self.cursor is None or end == self.followed:
            return
        from pipeline.site import enter

        enter(self.selection.database.dsn)
        from base.clock import now_ms
        from store.script import run
        from topics.cursors import move

        for name, place in end.items():
            try:
                run(move(name, self.cursor, place["seq"], None, now_ms()))
            except TopicNotFound:
                continue  # deleted since: its cursors went along
        self.followed = end


def heads(topics: dict[str, Extent]) -> Offset:
    return {name: {"id": topic.id, "seq": topic.head} for name, topic in topics.items()}


def position(start: Offset, topic: Extent) -> int:
    """Up to where a topic was read. One that was created after the query began is read from its first record."""
    place: dict[str, Any] = start.get(topic.name, {})
    return int(place["seq"]) if place.get("id") == topic.id else topic.recreated


def share(after: dict[str, int], ends: Offset, most: int) -> None:
    """Cut the ends so that no more than so many seqs are read: those who have little get all of it, the others as much as is left
    for each. `after`: up to where each topic was read."""
    lags = {name: end["seq"] - after[name] for name, end in ends.items()}
    behind = sorted((name for name in lags if lags[name] > 0), key=lambda name: lags[name])
    for place, name in enumerate(behind):
        given = min(lags[name], max(most // (len(behind) - place), 1 if most > 0 else 0))
        ends[name]["seq"] -= lags[name] - given
        most -= given

"""format("topics"), read: in batch and as a stream, with what it pushes down, limits, and tells of losses."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import adbc_driver_postgresql.dbapi as adbc
import pytest
from django.db import connection
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)
from pyspark.sql.functions import col
from pyspark.sql.types import StructType

from base.clock import now_ms
from base.errors import InvalidRequest
from pipeline.database import database
from pipeline.options import Options
from pipeline.progress import lag
from pipeline.read import batch
from pipeline.read.batch import BatchReader, batch_reader
from pipeline.read.columns import SCHEMA
from pipeline.read.scan import Range, Scan, ScanShare
from pipeline.read.stream import OPTIONS, share
from pipeline.source import Topics
from tests import scripts
from tests.crashes import take_back
from tests.instances import until
from tests.log.test_reclaim import mirror
from tests.pipeline.filling import ODD, fill, numbers, rows
from topics.config import Config


def read(spark: SparkSession, dsn: str, **options: object) -> DataFrame:
    return spark.read.format("topics").options(dsn=dsn, **options).load()


class Query:
    """A streaming query that keeps what it reads, and can be started again from its checkpoint."""

    def __init__(self, spark: SparkSession, dsn: str, path: Path, **options: object) -> None:
        self.spark, self.path = spark, path
        self.options = {"dsn": dsn, "startingSeq": "earliest", **options}
        self.batches: list[list[tuple[str, int]]] = []

    def start(self, **trigger: Any) -> Any:
        stream = self.spark.readStream.format("topics").options(**self.options).load()
        writer = stream.writeStream.foreachBatch(self.keep).option("checkpointLocation", str(self.path))
        return writer.trigger(**trigger).start()

    def keep(self, batch: DataFrame, _: int) -> None:
        self.batches.append([(row.topic, row.seq) for row in batch.select("topic", "seq").collect()])

    def run(self) -> Query:
        """Reads the current records."""
        running = self.start(availableNow=True)
        running.awaitTermination()
        self.lags = [(each.numInputRows, sum(lag(each).values())) for each in running.recentProgress]
        return self

    @property
    def seqs(self) -> list[int]:
        return [seq for batch in self.batches for _, seq in batch]


def test_it_reads_a_batch(spark: SparkSession, dsn: str) -> None:
    fill("orders", ODD, tag=["a:1", None] * 5 + ["b"], node=["n"] * len(ODD), meta=[b'{"k" : 1.0}'] * len(ODD))
    found = read(spark, dsn, topic="orders", partitions=3).orderBy("seq").collect()
    assert [row.data.encode() for row in found] == ODD
    first = found[0]
    assert (first.topic, first.seq, first.tag, first.node, first.meta, first.hops) == (
        "orders",
        1,
        "a:1",
        "n",
        '{"k" : 1.0}',
        0,
    )


def test_a_prefix_a_range_and_own_nodes(spark: SparkSession, dsn: str) -> None:
    numbers("shop:a", 10, node=["one", "two"] * 5)
    numbers("shop:b", 3)
    numbers("other", 3)
    assert read(spark, dsn, prefix="shop:").count() == 13
    part = read(spark, dsn, topic="shop:a", startingSeq=2, endingSeq=8, withoutNodes="one, three")
    assert sorted(row.seq for row in part.collect()) == [4, 6, 8]


def test_columns_are_chosen_by_a_schema_or_an_option(spark: SparkSession, dsn: str) -> None:
    numbers("orders", 3, tag=["a", "b", None])
    mirror("orders", "copy")
    source = spark.read.format("topics").options(dsn=dsn, topic="orders")
    assert source.schema("data STRING, seq LONG").load().collect() == [('{"n":1}', 1), ('{"n":2}', 2), ('{"n":3}', 3)]
    for topic, hops in (("orders", 0), ("copy", 1)):
        some = read(spark, dsn, topic=topic, columns="hops, tag, home_topic, home_seq, topic").orderBy("home_seq")
        assert some.collect() == [(hops, tag, "orders", n, topic) for n, tag in enumerate(("a", "b", None), 1)]
    timed = read(spark, dsn, topic="orders", columns="ts,ts_time")
    assert timed.where("ts_time = timestamp_millis(ts)").count() == 3
    with pytest.raises(PySparkException, match="no column is called colour"):
        read(spark, dsn, topic="orders", columns="colour").collect()
    with pytest.raises(PySparkException, match="no column is called seq string"):
        source.schema("seq STRING").load().collect()


def test_seqs_alone_are_those_of_the_records(spark: SparkSession, dsn: str) -> None:
    """Without holes, the head tells all seqs. Deletes, caps and other filters leave holes."""
    numbers("orders", 30, tag=["odd" if n % 2 else "even" for n in range(30)])
    seqs = read(spark, dsn, topic="orders", columns="seq")
    assert sorted(row.seq for row in seqs.collect()) == list(range(1, 31))
    assert seqs.where("seq > 28").count() == 2
    scripts.delete_records("orders", None, ["tag", "Eq", "odd"], now_ms())
    numbers("orders", 3)
    expected = [*range(1, 30, 2), 31, 32, 33]
    assert sorted(row.seq for row in read(spark, dsn, topic="orders", columns="seq").collect()) == expected
    assert read(spark, dsn, topic="orders", columns="seq", tag="even").count() == 15


def test_a_tag_is_a_filter_of_batches_and_streams(spark: SparkSession, dsn: str, tmp_path: Path) -> None:
    numbers("orders", 4, tag=["paid:1", "paid:%", "order:1", None])
    assert read(spark, dsn, topic="orders", tag="paid:*").count() == 2
    assert Query(spark, dsn, tmp_path / "one", topic="orders", tag="paid:%").run().seqs == [2]
    assert Query(spark, dsn, tmp_path / "some", topic="orders", tags="order:*, paid:%").run().seqs == [2, 3]


@pytest.mark.parametrize(
    ("tags", "seqs"),
    [("a*", [1, 2, 3]), ("a_c,*\\", [3]), ("a%,%*", [4]), ("abc, b\\d ,c", [1, 5]), (",", [1, 2, 3, 4, 5, 6])],
)
def test_tags_are_tags_or_their_starts(dsn: str, tags: str, seqs: list[int]) -> None:
    numbers("orders", 6, tag=["abc", "a", "a_c", "%", "b\\d", None])
    reader = batch_reader({"dsn": dsn, "topic": "orders", "tags": tags}, ("seq",))
    assert [
        seq for part in reader.partitions() for sent in reader.read(part) for seq in sent["seq"].to_pylist()
    ] == seqs


def test_user_and_password_are_options_as_for_jdbc(spark: SparkSession, dsn: str) -> None:
    numbers("orders", 2)
    user, password = "topics", "no"
    given = {"topic": "orders", "endingSeq": "latest"}
    assert read(spark, dsn, **given).count() == 2
    made = Options({"url": "jdbc:postgresql://db/log", "user": user, "password": password}, OPTIONS).database()
    assert made.jdbc["user"] == user
    assert made.jdbc["password"] == password


def test_nothing_to_read_is_an_empty_frame(spark: SparkSession, dsn: str) -> None:
    numbers("orders", 3)
    scripts.put_topic("empty", Config(), now_ms())
    assert read(spark, dsn, topic="empty").collect() == []
    assert read(spark, dsn, prefix="nothing:").collect() == []
    assert read(spark, dsn, topic="orders", startingSeq="latest").collect() == []
    assert read(spark, dsn, topic="orders").where("seq > 3").collect() == []


def test_filters_are_pushed_to_the_database(spark: SparkSession, dsn: str) -> None:
    numbers("orders", 40, tag=[f"order:{n % 4}" for n in range(40)])
    some = read(spark, dsn, topic="orders").where("seq > 10 AND tag LIKE 'order:1%' AND length(data) > 0")
    assert sorted(row.seq for row in some.collect()) == [14, 18, 22, 26, 30, 34, 38]
    reader = BatchReader(Options({"dsn": dsn, "topic": "orders"}, batch.OPTIONS), ("seq",))
    left = Not(EqualTo(("tag",), "x"))
    pushed = [GreaterThan(("seq",), 10), StringStartsWith(("tag",), "order:"), In(("node",), ("a", "b")), left]
    assert list(reader.pushFilters(pushed)) == [left]
    assert next(share.ranges[0].first for share in reader.partitions()) == 11  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("wanted", "micros", "seqs"),
    [
        (GreaterThan, 0, [3, 4]),
        (GreaterThan, 1, [3, 4]),
        (GreaterThan, -1, [2, 3, 4]),
        (GreaterThanOrEqual, 0, [2, 3, 4]),
        (GreaterThanOrEqual, 1, [3, 4]),
        (GreaterThanOrEqual, -999, [2, 3, 4]),
        (LessThan, 0, [1]),
        (LessThan, 1, [1, 2]),
        (LessThanOrEqual, 0, [1, 2]),
        (LessThanOrEqual, 999, [1, 2]),
        (LessThanOrEqual, -1, [1]),
        (EqualTo, 0, [2]),
        (EqualTo, 1, []),
    ],
)
def test_a_time_is_pushed_to_the_index(dsn: str, wanted: type[Filter], micros: int, seqs: list[int]) -> None:
    """Records have times in ms. Spark compares times that are exact to the microsecond."""
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    for n in range(4):
        numbers("orders", 1, now=int(noon.timestamp() * 1000) + n - 1)
    pushed = wanted(("ts_time",), noon + timedelta(microseconds=micros))  # type: ignore[call-arg]
    assert travel(dsn, IsNotNull(("ts_time",)), pushed) == (seqs, len(seqs))


def test_one_of_several_values_is_pushed(dsn: str) -> None:
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    for n in range(4):
        numbers("orders", 1, now=int(noon.timestamp() * 1000) + n, tag=[f"order:{n}"])
    assert travel(dsn, In(("tag",), ("order:1", "order:3", "order:9"))) == ([2, 4], 4)
    times = tuple(noon + timedelta(milliseconds=ms) for ms in (1, 1.5, 2, 60_000))
    assert travel(dsn, In(("ts_time",), times)) == ([2, 3], 3)
    assert travel(dsn, In(("seq",), (2, 3)), GreaterThan(("ts",), 0)) == ([2, 3], 2)


def travel(dsn: str, *filters: Filter) -> tuple[list[int], int]:
    """Pushes filters. Returns the seqs of the records that PostgreSQL sends, and how many seqs the planned ranges have."""
    reader = BatchReader(Options({"dsn": dsn, "topic": "orders"}, batch.OPTIONS), ("seq", "ts_time"))
    assert list(reader.pushFilters(list(filters))) == []
    shares = reader.partitions()
    found = [seq for share in shares for sent in reader.read(share) for seq in sent["seq"].to_pylist()]
    return found, sum(part.last - part.first + 1 for share in shares for part in share.ranges)  # type: ignore[attr-defined]


def test_pushed_times_select_as_spark_does(spark: SparkSession, dsn: str) -> None:
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    for n in range(4):
        numbers("orders", 1, now=int(noon.timestamp() * 1000) + n, tag=[f"order:{n}"])
    found = read(spark, dsn, topic="orders")
    for condition, seqs in (
        ("ts_time >= '2026-01-01 12:00:00.001'", [2, 3, 4]),
        ("ts_time > timestamp'2026-01-01 14:00:00.001000+02:00' AND ts_time < '2026-01-01 12:00:00.0021'", [3]),
        ("ts_time BETWEEN date'2026-01-01' AND timestamp'2026-01-01 12:00:00.001'", [1, 2]),
        ("ts_time IN (timestamp'2026-01-01 12:00:00.003', timestamp'2026-01-01 12:00:00.0001')", [4]),
        ("tag IN ('order:0', 'order:2')", [1, 3]),
    ):
        chosen = found.where(condition)
        assert sorted(row.seq for row in chosen.collect()) == seqs, condition
        assert not is_filtered_by_spark(chosen), condition
    # Spark hands an OR to no Python source, and evaluates it itself.
    either = found.where("tag = 'order:0' OR tag LIKE 'order:2%'")
    assert sorted(row.seq for row in either.collect()) == [1, 3]
    assert is_filtered_by_spark(either)


def is_filtered_by_spark(frame: DataFrame) -> bool:
    return re.search(r"\bFilter\b", frame._jdf.queryExecution().executedPlan().toString()) is not None


def test_percent_signs_are_letters_as_others(spark: SparkSession, dsn: str) -> None:
    numbers("orders", 4, tag=["5%", "5%%", "%s", "%(last)s"], node=["%", "%%", "%b", None])
    for tag, seq in (("5%", 1), ("5%%", 2), ("%s", 3), ("%(last)s", 4)):
        assert [row.seq for row in read(spark, dsn, topic="orders").where(col("tag") == tag).collect()] == [seq]
    rest = read(spark, dsn, topic="orders", withoutNodes="%%, %b")
    assert sorted(row.seq for row in rest.collect()) == [1, 4]


@pytest.mark.parametrize(("condition", "count"), [("<= ", 3), ("< ", 3), ("= ", 0), ("> ", 0), (">= -", 3)])
def test_the_latest_time_that_a_long_can_hold(spark: SparkSession, dsn: str, condition: str, count: int) -> None:
    numbers("orders", 3)
    assert read(spark, dsn, topic="orders").where(f"ts {condition}{2**63 - 1}L").count() == count


@pytest.mark.parametrize(
    ("options", "refusal"),
    [
        ({"topic": "orders", "prefix": "o"}, "give one of the options topic and prefix"),
        ({}, "give one of the options topic and prefix"),
        ({"topic": "orders", "tag": "a", "tags": "b"}, "give one of them"),
        ({"topic": "orders", "startingSeq": "-1"}, "startingSeq=-1 is not a whole number"),
        ({"topic": "orders", "startingSeq": "9" * 5000}, "999 is not a whole number"),
        ({"topic": "orders", "failOnDataLoss": "maybe"}, "failOnDataLoss=maybe is neither true nor false"),
        ({"topic": "orders", "maxrecords": "5"}, "no option is called maxrecords"),
        ({"topic": "orders", "startingSeq": "1", "startingTs": "1"}, "give one of them"),
        ({"topic": "orders", "maxRecordsPerTrigger": "1"}, "maxRecordsPerTrigger is for streams only"),
    ],
)
def test_options_that_cannot_be_are_refused(options: dict[str, str], refusal: str) -> None:
    with pytest.raises(InvalidRequest, match=refusal):
        Topics({"dsn": "dbname=x", **options}).reader(StructType([SCHEMA["seq"]]))


def test_a_topic_that_is_not_there_is_refused(spark: SparkSession, dsn: str) -> None:
    with pytest.raises(PySparkException, match="there is no topic 'nothing'"):
        read(spark, dsn, topic="nothing").collect()


def test_a_stream_goes_on_where_its_checkpoint_says(spark: SparkSession, dsn: str, tmp_path: Path) -> None:
    numbers("orders", 25)
    query = Query(spark, dsn, tmp_path, topic="orders", maxRecordsPerTrigger=10, cursor="spark").run()
    assert [len(batch) for batch in query.batches] == [10, 10, 5]
    assert query.lags[-3:] == [(10, 15), (10, 5), (5, 0)]
    numbers("orders", 5)
    scripts.delete_records("orders", 28, None, now_ms())  # silent, as for every reader
    query.run()
    assert query.seqs == [*range(1, 26), 28, 29, 30]
    assert rows("SELECT kind, name, seq FROM topics_cursor") == [("named", "spark", 30)]


def test_a_running_stream_gets_what_is_appended_and_its_cursor_follows(
    spark: SparkSession, dsn: str, tmp_path: Path
) -> None:
    numbers("shop:a", 3)
    query = Query(spark, dsn, tmp_path, prefix="shop:", cursor="spark")
    running = query.start(processingTime="100 milliseconds")
    until(lambda: len(query.seqs) == 3, "the first records")
    numbers("shop:b", 2)  # a topic that comes later is read from its first record
    numbers("shop:a", 2)
    until(lambda: len(query.seqs) == 7, "what was appended")
    try:
        until(lambda: rows("SELECT sum(seq) FROM topics_cursor WHERE name = 'spark'") == [(7,)], "the cursors")
    finally:
        running.stop()
    assert sorted(pair for batch in query.batches for pair in batch) == [
        *(("shop:a", seq) for seq in range(1, 6)),
        ("shop:b", 1),
        ("shop:b", 2),
    ]


@pytest.mark.guarantee("S4")
def test_a_tombstone_fails_a_stream_or_is_accepted(spark: SparkSession, dsn: str, tmp_path: Path) -> None:
    scripts.put_topic("orders", Config(cap_records=10), now_ms())
    numbers("orders", 5)
    query = Query(spark, dsn, tmp_path, topic="orders").run()
    numbers("orders", 20)
    with pytest.raises(StreamingQueryException, match=r"topic orders lost records above seq 5 \(cap\)"):
        query.run()
    query.options["failOnDataLoss"] = "false"
    query.run()
    assert query.seqs == [*range(1, 6), *range(16, 26)]


def test_a_loss_above_the_seq_after_which_a_batch_starts_fails_it_or_is_accepted(spark: SparkSession, dsn: str) -> None:
    scripts.put_topic("orders", Config(cap_records=10), now_ms())
    numbers("orders", 25)  # the cap takes 15
    scripts.delete_records("orders", 19, None, now_ms())  # a delete is no loss
    with pytest.raises(PySparkException, match=r"topic orders lost records above seq 5 \(cap\)"):
        read(spark, dsn, topic="orders", startingSeq=5).collect()
    kept = list(range(19, 26))
    accepted: list[dict[str, object]] = [
        {"startingSeq": 5, "failOnDataLoss": "false"},
        {"startingSeq": 15},
        {"startingSeq": "earliest"},
        {"startingTs": 1},
    ]
    for options in accepted:
        assert sorted(row.seq for row in read(spark, dsn, topic="orders", **options).collect()) == kept
    assert read(spark, dsn, topic="orders", startingSeq=5).where("seq > 15").count() == len(kept)
    scripts.delete_topic("orders", False, now_ms())
    numbers("orders", 2)
    with pytest.raises(PySparkException, match="topic orders was deleted and created again"):
        read(spark, dsn, topic="orders", startingSeq=24).collect()


def test_a_topic_that_is_deleted_or_recreated_fails_a_stream_or_is_accepted(
    spark: SparkSession, dsn: str, tmp_path: Path
) -> None:
    numbers("orders", 5)
    query = Query(spark, dsn, tmp_path, prefix="ord").run()
    scripts.delete_topic("orders", False, now_ms())
    with pytest.raises(StreamingQueryException, match="topic orders was deleted"):
        query.run()
    numbers("orders", 2)
    with pytest.raises(StreamingQueryException, match="topic orders was deleted and created again"):
        query.run()
    query.options["failOnDataLoss"] = "false"
    assert query.run().seqs == [1, 2, 3, 4, 5, 6, 7]


def test_a_named_topic_that_is_deleted_fails_a_stream_or_is_accepted(
    spark: SparkSession, dsn: str, tmp_path: Path
) -> None:
    numbers("orders", 5)
    failing = Query(spark, dsn, tmp_path / "failing", topic="orders").run()
    accepting = Query(spark, dsn, tmp_path / "accepting", topic="orders", failOnDataLoss="false").run()
    scripts.delete_topic("orders", False, now_ms())
    with pytest.raises(StreamingQueryException, match="topic orders was deleted"):
        failing.run()
    assert accepting.run().seqs == [1, 2, 3, 4, 5]
    with pytest.raises(StreamingQueryException, match="there is no topic 'orders'"):
        Query(spark, dsn, tmp_path / "new", topic="orders").run()
    numbers("orders", 2)
    with pytest.raises(StreamingQueryException, match="topic orders was deleted and created again"):
        failing.run()
    assert accepting.run().seqs == [1, 2, 3, 4, 5, 6, 7]
    failing.options["failOnDataLoss"] = "false"
    assert failing.run().seqs == [1, 2, 3, 4, 5, 6, 7]


def test_a_ttl_below_the_checkpoint_fails_a_stream_or_is_accepted(
    spark: SparkSession, dsn: str, tmp_path: Path
) -> None:
    numbers("orders", 5)
    query = Query(spark, dsn, tmp_path, topic="orders").run()
    numbers("orders", 5)
    hour = 3_600_000
    scripts.put_topic("orders", Config(ttl_ms=hour), now_ms() + 2 * hour)  # all records are over their time then
    numbers("orders", 2)
    with pytest.raises(StreamingQueryException, match=r"topic orders lost records above seq 5 \(ttl\)"):
        query.run()
    query.options["failOnDataLoss"] = "false"
    assert query.run().seqs == [1, 2, 3, 4, 5, 11, 12]


@pytest.mark.parametrize("loss", ["deleted", "recreated", "cap"])
@pytest.mark.parametrize("fails", [True, False])
def test_a_loss_while_a_query_runs_ends_it_or_is_accepted(
    spark: SparkSession, dsn: str, tmp_path: Path, loss: str, fails: bool
) -> None:
    """The query is slow: its next batch begins once the loss is complete."""
    numbers("orders", 5)
    query = Query(spark, dsn, tmp_path, topic="orders", failOnDataLoss=str(fails).lower())
    running = query.start(processingTime="100 milliseconds")
    try:
        until(lambda: query.seqs == [1, 2, 3, 4, 5], "the first records")
        if loss == "cap":
            scripts.put_topic("orders", Config(cap_records=2), now_ms())
            numbers("orders", 10)  # one append: the records in between are never seen
        else:
            scripts.delete_topic("orders", False, now_ms())
            if loss == "recreated":
                numbers("orders", 2)
        if fails:
            with pytest.raises(StreamingQueryException, match=r"topic orders (was deleted|lost records)"):
                running.awaitTermination(60)
        elif loss == "deleted":
            numbers("orders", 2)
            until(lambda: query.seqs == [1, 2, 3, 4, 5, 6, 7], "the records of the topic that was created again")
        else:
            later = [6, 7] if loss == "recreated" else [14, 15]
            until(lambda: query.seqs == [1, 2, 3, 4, 5, *later], "the records above the loss")
    finally:
        running.stop()


@pytest.mark.guarantee("R1")
def test_what_a_crash_took_back_of_what_was_read_fails_a_stream(spark: SparkSession, dsn: str, tmp_path: Path) -> None:
    numbers("orders", 5)
    query = Query(spark, dsn, tmp_path, topic="orders").run()
    with connection.cursor() as cursor:
        take_back(cursor.execute, "orders", 3)
    for more in (0, 2):  # at once, and behind the gap
        if more:
            numbers("orders", more)
        with pytest.raises(
            StreamingQueryException, match=r"above seq 5 \(restart\), .* read, from seq 4 on: undo its effects"
        ):
            query.run()
    query.options["failOnDataLoss"] = "false"
    ((head,),) = rows("SELECT head_seq FROM topics_topichead")
    assert query.run().seqs == [1, 2, 3, 4, 5, head - 1, head]


@pytest.mark.guarantee("W5")
def test_a_stream_that_starts_in_the_predecessor_of_a_topic_fails(
    spark: SparkSession, dsn: str, tmp_path: Path
) -> None:
    numbers("orders", 5)
    scripts.delete_topic("orders", False, now_ms())
    numbers("orders", 2)
    for seq in (0, 3, 5):
        with pytest.raises(StreamingQueryException, match="topic orders was deleted and created again"):
            Query(spark, dsn, tmp_path / str(seq), topic="orders", startingSeq=str(seq)).run()
    accepting = Query(spark, dsn, tmp_path / "5", topic="orders", startingSeq="5", failOnDataLoss="false")
    assert accepting.run().seqs == [6, 7]
    assert Query(spark, dsn, tmp_path / "first", topic="orders", startingSeq="earliest").run().seqs == [6, 7]


def test_a_stream_that_starts_in_an_empty_topic_reads_its_first_record(
    spark: SparkSession, dsn: str, tmp_path: Path
) -> None:
    numbers("orders", 5)
    scripts.delete_topic("orders", False, now_ms())
    scripts.put_topic("orders", Config(), now_ms())
    query = Query(spark, dsn, tmp_path, prefix="or", startingSeq="latest").run()
    numbers("orders", 2)
    numbers("oranges", 1)
    scripts.delete_topic("oranges", False, now_ms())
    numbers("oranges", 1)  # it is created after the query began, and its predecessor was never read
    query.run()
    assert sorted(pair for batch in query.batches for pair in batch) == [("oranges", 2), ("orders", 6), ("orders", 7)]


def test_a_limit_is_shared_among_topics() -> None:
    ends = {name: {"id": 1, "seq": seq} for name, seq in (("a", 100), ("b", 5), ("c", 60))}
    share(dict.fromkeys(ends, 0), ends, 25)
    assert {name: end["seq"] for name, end in ends.items()} == {"a": 10, "b": 5, "c": 10}


def test_a_worker_that_lost_its_connection_reads_with_a_new_one(dsn: str) -> None:
    """A worker keeps ADBC's database, which PostgreSQL must be able to leave."""
    numbers("orders", 3)
    scan = Scan(database(dsn), ("seq", "data"), True)
    part = ScanShare([Range("orders", scripts.look_up("orders").id, 0, 0, 1, 3)])
    reading = scan.read(part)
    assert next(reading)["seq"].to_pylist() == [1, 2, 3]
    gone = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'topics pipeline'"
    assert rows(gone) == [(True,)]
    with suppress(adbc.Error):
        reading.close()
    assert next(scan.read(part))["data"].to_pylist() == ['{"n":1}', '{"n":2}', '{"n":3}']

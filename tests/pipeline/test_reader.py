"""read_topic: a topic as a DataFrame over JDBC, on a real Spark."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from base.clock import now_ms
from base.errors import InvalidRequest, TopicNotFound
from pipeline.database import database
from pipeline.read.batch import batch_reader
from pipeline.read.extent import divide, extent
from pipeline.reader import own_log, read_topic
from tests import scripts
from tests.log.test_reclaim import mirror
from tests.pipeline.filling import ODD, fill, numbers
from topics.config import Config


def test_it_works(spark: SparkSession, dsn: str) -> None:
    fill(
        "orders",
        ODD,
        tag=[f"t:{n}" for n in range(len(ODD))],
        meta=[b'{"k" : 1.50}'] * len(ODD),
        node=["n1"] * len(ODD),
    )
    found = read_topic(spark, "orders").orderBy("seq").collect()
    assert [row.data.encode() for row in found] == ODD
    assert [row.seq for row in found] == list(range(1, len(ODD) + 1))
    first = found[0].asDict()
    assert first.pop("ts") <= now_ms()
    topic_id = scripts.look_up("orders").id
    assert first == {
        "topic": "orders",
        "seq": 1,
        "node": "n1",
        "tag": "t:0",
        "meta": '{"k" : 1.50}',
        "data": ODD[0].decode(),
        "home_topic": "orders",
        "home_topic_id": topic_id,
        "home_seq": 1,
        "hops": 0,
    }


def test_forwarded_records_say_where_they_are_from(spark: SparkSession, dsn: str) -> None:
    numbers("orders", 5)
    mirror("orders", "audit")
    fill("audit", [b'"own"'])
    found = [
        (r.seq, r.data, r.home_topic, r.home_seq, r.hops) for r in read_topic(spark, "audit").orderBy("seq").collect()
    ]
    forwarded = [(n, f'{{"n":{n}}}', "orders", n, 1) for n in range(1, 6)]
    assert found == [*forwarded, (6, '"own"', "audit", 6, 0)]


def test_partitions_hold_equally_many_records(spark: SparkSession, dsn: str) -> None:
    numbers("orders", 400, tag=["gone" if n < 200 and n % 8 else "kept" for n in range(400)])
    scripts.delete_records("orders", None, ["tag", "Eq", "gone"], now_ms())
    read = read_topic(spark, "orders", partitions=4)
    sizes = [row["count"] for row in read.groupBy(f.spark_partition_id()).count().collect()]
    assert sorted(sizes) == [56, 56, 56, 57]
    assert read.select(f.countDistinct("seq")).first() == (225,)


def test_a_range_of_seqs_and_of_times(spark: SparkSession, dsn: str) -> None:
    for minute in range(5):
        numbers("orders", 10, now=now_ms() + minute * 60_000)
    third = read_topic(spark, "orders", from_seq=20, to_seq=30, partitions=3)
    assert [row.seq for row in third.orderBy("seq").collect()] == list(range(21, 31))
    ts = third.first().ts
    timed = read_topic(spark, "orders", from_ts=ts, to_ts=ts + 60_000)
    assert sorted(row.seq for row in timed.collect()) == list(range(21, 31))


def test_predicates_go_to_the_database(spark: SparkSession, dsn: str) -> None:
    numbers("orders", 50)
    some = read_topic(spark, "orders").where("seq > 40 AND ts > 0")
    pushed = plan(some).partition("PushedFilters: ")[2]  # a star: PostgreSQL does it, and Spark need not
    assert "*GreaterThan(seq,40)" in pushed
    assert "*GreaterThan(ts,0)" in pushed
    assert some.count() == 10


def plan(frame: object) -> str:
    return str(frame._jdf.queryExecution().executedPlan().toString())  # type: ignore[attr-defined]


@pytest.mark.parametrize("deleted", [0, 15])
def test_the_count_of_a_whole_topic_reads_only_the_primary_key(dsn: str, deleted: int) -> None:
    """Also if the topic has lost its oldest records since the plan, as a topic with a cap does all the time."""
    numbers("orders", 20)
    with database(dsn).connect() as session, session.transaction():
        topic = extent(session, "orders")
        query, conditions = own_log(topic, divide(session, topic, 1, 20, 2), False)
        scripts.delete_records("orders", deleted + 1, None, now_ms())
        session.execute("SET LOCAL enable_seqscan = off")
        session.execute("SET LOCAL enable_bitmapscan = off")
        explain = f"EXPLAIN (ANALYZE, FORMAT JSON) SELECT seq FROM ({query}) topic WHERE {conditions[1]}"
        scans = dict(scanned(session.execute(explain).fetchone()[0][0]["Plan"]))  # type: ignore[index]
    assert scans == {"Index Only Scan": 10.0 if deleted == 0 else 5.0}


def scanned(node: dict[str, Any]) -> Iterator[tuple[str, float]]:
    """Yields the type and the number of rows of each scan of records that has run."""
    if node.get("Relation Name", "").startswith("topics_record") and node["Actual Loops"]:
        yield node["Node Type"], node["Actual Rows"]
    for below in node.get("Plans", ()):
        yield from scanned(below)


def test_records_deleted_before_they_are_read_are_not_in_it(spark: SparkSession, dsn: str) -> None:
    numbers("orders", 20, tag=["odd" if n % 2 else "even" for n in range(1, 21)])
    read = read_topic(spark, "orders", partitions=2)
    scripts.delete_records("orders", None, ["tag", "Eq", "even"], now_ms())
    assert read.count() == 10
    assert sorted(row.seq for row in read.collect()) == list(range(1, 21, 2))


@pytest.mark.parametrize("floor", [0, 3])
def test_the_first_records_can_be_deleted_before_they_are_read(spark: SparkSession, dsn: str, floor: int) -> None:
    numbers("orders", 20, tag=["first" if n <= 5 else "later" for n in range(1, 21)])
    scripts.delete_records("orders", floor + 1, None, now_ms())
    read = read_topic(spark, "orders", partitions=2)
    batch = spark.read.format("topics").option("topic", "orders").option("dsn", dsn).load()
    planned = batch_reader({"topic": "orders", "dsn": dsn}, ("seq",))
    parts = planned.partitions()
    scripts.delete_records("orders", None, ["tag", "Eq", "first"], now_ms())
    assert sorted(row.seq for row in read.collect()) == list(range(6, 21))
    assert sorted(row.seq for row in batch.collect()) == list(range(6, 21))
    read_late = [seq for part in parts for batch in planned.read(part) for seq in batch.column("seq").to_pylist()]
    assert sorted(read_late) == list(range(6, 21))


def test_records_that_expire_before_they_are_read_are_not_in_it(spark: SparkSession, dsn: str) -> None:
    numbers("orders", 5, now=now_ms() - 120_000)
    numbers("orders", 5)
    read = read_topic(spark, "orders", fail_on_data_loss=False)
    assert read.count() == 10
    scripts.put_topic("orders", Config(ttl_ms=60_000), now_ms())
    assert read.count() == 5
    assert sorted(row.seq for row in read.collect()) == [6, 7, 8, 9, 10]


def test_expired_records_are_not_in_it(spark: SparkSession, dsn: str) -> None:
    scripts.put_topic("orders", Config(ttl_ms=60_000), now_ms())
    numbers("orders", 5, now=now_ms() - 120_000)
    numbers("orders", 5)
    assert read_topic(spark, "orders", fail_on_data_loss=False).count() == 5


def test_what_is_appended_meanwhile_is_not_in_it(spark: SparkSession, dsn: str) -> None:
    numbers("orders", 10)
    read = read_topic(spark, "orders")
    numbers("orders", 10)
    assert sorted(row.seq for row in read.collect()) == list(range(1, 11))


def test_data_by_a_schema_given_or_inferred(spark: SparkSession, dsn: str) -> None:
    fill("orders", [b'{"id":1,"total":1.5}', b'{"id":2,"lines":[{"sku":"a"}]}'])
    given = read_topic(spark, "orders", schema="id INT").orderBy("seq")
    assert [row.data.id for row in given.collect()] == [1, 2]
    inferred = read_topic(spark, "orders", schema="infer").orderBy("seq")
    assert json.loads(inferred.schema["data"].dataType.json())["fields"][0]["name"] == "id"
    assert [row.data.lines for row in inferred.collect()][1][0].sku == "a"


def test_an_empty_topic_is_an_empty_frame(spark: SparkSession, dsn: str) -> None:
    numbers("orders", 3)
    scripts.delete_records("orders", 4, None, now_ms())
    assert read_topic(spark, "orders").count() == 0


def test_a_topic_trimmed_before_it_is_read_fails_the_read_or_is_accepted(spark: SparkSession, dsn: str) -> None:
    numbers("orders", 20)
    read, accepting = read_topic(spark, "orders"), read_topic(spark, "orders", fail_on_data_loss=False)
    scripts.put_topic("orders", Config(cap_records=16), now_ms())
    numbers("orders", 1)  # evicts five
    with pytest.raises(
        (PySparkException, Py4JJavaError), match="topic orders lost its records up to seq 5 while it was read"
    ):
        read.collect()
    assert accepting.count() == 15


def test_a_topic_deleted_or_recreated_before_it_is_read_fails_the_read(spark: SparkSession, dsn: str) -> None:
    numbers("orders", 20)
    read = read_topic(spark, "orders")
    scripts.delete_topic("orders", False, now_ms())
    numbers("orders", 20)
    with pytest.raises((PySparkException, Py4JJavaError), match="topic orders was deleted while it was read"):
        read.collect()


def test_what_cannot_be_read_is_refused(spark: SparkSession, dsn: str) -> None:
    with pytest.raises(TopicNotFound):
        read_topic(spark, "nothing")
    numbers("orders", 1)
    with pytest.raises(InvalidRequest):
        read_topic(spark, "orders", partitions=0)

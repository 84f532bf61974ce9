"""Writes with format("topics"): each batch once, for any number of tries; and refused rows."""

from __future__ import annotations

import threading
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from base.clock import now_ms
from base.errors import InvalidRequest, NotReady, TopicSealed
from pipeline import sink, written
from pipeline.options import Options
from pipeline.written import Claim, append_in_order, append_whole
from tests import scripts
from tests.pipeline.filling import ODD, fill, numbers, rows
from topics.config import Config
from topics.records import NewRecord

DATA = "SELECT tag, node, meta::text, data::text FROM topic_log WHERE topic = %s ORDER BY seq"


def write(frame: DataFrame, dsn: str, topic: str = "out", **options: object) -> None:
    frame.write.format("topics").mode("append").options(dsn=dsn, topic=topic, **options).save()


def copy(spark: SparkSession, dsn: str, path: Path, **options: object) -> None:
    """A query from one topic to another, once to the head."""
    stream = spark.readStream.format("topics").options(
        dsn=dsn, topic="orders", startingSeq="earliest", partitions=1, **options
    )
    sink = stream.load().select("data", "tag", "node", "meta").writeStream.format("topics")
    sink.options(dsn=dsn, topic="out", checkpointLocation=str(path)).trigger(
        availableNow=True
    ).start().awaitTermination()


def test_a_query_writes_each_record_once_and_byte_for_byte(spark: SparkSession, dsn: str, tmp_path: Path) -> None:
    fill("orders", ODD, tag=["t"] * len(ODD), node=["n"] * len(ODD), meta=[b'{"k" : 1.0}'] * len(ODD))
    copy(spark, dsn, tmp_path, maxRecordsPerTrigger=4)
    fill("orders", ODD)
    copy(spark, dsn, tmp_path)
    assert rows(DATA, "out") == rows(DATA, "orders")


def test_a_batch_that_comes_again_late_is_not_written_again(spark: SparkSession, dsn: str, tmp_path: Path) -> None:
    numbers("orders", 10)
    copy(spark, dsn, tmp_path, maxRecordsPerTrigger=5)
    # As if the driver had died before it noted the end of its last batch, long ago.
    (tmp_path / "commits" / "1").unlink()
    (tmp_path / "commits" / ".1.crc").unlink(missing_ok=True)
    numbers("orders", 5)
    copy(spark, dsn, tmp_path)
    assert rows(DATA, "out") == rows(DATA, "orders")


def test_a_batch_write_is_written_once_a_call_or_once_for_its_id(spark: SparkSession, dsn: str) -> None:
    frame = spark.createDataFrame([('{"n":1}', "a"), (" 2 ", None)], "data STRING, tag STRING").coalesce(1)
    for _ in range(2):
        write(frame, dsn)
    for batch in (1, 2, 2, 1):
        write(frame, dsn, writeId="mine", batch=batch)
    assert rows(DATA, "out") == [("a", None, None, '{"n":1}'), (None, None, None, "2")] * 4


def test_what_is_no_json_fails_the_write_and_leaves_nothing(spark: SparkSession, dsn: str) -> None:
    with pytest.raises((PySparkException, Py4JJavaError), match="is no JSON"):
        write(spark.sql("SELECT '1,2' AS data"), dsn)
    assert rows("SELECT count(*) FROM topic_log") == [(0,)]


@pytest.mark.parametrize(
    ("row", "refusal"),
    [
        ({"data": "[1"}, "is no JSON"),
        ({"data": "1,2"}, "is no JSON"),
        ({"data": ""}, "is no JSON"),
        ({"data": None}, "data is null"),
        ({"data": "1", "meta": "{"}, "is no JSON"),
        ({"data": "1", "meta": "[]"}, "invalid meta: expected an object"),
        ({"data": "1", "tag": "a" * 300}, "tag has 300 bytes"),
    ],
)
def test_a_row_that_is_no_record_is_refused(row: dict[str, str | None], refusal: str) -> None:
    batch = pa.RecordBatch.from_pylist([row], schema=pa.schema([(name, pa.string()) for name in row]))
    with pytest.raises(InvalidRequest, match=refusal):
        list(written.chunks(sink.records([batch])))


@pytest.mark.parametrize(
    ("columns", "options", "refusal"),
    [
        ("tag STRING", {}, "there is no column data"),
        ("data INT", {}, "column data .int. cannot be written"),
        ("data STRING, key STRING", {}, "column key .string. cannot be written"),
        ("data STRING", {"writeid": "a", "colour": "red"}, "no option is called colour"),
        ("data STRING", {"path": "/x"}, "no option is called path"),
        ("data STRING", {"batch": "1"}, "give both"),
        ("data STRING", {"batch": "-1"}, "batch=-1 is not a whole number"),
        ("data STRING", {"topic": ""}, "the option topic is missing"),
        ("data STRING", {"url": "postgresql://x"}, "dsn and url say the same"),
    ],
)
def test_what_cannot_be_written_is_refused(
    spark: SparkSession, columns: str, options: dict[str, str], refusal: str
) -> None:
    schema = spark.createDataFrame([], columns).schema
    given = {"dsn": "dbname=x", "topic": "out", **options}
    with pytest.raises(InvalidRequest, match=refusal):
        sink.BatchWriter(Options(given, sink.BATCH_OPTIONS), schema)


def test_a_topic_that_is_full_fails_the_query(spark: SparkSession, dsn: str, tmp_path: Path) -> None:
    scripts.put_topic("out", Config(cap_records=3, discard="reject"), now_ms())
    numbers("orders", 5)
    with pytest.raises(StreamingQueryException, match="'out' has no room: 0 of at most 3 records"):
        copy(spark, dsn, tmp_path)
    assert rows(DATA, "out") == []
    scripts.put_topic("out", Config(cap_records=100), now_ms())
    copy(spark, dsn, tmp_path)
    assert len(rows(DATA, "out")) == 5


# -- What was written, without Spark --------------------------------------------------------------------------------


def records(count: int) -> list[NewRecord]:
    return [NewRecord(msgspec.Raw(b"%d" % n)) for n in range(1, count + 1)]


def written_data() -> list[int]:
    return [int(data) for *_, data in rows(DATA, "out")]


def test_of_two_tries_at_once_one_writes(dsn: str) -> None:
    claim, done = Claim("out", "w", 0, 7), []
    append_whole(claim._replace(batch=6), records(1))

    def write_it() -> None:
        from django.db import connection

        done.append(append_whole(claim, iter(records(500))))
        connection.close()

    tries = [threading.Thread(target=write_it) for _ in range(4)]
    for each in tries:
        each.start()
    for each in tries:
        each.join()
    assert sorted(done) == [0, 0, 0, 500]
    assert append_whole(claim._replace(batch=6), records(1)) == 0
    assert written_data() == [1, *range(1, 501)]


def test_a_sealed_topic_takes_no_batch_and_knows_those_that_it_has(dsn: str) -> None:
    claim = Claim("out", "w", 0, 7)
    assert append_whole(claim, records(2)) == 2
    scripts.put_topic("out", Config(sealed=True), now_ms())
    assert append_whole(claim, records(2)) == 0
    with pytest.raises(TopicSealed):
        append_whole(claim._replace(batch=8), records(1))
    scripts.put_topic("out", Config(sealed=False), now_ms())
    assert append_whole(claim._replace(batch=8), records(1)) == 1


def test_a_try_that_fails_in_the_middle_leaves_nothing(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(written, "CHUNK_RECORDS", 10)

    def fails() -> object:
        yield from records(25)
        raise OSError("the upstream died")

    with pytest.raises(OSError, match="upstream"):
        append_whole(Claim("out", "w", 0, 0), fails())  # type: ignore[arg-type]
    assert append_whole(Claim("out", "w", 0, 0), records(25)) == 25
    assert written_data() == list(range(1, 26))


def test_in_order_it_goes_on_where_a_try_ended(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(written, "CHUNK_RECORDS", 10)
    claim = Claim("out", "w", 0, 0)

    def dies() -> object:
        yield from records(25)
        raise OSError("killed")

    with pytest.raises(OSError, match="killed"):
        append_in_order(claim, dies())  # type: ignore[arg-type]
    assert written_data() == list(range(1, 21))
    assert append_in_order(claim, records(42)) == 22
    assert written_data() == list(range(1, 43))


def test_in_order_a_late_double_writes_nothing(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(written, "CHUNK_RECORDS", 10)
    claim = Claim("out", "w", 0, 0)

    def overtaken() -> object:
        yield from records(10)
        append_in_order(claim, records(30))  # another try gets to the end meanwhile
        yield from records(30)[10:]

    with pytest.raises(NotReady, match="another try of this task"):
        append_in_order(claim, overtaken())  # type: ignore[arg-type]
    assert written_data() == list(range(1, 31))

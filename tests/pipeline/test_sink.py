"""Writes with format("topics"): each batch once, for any number of tries; and refused rows."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import psycopg
import pyarrow as pa
import pytest
from django.db import connection
from psycopg.conninfo import make_conninfo
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from base.clock import now_ms
from base.errors import Forbidden, InvalidRequest, NotReady, RecordTooLarge, Throttled, TopicSealed
from pipeline.database import database
from pipeline.options import Options
from pipeline.write import sink, written
from pipeline.write.chunks import COLUMNS, Bounds, chunks
from pipeline.write.repeats import look
from pipeline.write.written import Claim
from tests import scripts
from tests.fuzz.values import DEEPER, KEPT
from tests.instances import until
from tests.pipeline.filling import ODD, fill, numbers, rows
from topics.config import Config
from topics.models import TopicHead

BOUNDS = Bounds.of_environment()
DATA = "SELECT tag, node, meta::text, data::text FROM topic_log WHERE topic = %s ORDER BY seq"


DECODE = msgspec.json.decode


def batch(*rows: dict[str, str | None], columns: Iterable[str] = ()) -> pa.RecordBatch:
    """By default with the columns that the rows have."""
    names = columns or dict.fromkeys(name for row in rows for name in row)
    return pa.RecordBatch.from_pylist(list(rows), schema=pa.schema([(name, pa.string()) for name in names]))


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


@pytest.mark.guarantee("S4")
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
        write(frame, dsn, writeId="w" * sink.LONGEST_ID, batch=batch)
    assert rows(DATA, "out") == [("a", None, None, '{"n":1}'), (None, None, None, "2")] * 4


def numbered(spark: SparkSession, partitions: int, fails_at: int | None = None) -> DataFrame:
    """The numbers 0 to 999. `fails_at`: this number is no JSON."""
    frame = spark.range(0, 1000, 1, partitions)
    return frame.selectExpr(
        f"CASE WHEN id = {-1 if fails_at is None else fails_at} THEN 'x,' ELSE string(id) END AS data"
    )


@pytest.mark.parametrize("partitions", [2, 3, 5])
def test_a_repeat_of_a_finished_write_writes_nothing(spark: SparkSession, dsn: str, partitions: int) -> None:
    write(numbered(spark, 3), dsn, writeId="load-7")
    write(numbered(spark, partitions), dsn, writeId="load-7")
    assert sorted(written_data()) == list(range(1000))
    write(numbered(spark, partitions), dsn, writeId="load-7", batch=1)
    assert len(written_data()) == 2000


@pytest.mark.parametrize("partitions", [2, 5])
def test_a_repeat_of_an_unfinished_write_needs_the_same_partitions(
    spark: SparkSession, dsn: str, partitions: int
) -> None:
    with pytest.raises((PySparkException, Py4JJavaError), match="is no JSON"):
        write(numbered(spark, 3, fails_at=999).coalesce(3), dsn, writeId="load-7")
    before = written_data()
    assert 0 < len(before) < 1000
    with pytest.raises((PySparkException, Py4JJavaError), match="repeat it with the same partitions"):
        write(numbered(spark, partitions), dsn, writeId="load-7")
    assert written_data() == before
    write(numbered(spark, 3), dsn, writeId="load-7")
    assert sorted(written_data()) == list(range(1000))
    write(numbered(spark, partitions), dsn, writeId="load-7")
    assert len(written_data()) == 1000


def test_a_column_names_the_topic_of_each_record(spark: SparkSession, dsn: str) -> None:
    frame = spark.range(0, 100, 1, 3).selectExpr("concat('out-', id % 7) AS topic", "string(id) AS data")
    for batch in (0, 0, 1):
        frame.write.format("topics").mode("append").options(dsn=dsn, writeId="many", batch=batch).save()
    found = rows("SELECT topic, count(*), sum(data::text::int) FROM topic_log GROUP BY topic ORDER BY topic")
    assert found == [(f"out-{n}", 2 * len(range(n, 100, 7)), 2 * sum(range(n, 100, 7))) for n in range(7)]


def test_a_query_writes_to_the_topics_of_its_column(spark: SparkSession, dsn: str, tmp_path: Path) -> None:
    numbers("orders", 20)
    stream = spark.readStream.format("topics").options(dsn=dsn, topic="orders", startingSeq="earliest").load()
    sink = stream.selectExpr("if(seq % 2 = 0, 'even', 'odd') AS topic", "data").writeStream.format("topics")
    query = sink.options(dsn=dsn, checkpointLocation=str(tmp_path)).trigger(availableNow=True).start()
    query.awaitTermination()
    found = rows("SELECT topic, count(*) FROM topic_log GROUP BY topic ORDER BY topic")
    assert found == [("even", 10), ("odd", 10), ("orders", 20)]


@pytest.mark.parametrize(("topic", "refusal"), [("NULL", "topic is null"), ("'no topic'", "invalid topic .no topic.")])
def test_a_record_without_a_valid_topic_is_refused(spark: SparkSession, dsn: str, topic: str, refusal: str) -> None:
    frame = spark.sql(f"SELECT string({topic}) AS topic, '1' AS data")
    with pytest.raises((PySparkException, Py4JJavaError), match=refusal):
        frame.write.format("topics").mode("append").options(dsn=dsn).save()
    assert rows("SELECT count(*) FROM topic_log") == [(0,)]


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
    batches = [batch({"data": "0", "meta": "{}"}, row, {"data": "1"})]
    with pytest.raises(InvalidRequest, match=refusal):
        list(chunks(batches, BOUNDS))


def test_chunks_have_the_records_as_they_came(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the batches are: a chunk ends with the piece by which it has 10 records or 100 bytes."""
    monkeypatch.setattr("pipeline.write.chunks.CHUNK_RECORDS", 10)
    monkeypatch.setattr("pipeline.write.chunks.CHUNK_BYTES", 100)
    sent = [{"data": f' "{"é" * (n % 60)}"\n', "tag": f't{n}"' if n % 3 else None} for n in range(200)]
    sent += [{"data": "1", "meta": ' {"k" : 1.0} ', "node": "n"}, {"data": "[1, 2]", "meta": "null"}]
    split = [batch(*sent[start:end], columns=COLUMNS) for start, end in pairwise((0, 1, 1, 40, 150, 202))]
    made = list(chunks(split, BOUNDS))
    assert all(chunk.records < 20 and len(chunk.data.encode()) < 250 for chunk in made)
    data, tags, nodes, metas = ([one for c in made for one in DECODE(c[n])] for n in range(1, 5))
    assert data == [DECODE(each["data"]) for each in sent]
    assert tags == [each.get("tag") for each in sent]
    assert nodes == [each.get("node") for each in sent]
    assert metas == [None] * 200 + [{"k": 1.0}, None]
    assert '{"k" : 1.0}' in made[-1].metas


def test_sql_has_the_bound_for_the_depth_too(dsn: str) -> None:
    for deep in ({"data": DEEPER[0].decode()}, {"data": "1", "meta": f'{{"k":{DEEPER[1].decode()}}}'}):
        with pytest.raises(InvalidRequest, match="at most 128 levels"):
            append_whole(Claim("out", "w", 0, 0), [batch({"data": "1"}, deep)])
    assert append_whole(Claim("out", "w", 0, 0), records(2)) == 2
    for value in (*(each for each in KEPT if b"u0000" not in each), *DEEPER):
        with connection.cursor() as cursor:
            cursor.execute("SELECT json_is_deep(%s)", [value.decode()])
            assert cursor.fetchone() == (value in DEEPER,), value[:50]


def test_records_beyond_a_bound_are_refused() -> None:
    with pytest.raises(RecordTooLarge, match="a record has 12 bytes: expected at most 11"):
        list(chunks([batch({"data": "1"}, {"data": "12345", "meta": '{"a":1}'})], BOUNDS._replace(record_bytes=11)))
    with pytest.raises(InvalidRequest, match="nested too deeply"):
        list(chunks([batch({"data": "[" * 5000 + "]" * 5000})], BOUNDS))
    with pytest.raises(InvalidRequest, match="node contains a NUL"):
        list(chunks([batch({"data": "1", "node": "a\0"})], BOUNDS))


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
        ("data STRING", {"writeId": "w" * 250}, "writeId has 250 characters: expected at most 249"),
        ("data STRING", {"topic": ""}, "the option topic is missing"),
        ("data STRING, topic STRING", {}, "the option topic and the column topic both name the topic"),
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


def records(count: int, first: int = 1) -> list[pa.RecordBatch]:
    return [batch({"data": str(n)}) for n in range(first, count + 1)]


def append_whole(claim: Claim, incoming: Iterable[pa.RecordBatch]) -> int:
    with database().connect() as session:
        return written.append_whole(session, claim, chunks(incoming, BOUNDS))


def append_in_order(claim: Claim, incoming: Iterable[pa.RecordBatch]) -> int:
    with database().connect() as session:
        return written.append_in_order(session, claim, incoming, BOUNDS)


def stored(claim: Claim) -> int:
    with database().connect() as session:
        return written.so_far(session, claim)


def written_data() -> list[int]:
    return [int(data) for *_, data in rows(DATA, "out")]


@pytest.mark.guarantee("S4")
def test_of_two_tries_at_once_one_writes(dsn: str) -> None:
    claim, done = Claim("out", "w", 0, 7), []
    append_whole(claim._replace(batch=6), records(1))

    def write_it() -> None:
        done.append(append_whole(claim, iter(records(500))))

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


def test_a_batch_with_a_number_beyond_a_double_is_refused_whole_and_a_restore_keeps_it(dsn: str) -> None:
    scripts.put_topic("out", Config(numbers="double"), now_ms())
    large = [batch({"data": "1"}, {"data": '{"amounts": [1, -1e400]}', "meta": "{}"})]
    with pytest.raises(
        InvalidRequest, match=r"^records\[1\]\.data\.amounts\[1\] is beyond the range of a double"
    ) as error:
        append_whole(Claim("out", "w", 0, 7), large)
    assert error.value.detail == {"field": "records[1].data.amounts[1]", "index": 1}
    with pytest.raises(InvalidRequest, match=r"^records\[0\]\.meta\.x is beyond"):
        append_whole(Claim("out", "w", 0, 7), [batch({"data": "1", "meta": '{"x": 1e400}'})])
    assert append_whole(Claim("out", "w", 0, 7), records(2)) == 2
    assert append_in_order(Claim("out", "restore", 0, 0), large) == 2


def test_caps_of_all_topics_are_those_of_the_server(dsn: str) -> None:
    claim = Claim("out", "w", 0, 7)

    def append(batch: int, topics: int = 0, total_bytes: int = 0) -> int:
        with limited(f"max_topics = {topics}, max_total_bytes = {total_bytes}"):
            return append_whole(claim._replace(batch=batch), records(9))

    scripts.put_topic("other", Config(), now_ms())
    with pytest.raises(Throttled, match="the cap of 1 is reached") as error:
        append(1, topics=1)
    assert error.value.detail == {"limit": "topics", "max": 1}
    assert append(1, topics=2) == 9
    assert append(2, topics=1) == 9  # the topic exists
    with pytest.raises(Throttled, match="the topics hold 18 of at most 20 bytes"):
        append(3, total_bytes=20)
    assert append(2, total_bytes=20) == 0  # the topic has this batch
    assert append(3, total_bytes=100) == 9
    with pytest.raises(Throttled, match="the topics hold 27 of at most 30 bytes"), limited("max_total_bytes = 30"):
        append_in_order(Claim("out", "restore", 0, 0), records(9))


@contextmanager
def limited(limits: str) -> Iterator[None]:
    """The limits of the server's last start are these meanwhile. The others stay."""
    execute("CREATE TEMPORARY TABLE kept AS SELECT * FROM door_limits")
    execute(f"UPDATE door_limits SET {limits}")
    try:
        yield
    finally:
        execute("DELETE FROM door_limits")
        execute("INSERT INTO door_limits SELECT * FROM kept")
        execute("DROP TABLE kept")


def call(topic: str, data: str, tag: str = "null", node: str = "null", meta: str = "null") -> int:
    """A call by a login of a writer, past the sink: of a plain record, and of one with these fields as JSON."""
    columns = {"data": f"[1,{data}]", "tags": f"[null,{tag}]", "nodes": f"[null,{node}]", "metas": f"[null,{meta}]"}
    with database().connect() as session, written.translated():
        row = session.execute(
            written.APPEND, {**Claim(topic, "w", 0, 7)._asdict(), "expected": 0, **columns}
        ).fetchone()
    assert row is not None
    return int(row[0])


MANY_KEYS = msgspec.json.encode({str(n): n for n in range(65)}).decode()


@pytest.mark.parametrize(
    ("fields", "refusal"),
    [
        ({"data": f'"{"x" * 2**20}"'}, r"records\[1\] has 1048578 bytes: expected at most 1048576"),
        ({"data": r'"\ud800"'}, "half a surrogate pair"),
        ({"data": "1", "tag": f'"{"x" * 257}"'}, "tag has 257 bytes: expected at most 256"),
        ({"data": "1", "node": f'"{"x" * 129}"'}, "node has 129 bytes: expected at most 128"),
        ({"data": "1", "meta": f'{{"a": "{"x" * 2**14}"}}'}, "meta has 16393 bytes: expected at most 16384"),
        ({"data": "1", "meta": MANY_KEYS}, "meta has 65 keys: expected at most 64"),
        ({"data": "1", "meta": "[]"}, "invalid meta: expected an object"),
        ({"data": "1", "meta": '{"$dead_letter_from": "orders"}'}, "meta has the key .dead_letter_from"),
        ({"data": "1", "meta": r'{"\u0024dead_letter_from": "orders"}'}, "meta has the key .dead_letter_from"),
        ({"data": "1", "meta": '{"_topics_mirror": 1}'}, "meta has the key _topics_mirror"),
        ({"data": "1, 2"}, "the lists of a chunk differ in length"),
        ({"topic": "bus:orders", "data": "1"}, "is a topic of the push bus"),
    ],
)
def test_a_call_past_the_sink_is_judged_as_an_append_over_http(dsn: str, fields: dict[str, str], refusal: str) -> None:
    with pytest.raises((InvalidRequest, RecordTooLarge), match=refusal):
        call(**{"topic": "out", **fields})
    assert rows("SELECT count(*) FROM topics_topic") == [(0,)]


def test_a_call_past_the_sink_has_the_bounds_of_the_server(dsn: str) -> None:
    with limited("record_bytes = 20"):
        with pytest.raises(RecordTooLarge, match="has 22 bytes: expected at most 20") as error:
            call("out", f'"{"x" * 20}"')
        assert error.value.detail == {"index": 1, "max": 20}
        assert call("out", f'"{"x" * 18}"') == 2


def test_a_valid_record_that_looks_odd_is_stored_byte_for_byte(dsn: str) -> None:
    data, meta = r'{"a" : "\ud83d\ude00 \u0000", "a":1e400}', r'{ "_topics_router" : "\u0024", "x":1.0E+05}'
    assert call("out", data, '"t"', '"n"', meta) == 2
    assert rows(DATA, "out") == [(None, None, None, "1"), ("t", "n", meta, data)]


def test_a_try_that_fails_in_the_middle_leaves_nothing(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.write.chunks.CHUNK_RECORDS", 10)

    def fails() -> Iterator[pa.RecordBatch]:
        yield from records(25)
        raise OSError("the upstream died")

    with pytest.raises(OSError, match="upstream"):
        append_whole(Claim("out", "w", 0, 0), fails())
    assert append_whole(Claim("out", "w", 0, 0), records(25)) == 25
    assert written_data() == list(range(1, 26))


def test_in_order_it_goes_on_where_a_try_ended(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.write.chunks.CHUNK_RECORDS", 10)
    claim = Claim("out", "w", 0, 0)

    def dies() -> Iterator[pa.RecordBatch]:
        yield from records(25)
        raise OSError("killed")

    with pytest.raises(OSError, match="killed"):
        append_in_order(claim, dies())
    assert written_data() == list(range(1, 21))
    assert append_in_order(claim, records(42)) == 22
    assert written_data() == list(range(1, 43))


def test_in_order_a_late_double_writes_nothing(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.write.chunks.CHUNK_RECORDS", 10)
    claim = Claim("out", "w", 0, 0)

    def overtaken() -> Iterator[pa.RecordBatch]:
        yield from records(10)
        until(lambda: stored(claim) == 10, "the first chunk")  # a thread makes the next chunk meanwhile
        append_in_order(claim, records(30))  # another try gets to the end meanwhile
        yield from records(30, 11)

    with pytest.raises(NotReady, match="another run is writing the same records"):
        append_in_order(claim, overtaken())
    assert written_data() == list(range(1, 31))


@pytest.mark.parametrize(
    "config",
    [{}, {"durability": "memory"}, {"cap_records": 3}, {"cap_bytes": 20}, {"durability": "fsync", "ttl_ms": 1_000_000}],
)
def test_the_function_leaves_a_topic_as_an_append_by_the_server_does(dsn: str, config: dict[str, Any]) -> None:
    """All columns of heads and records, except times and ids. `out` is created by the function if it has no config."""
    if config:
        scripts.put_topic("out", Config(**config), now_ms())
    scripts.put_topic("expected", Config(**config), now_ms())
    meta, own = '{"k" : 1}', {"tag": ["t", "t"], "node": ["n", "n"], "meta": [b'{"k" : 1}'] * 2}
    for n in range(3):
        both = [{"data": each, "tag": "t", "node": "n", "meta": meta} for each in ("[1]", '"two"')]
        append_whole(Claim("out", "w", 0, n), [batch(*both)])
        append_whole(Claim("out", "v", 0, n), [batch({"data": "3"})])
        fill("expected", [b"[1]", b'"two"'], **own)
        fill("expected", [b"3"])
    heads = TopicHead.objects.order_by("topic__name").values()
    expected, out = (
        {name: head[name] for name in head if name not in ("topic_id", "last_ts", "last_read_ts")} for head in heads
    )
    assert out == expected
    kept = "SELECT seq, total, size, deleted, volatile, node, tag, meta::text, data::text FROM topics_record WHERE topic_id = %s"
    assert rows(kept, scripts.look_up("out").id) == rows(kept, scripts.look_up("expected").id)
    configs = rows("SELECT to_jsonb(t) - '{id,name,created_ts}'::text[] FROM topics_topic t")
    assert configs[0] == configs[1]


def test_a_writer_that_is_the_first_after_a_crash_gets_no_seq_that_readers_have_seen(dsn: str) -> None:
    assert append_whole(Claim("out", "w", 0, 0), records(2)) == 2
    reserved = TopicHead.objects.get(topic__name="out").reserved_seq
    assert reserved > 2
    execute("UPDATE topics_survived SET home = 'elsewhere'")  # a copy of the database counts as crashed
    assert append_whole(Claim("out", "w", 0, 1), records(1)) == 1
    assert rows("SELECT max(seq) FROM topic_log WHERE topic = 'out'") == [(reserved + 1,)]


def execute(statement: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement)


def test_a_query_creates_no_cursor_above_the_cap(dsn: str) -> None:
    scripts.put_topic("out", Config(), now_ms())
    with limited("max_cursors = 1"), database(dsn).connect() as session:
        for _ in range(2):
            session.execute("SELECT pipeline_follow('out', 'a', 0)")
        with pytest.raises(InvalidRequest, match="the cap of 1 is reached"), written.translated():
            session.execute("SELECT pipeline_follow('out', 'b', 0)")


def test_the_rights_of_a_login_limit_what_spark_writes(dsn: str) -> None:
    """The role topics_writer has Spark's functions, too, so a login could append to all topics by them."""
    scripts.put_topic("theirs", Config(), now_ms())
    execute("CREATE ROLE grace LOGIN PASSWORD 'secret' IN ROLE topics_writer")
    execute("INSERT INTO door_right VALUES ('grace', 'mine', '{write}')")
    try:
        with database(make_conninfo(dsn, user="grace", password="secret")).connect() as session:
            assert written.append_whole(session, Claim("mine", "w", 0, 0), chunks(records(2), BOUNDS)) == 2
            session.execute("SELECT pipeline_mark('{mine}', 'w', 0, 1)")
            for topic in ("theirs", "nobody-knows"):
                with pytest.raises(Forbidden, match="outside the prefixes"):
                    written.append_whole(session, Claim(topic, "w", 0, 0), chunks(records(2), BOUNDS))
                with pytest.raises(Forbidden, match="outside the prefixes"), written.translated():
                    session.execute("SELECT pipeline_mark(%s, 'w', 0, 1)", [["mine", topic]])
            with pytest.raises(Forbidden, match="lacks the scope 'commit'"), written.translated():
                session.execute("SELECT pipeline_follow('mine', 'c', 0)")
            execute("UPDATE door_right SET scopes = '{commit}' WHERE login = 'grace'")
            session.execute("SELECT pipeline_follow('mine', 'c', 1)")
            with pytest.raises(Forbidden, match="outside the prefixes"), written.translated():
                session.execute("SELECT pipeline_follow('theirs', 'c', 0)")
            with pytest.raises(Forbidden, match="lacks the scope 'write'"):
                written.append_whole(session, Claim("mine", "w", 0, 1), chunks(records(2), BOUNDS))
        held = "SELECT name, count FROM topics_topic JOIN topics_topichead ON topic_id = id ORDER BY name"
        assert rows(held) == [("mine", 2), ("theirs", 0)]
        assert rows("SELECT kind, name, seq FROM topics_cursor") == [("named", "c", 1)]
    finally:
        execute("DELETE FROM door_right")
        execute("DROP ROLE grace")


def test_a_repeat_of_a_limited_login_knows_its_own_topics_alone(dsn: str) -> None:
    for topic in ("mine", "theirs"):
        assert append_whole(Claim(topic, "write:load", 2, 0), records(3)) == 3
    execute("CREATE ROLE grace LOGIN PASSWORD 'secret' IN ROLE topics_writer")
    execute("INSERT INTO door_right VALUES ('grace', 'mine', '{write}')")
    try:
        theirs = database(make_conninfo(dsn, user="grace", password="secret"))
        repeat = look(theirs, "write:load", 0, sink.ONCE, False)
        assert (repeat.is_done, repeat.known) == (False, {("mine", 2): 3})
        with theirs.connect() as session:
            repeat.check(session, 2, {"mine": 3})
            repeat.check(session, 3, {"mine": 1})  # a new partition waits for the note of the known one
        repeat.finish(theirs, ["mine"], 2)
        assert look(theirs, "write:load", 0, sink.ONCE, False).is_done
    finally:
        execute("DELETE FROM door_right")
        execute("DROP ROLE grace")


def test_a_login_of_a_writer_appends_and_moves_cursors_and_does_nothing_else(dsn: str) -> None:
    execute("CREATE ROLE grace LOGIN PASSWORD 'secret' IN ROLE topics_writer")
    try:
        with database(make_conninfo(dsn, user="grace", password="secret")).connect() as session:
            assert written.append_whole(session, Claim("out", "w", 0, 0), chunks(records(2), BOUNDS)) == 2
            session.execute("SELECT pipeline_follow('out', 'mine', 2)")
            for refused in (
                "SELECT FROM topics_record",
                "SELECT FROM topics_topic",
                "SELECT FROM topics_total",
                "SELECT count FROM topics_topichead",
                "SELECT FROM pipeline_written",
                "DELETE FROM topics_topichead",
                "SELECT pipeline_store('out', 'w', 0, 9, 0, '[1]', '[null]', '[null]', '[null]')",
            ):
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    session.execute(refused)
        assert rows("SELECT kind, name, seq FROM topics_cursor") == [("named", "mine", 2)]
        with (
            database(make_conninfo(dsn, user="grace", password="secret")).connect() as session,
            pytest.raises(InvalidRequest),
        ):
            written.append_whole(session, Claim("no/name", "w", 0, 0), chunks(records(2), BOUNDS))
    finally:
        execute("DROP ROLE grace")

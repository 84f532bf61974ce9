"""Many topics: their number costs no sessions, topics without new records cost no statement, and order and replays stay."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable

from base.clock import now_ms
from pipeline.read.scan import DataLoss, ScanShare
from pipeline.read.stream import Offset, StreamReader, stream_reader
from tests import scripts
from tests.pipeline.filling import fill, numbers, rows, sessions
from tests.pipeline.test_source import Query, read
from topics.config import Config

TOPICS = 30


@pytest.fixture
def shop(dsn: str) -> list[str]:
    """Topics with a record each."""
    names = [f"shop:{n:02}" for n in range(TOPICS)]
    for name in names:
        numbers(name, 1)
    return names


def follow(dsn: str, **options: str) -> StreamReader:
    return stream_reader({"dsn": dsn, "prefix": "shop:", **options}, ("topic", "seq", "data"))


def planned(stream: StreamReader, start: Offset, end: Offset) -> list[ScanShare]:
    return [share for share in stream.partitions(start, end) if isinstance(share, ScanShare)]


def pairs(stream: StreamReader, shares: Sequence[ScanShare]) -> list[list[tuple[str, int]]]:
    """Returns the topics and seqs that each share yields."""
    return [
        [(row["topic"], row["seq"]) for batch in stream.read(share) for row in batch.to_pylist()] for share in shares
    ]


def test_a_micro_batch_plans_only_topics_with_new_records(dsn: str, shop: list[str]) -> None:
    stream = follow(dsn)
    start = stream.initialOffset()
    numbers(shop[7], 2)
    before = sessions()
    end = stream.latestOffset(start, ReadAllAvailable())
    shares = planned(stream, start, end)
    assert pairs(stream, shares) == [[(shop[7], 2), (shop[7], 3)]]
    assert sessions() - before <= 4  # the end, the plan, and the read, which asks for PostgreSQL's types once
    assert stream.latestOffset(end, ReadAllAvailable()) == end
    assert stream.partitions(end, end) == []


def test_small_topics_share_a_task_and_each_stays_in_order(dsn: str, shop: list[str]) -> None:
    stream = follow(dsn, startingSeq="earliest")
    start = stream.initialOffset()
    numbers(shop[0], 5_000)
    fill(shop[3], [b"1", b"2"])
    end = stream.latestOffset(start, ReadAllAvailable())
    before = sessions()
    shares = planned(stream, start, end)
    assert sessions() - before == 1
    assert [len(share.ranges) for share in shares] == [1, TOPICS]
    first, second = pairs(stream, shares)
    assert [seq for topic, seq in first + second if topic == shop[0]] == list(range(1, 5_002))
    assert [seq for topic, seq in second if topic == shop[3]] == [1, 2, 3]
    assert {topic for topic, _ in second} == set(shop)
    assert planned(stream, start, end) == shares  # a batch is planned again after a restart


def trim() -> None:
    scripts.delete_records("shop:large", 7_000, None, now_ms())


def delete_half() -> None:
    scripts.delete_records("shop:large", None, ["tag", "Eq", "first"], now_ms())


def evict() -> None:
    scripts.put_topic("shop:large", Config(cap_records=100), now_ms())
    numbers("shop:large", 1)


def expire() -> None:
    hour = 3_600_000
    scripts.put_topic("shop:large", Config(ttl_ms=hour), now_ms() + 2 * hour)


def delete_the_topic() -> None:
    scripts.delete_topic("shop:large", False, now_ms())


def create_it_again() -> None:
    delete_the_topic()
    numbers("shop:large", 10)


@pytest.mark.guarantee("S4")
@pytest.mark.parametrize("change", [trim, delete_half, evict, expire, delete_the_topic, create_it_again])
def test_a_batch_that_is_planned_again_has_the_same_tasks(
    dsn: str, shop: list[str], change: Callable[[], None]
) -> None:
    """The sink knows the tasks of a batch by their numbers. Spark asks for the start of the first batch again."""
    numbers("shop:large", 12_000, tag=["first"] * 6_000 + ["second"] * 6_000)
    numbers("shop:more", 4_000)
    stream = follow(dsn, startingSeq="earliest")
    start = stream.initialOffset()
    end = stream.latestOffset(start, ReadAllAvailable())
    first = planned(stream, start, end)
    before = pairs(stream, first)
    divided = [each for share in borders(first) for each in share if each[0] == "shop:large"]
    assert divided == [("shop:large", 1, 4_000), ("shop:large", 4_001, 8_000), ("shop:large", 8_001, 12_000)]
    change()
    again = follow(dsn, startingSeq="earliest", failOnDataLoss="false", partitions="1")
    for begin in (start, again.initialOffset()):
        second = planned(again, begin, end)
        assert borders(second) == borders(first)
    for task, later in zip(before, pairs(again, second), strict=True):
        assert set(later) <= set(task)  # what is left
        assert all(topic == "shop:large" for topic, _ in set(task) - set(later))


def borders(shares: Sequence[ScanShare]) -> list[list[tuple[str, int, int]]]:
    return [[(each.topic, each.first, each.last) for each in share.ranges] for share in shares]


def test_a_batch_that_an_older_version_planned_keeps_its_tasks(dsn: str, shop: list[str]) -> None:
    """0.3.0 had no task for several topics. Later versions put the mark `shared` into an offset, and counted records, too."""
    stream = follow(dsn, startingSeq="earliest")
    scripts.delete_records(shop[2], 2, None, now_ms())
    offsets = stream.initialOffset(), stream.reportLatestOffset()
    old = [{name: {"id": at["id"], "seq": at["seq"]} for name, at in offset.items()} for offset in offsets]
    assert pairs(stream, planned(stream, *old)) == [[(name, 1)] for name in shop if name != shop[2]]
    shared = [{name: at | {"shared": 1} for name, at in offset.items()} for offset in old]
    assert pairs(stream, planned(stream, *shared)) == [[(name, 1) for name in shop if name != shop[2]]]
    numbers(shop[0], 10_000, tag=["deleted" if 1_000 <= n < 5_000 else "kept" for n in range(1, 10_001)])
    scripts.delete_records(shop[0], None, ["tag", "Eq", "deleted"], now_ms())
    head = {**shared[1], shop[0]: {**shared[1][shop[0]], "seq": 10_001}}
    assert borders(planned(stream, shared[1], head)) == [[(shop[0], 2, 7_001)], [(shop[0], 7_002, 10_001)]]
    end = stream.latestOffset(head, ReadAllAvailable())
    assert end == head  # without new records, the next batch does not begin
    numbers(shop[1], 1)
    after = stream.latestOffset(head, ReadAllAvailable())
    assert borders(planned(stream, head, after)) == [[(shop[1], 2, 2)]]


def test_a_loss_in_one_of_many_topics_is_named(dsn: str, shop: list[str]) -> None:
    stream = follow(dsn)
    start = stream.initialOffset()
    scripts.put_topic(shop[5], Config(cap_records=2), now_ms())
    numbers(shop[4], 1)
    end = stream.latestOffset(start, ReadAllAvailable())
    shares = planned(stream, start, end)
    numbers(shop[5], 5)
    with pytest.raises(DataLoss, match=rf"topic {shop[5]} lost records above seq 1 \(cap\)"):
        stream.partitions(start, stream.latestOffset(start, ReadAllAvailable()))
    scripts.delete_topic(shop[4], False, now_ms())
    with pytest.raises(DataLoss, match=f"topic {shop[4]} was deleted"):
        pairs(stream, shares)
    with pytest.raises(DataLoss, match=f"topic {shop[4]} was deleted"):
        stream.latestOffset(start, ReadAllAvailable())
    accepting = follow(dsn, failOnDataLoss="false")
    assert pairs(accepting, shares) == [[]]


def test_a_cursor_is_committed_only_where_it_moves(dsn: str, shop: list[str]) -> None:
    stream = follow(dsn, cursor="spark")
    start = stream.initialOffset()
    stream.commit(start)
    numbers(shop[3], 2)
    rows("UPDATE topics_cursor SET updated_ts = 0 RETURNING 1")
    stream.commit(stream.latestOffset(start, ReadAllAvailable()))
    assert rows("SELECT count(*), sum(seq)::int FROM topics_cursor WHERE kind = 'named'") == [(TOPICS, TOPICS + 2)]
    assert rows("SELECT seq FROM topics_cursor WHERE updated_ts > 0") == [(3,)]


def test_a_query_of_many_topics_opens_few_sessions(
    spark: SparkSession, dsn: str, shop: list[str], tmp_path: Path
) -> None:
    query = Query(spark, dsn, tmp_path, prefix="shop:").run()
    assert sorted(query.batches[0]) == [(name, 1) for name in shop]
    numbers(shop[7], 1)
    before = sessions()
    assert query.run().batches[1:] == [[(shop[7], 2)]]
    assert sessions() - before < 12


def test_a_batch_read_of_many_topics_opens_few_sessions(spark: SparkSession, dsn: str, shop: list[str]) -> None:
    for columns, where in (
        ("topic,seq,data", "true"),
        ("topic,seq", "true"),
        ("topic,seq,ts_time", "ts_time > '2020-01-01'"),
    ):
        before = sessions()
        found = read(spark, dsn, prefix="shop:", columns=columns).where(where).collect()
        assert sorted((row.topic, row.seq) for row in found) == [(name, 1) for name in shop]
        assert sessions() - before <= 5

"""rollup, audit, latest, and jobs of many topics: figures that add up, faults that are found, and the last record of each tag."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.db import connection
from pyspark.sql import SparkSession

from base.clock import now_ms
from base.errors import InvalidRequest, NotReady, RouterNotFound
from base.refusal import Refusal
from pipeline import rollups
from pipeline.archive.files import LocalFiles
from pipeline.delays import bucket, delay_ms, percentile
from pipeline.jobs.rollup import MINUTE_MS
from pipeline.models import Rollup
from pipeline.runs import reading
from pipeline.runs.running import perform
from tests import scripts
from tests.log.test_delete import NOW, write
from tests.log.test_reclaim import mirror, reclaim_all
from tests.pipeline.filling import fill, numbers, rows, rows_read, sessions
from tests.pipeline.test_archive import die
from topics.config import Config

NOON = 1_748_476_800_000  # a full minute


def test_rollup_counts_by_minute_node_and_tag_prefix(spark: SparkSession, dsn: str) -> None:
    fill(
        "orders",
        [b"1", b"22", b"333"],
        now=NOON,
        tag=["a:1", "a:2", None],
        node=["n", "n", None],
        meta=[b"{}", b"{}", b"null"],
    )
    fill("orders", [b"1"], now=NOON + 59_999, tag=["a:3"], node=["n"])
    perform("rollup", {})
    fill("orders", [b"4444"], now=NOON + 59_999, tag=["a:4"], node=["n"])  # late: its minute is in the tables already
    fill("orders", [b"5"], now=NOON + MINUTE_MS)
    assert perform("rollup", {"topic": "orders"}).read == 2
    assert perform("rollup", {}).read == 0
    fields = ("minute_ts", "node", "tag_prefix", "records", "bytes", "first_seq", "last_seq")
    assert list(Rollup.objects.order_by("minute_ts", "node").values_list(*fields)) == [
        (NOON, "", "", 1, 3, 3, 3),
        (NOON, "n", "a", 4, 12, 1, 5),
        (NOON + MINUTE_MS, "", "", 1, 1, 6, 6),
    ]
    assert rows("SELECT count(*) FROM pipeline_staged") == [(0,)]
    assert [minute[1:] for minute in rollups.minutes(scripts.look_up("orders").id, 0)] == [(5, 15, 1, 5), (1, 1, 6, 6)]


def test_rollup_measures_what_routers_take(spark: SparkSession, dsn: str) -> None:
    numbers("orders", 10, now=NOON - 500)
    mirror("orders", "audit")
    rows("UPDATE topics_span SET ts = %s RETURNING 1", NOON)
    perform("rollup", {"topic": "audit"})
    (minute,) = rollups.delays("orders>audit", NOON)
    assert (minute.minute_ts, minute.records) == (NOON, 10)
    assert minute.p99_ms == pytest.approx(500, rel=0.05)


def test_a_percentile_is_right_to_a_twentieth() -> None:
    histogram: dict[int, int] = {}
    for ms in range(1, 10_001):
        histogram[bucket(ms)] = histogram.get(bucket(ms), 0) + 1
    for part in (0.5, 0.95, 0.99):
        assert percentile(histogram, part) == pytest.approx(10_000 * part, rel=0.05)
    assert percentile({}, 0.5) is None
    assert delay_ms(bucket(0)) < 0.03


FAULTS = {  # what is found, where, and what was done to the dest's spans of single records
    ("missing", 4): "DELETE FROM topics_span WHERE first_seq = 4",
    ("duplicated", 7): "UPDATE topics_span SET home_first_seq = 6, home_last_seq = 6 WHERE first_seq = 7",
    (
        "out_of_order",
        10,
    ): """UPDATE topics_span s SET home_first_seq = o.home_first_seq, home_last_seq = o.home_last_seq
                               FROM topics_span o WHERE s.first_seq + o.first_seq = 19 AND s.first_seq IN (9, 10)""",
    ("altered", 12): "UPDATE topics_span SET keep_tag = false WHERE first_seq = 12",
}


@pytest.fixture
def forwarded(dsn: str) -> None:
    """A dest of single records, each with a span of its own."""
    write("orders", "a")
    mirror("orders", "audit")
    for n in range(13):
        write("orders", "ab"[n % 2])
        scripts.catch_up(scripts.look_up("audit").id, NOW)
    forget_changes()


def forget_changes() -> None:
    """The routers as they would be had nobody ever changed them: these tests write at a time of their own."""
    rows("UPDATE routers_router SET created_ts = 0 RETURNING 1")
    rows("UPDATE topics_auditentry SET ts = 0 RETURNING 1")


@pytest.mark.parametrize("killed_before", ["pipeline.jobs.rollup.forwarded", "pipeline.runs.reading.end"])
def test_a_rollup_that_was_killed_counts_each_record_of_many_spans_once(
    spark: SparkSession, forwarded: None, monkeypatch: pytest.MonkeyPatch, killed_before: str
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(killed_before, die)
        with pytest.raises(KeyboardInterrupt):
            perform("rollup", {"topic": "audit"})
    write("orders", "a")
    scripts.catch_up(scripts.look_up("audit").id, NOW)
    perform("rollup", {"topic": "audit"})
    assert rows("SELECT sum(records) FROM pipeline_rollup") == [(15,)]
    assert rows("SELECT sum(records) FROM pipeline_delay") == [(15,)]
    assert rows("SELECT count(*) FROM pipeline_staged") == [(0,)]


def test_audit_finds_each_fault(spark: SparkSession, forwarded: None) -> None:
    clean = perform("audit", {})
    assert (clean.state, clean.report["routers"][0]["compared"]) == ("done", 14)
    for fault in FAULTS.values():
        rows(f"{fault} RETURNING 1")
    run = perform("audit", {"router": "orders>audit"})
    (report,) = run.report["routers"]
    assert run.state == "wrong"
    for kind, seq in FAULTS:
        assert seq in report[kind]["examples"], (kind, report)
    assert report["miscounted"]["count"] == 1
    assert report["wrong_filter"]["count"] == 0


def test_audit_finds_what_passed_a_filter_that_it_does_not_fit(spark: SparkSession, forwarded: None) -> None:
    rows("UPDATE routers_router SET filter_op = 'Eq', filter_tag = 'a' RETURNING 1")
    report = perform("audit", {}).report["routers"][0]
    assert report["wrong_filter"] == {"count": 6, "examples": [3, 5, 7, 9, 11, 13]}


def test_audit_finds_what_a_router_passed_over(spark: SparkSession, forwarded: None) -> None:
    rows("UPDATE topics_cursor SET seq = seq + 2 RETURNING 1")
    write("orders", "a", "b", "a")
    scripts.catch_up(scripts.look_up("audit").id, NOW)
    report = perform("audit", {}).report["routers"][0]
    assert report["missing"] == {"count": 2, "examples": [15, 16]}


def test_audit_takes_deletes_for_what_they_are(spark: SparkSession, forwarded: None) -> None:
    scripts.delete_records("audit", 2, None, now_ms())
    scripts.delete_records("audit", None, ["tag", "Eq", "b"], now_ms())
    scripts.delete_records("orders", 4, None, now_ms())
    for _ in range(2):
        run = perform("audit", {})
        assert run.state == "done", run.report
        assert run.report["routers"][0]["deleted_in_dest"] == 5
        reclaim_all()  # with it goes what says that these were deleted


def test_audit_of_a_cycle_with_filters_and_stamps(spark: SparkSession, dsn: str) -> None:
    numbers("a", 5, tag=["x:1", "y:1", "x:2", "y:2", "x:3"])
    mirror("a", "b", allow_cycle=True)
    mirror("b", "a", allow_cycle=True)
    numbers("b", 3)
    scripts.catch_up(scripts.look_up("a").id, now_ms())
    mirror("a", "xs", filter=["tag", "Glob", "x:*"], guarantee="exactly_once", preserve_node=False)
    forget_changes()
    run = perform("audit", {})
    assert run.state == "done", run.report
    assert {each["router"]: each["compared"] for each in run.report["routers"]} == {"a>b": 5, "b>a": 3, "a>xs": 3}
    with pytest.raises(RouterNotFound):
        perform("audit", {"router": "nothing"})


def test_latest_is_the_last_record_of_each_tag(spark: SparkSession, dsn: str, tmp_path: Path) -> None:
    numbers("orders", 9, tag=["a", "b", None] * 3)
    out = tmp_path / "latest"
    for _ in range(2):
        perform("latest", {"topic": "orders", "out": str(out)})
        found = spark.read.parquet(str(out)).orderBy("tag").collect()
        assert [(row.tag, row.data) for row in found] == [("a", '{"n":7}'), ("b", '{"n":8}')]
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpg").touch()
    (tmp_path / "_photos.old-2024").mkdir()
    with pytest.raises(Refusal, match="holds something else"):
        perform("latest", {"topic": "orders", "out": str(tmp_path / "photos")})
    assert (tmp_path / "_photos.old-2024").exists()
    with pytest.raises(InvalidRequest, match="say out"):
        perform("latest", {"topic": "orders"})


@pytest.mark.parametrize(
    ("step", "killed_at"),
    [
        ("move", r"latest _latest\.old-"),
        ("move", r"_latest\.new-\S+ latest$"),
        ("delete", r"_latest\.old-"),
    ],
)
def test_a_latest_that_is_killed_while_it_replaces_its_folder(
    spark: SparkSession, dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, killed_at: str
) -> None:
    numbers("orders", 9, tag=["a", "b", "c"] * 3)
    out = {"topic": "orders", "out": str(tmp_path / "latest")}
    perform("latest", out)
    undisturbed = getattr(LocalFiles, step)

    def disturbed(files: LocalFiles, *paths: str) -> None:
        if re.match(killed_at, " ".join(paths)):
            if step == "delete":
                (tmp_path / paths[0] / "_latest.json").unlink()
            die()
        undisturbed(files, *paths)

    with monkeypatch.context() as patch:
        patch.setattr(LocalFiles, step, disturbed)
        with pytest.raises(KeyboardInterrupt):
            perform("latest", out)
    perform("latest", out)
    assert spark.read.parquet(out["out"]).count() == 3
    assert [each.name for each in tmp_path.iterdir()] == ["latest"]


def test_a_latest_that_was_killed_writes_each_tag_once(
    spark: SparkSession, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    into = {"topic": "orders", "into": "table"}
    numbers("orders", 6, tag=["a", "b"] * 3)
    with monkeypatch.context() as patch:
        patch.setattr("pipeline.runs.reading.end", die)
        with pytest.raises(KeyboardInterrupt):
            perform("latest", into)
    numbers("orders", 1, tag=["c"])  # the killed step ends where it was planned to
    perform("latest", into)
    assert sorted(rows("SELECT tag FROM topic_log WHERE topic = 'table'")) == [("a",), ("b",), ("c",)]


ONE_TASK = """
CREATE FUNCTION one_task() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM pipeline_written WHERE writer = new.writer) THEN
        RAISE EXCEPTION 'the run ends after one task';
    END IF;
    RETURN new;
END $$;
CREATE TRIGGER one_task BEFORE INSERT ON pipeline_written FOR EACH ROW EXECUTE FUNCTION one_task()
"""


def test_a_latest_that_ended_midway_goes_on_without_records_that_are_gone_since(spark: SparkSession, dsn: str) -> None:
    into = {"topic": "orders", "into": "table"}
    tags = [f"t:{n:02}" for n in range(30)]
    numbers("orders", 30, tag=tags)
    with connection.cursor() as cursor:
        cursor.execute(ONE_TASK)
        try:
            with pytest.raises(NotReady, match="the run ends after one task"):
                perform("latest", into)
            sessions()  # waits for the ends of all tasks
        finally:
            cursor.execute("DROP FUNCTION one_task CASCADE")
    first = [tag for (tag,) in rows("SELECT tag FROM topic_log WHERE topic = 'table'")]
    assert 0 < len(first) < 30
    others = [tag for tag in tags if tag not in first]
    for gone in (first[0], others[0]):
        scripts.delete_records("orders", None, ["tag", "Eq", gone], now_ms())
    run_of = perform("latest", into)
    assert sorted(rows("SELECT tag FROM topic_log WHERE topic = 'table'")) == [
        (tag,) for tag in tags if tag != others[0]
    ]
    assert run_of.written == 29


def test_latest_into_a_topic_brings_what_changed(spark: SparkSession, dsn: str) -> None:
    into = {"topic": "orders", "into": "table"}
    numbers("orders", 6, tag=["a", "b"] * 3)
    perform("latest", into)
    numbers("orders", 2, tag=["b", "c"])
    assert [perform("latest", into).written for _ in range(2)] == [2, 0]
    table = rows("SELECT tag, data::text FROM topic_log WHERE topic = 'table' ORDER BY seq")
    assert sorted(table[:2]) == [("a", '{"n":5}'), ("b", '{"n":6}')]
    assert sorted(table[2:]) == [("b", '{"n":1}'), ("c", '{"n":2}')]


def test_latest_into_a_topic_that_was_deleted_brings_all(
    spark: SparkSession, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if nothing is new, and if the run is killed before the end of its writing is noted."""
    into = {"topic": "orders", "into": "table"}
    numbers("orders", 4, tag=["a", "b"] * 2)
    perform("latest", into)
    scripts.delete_topic("table", False, now_ms())
    with monkeypatch.context() as patch:
        patch.setattr("pipeline.runs.reading.end", die)
        with pytest.raises(KeyboardInterrupt):
            perform("latest", into)
    rows("DELETE FROM pipeline_written WHERE partition = -1 RETURNING 1")
    numbers("orders", 1, tag=["c"])
    assert [perform("latest", into).written for _ in range(2)] == [3, 0]
    assert sorted(rows("SELECT tag FROM topic_log WHERE topic = 'table'")) == [("a",), ("b",), ("c",)]


TABLES = ("pipeline_reading", "topics_cursor", "topics_topic", "topics_topichead")
# Copies of a topic that a job has read to its head.
COPIES = """
INSERT INTO topics_topic
SELECT (jsonb_populate_record(t, jsonb_build_object('id', 1000000 + n, 'name', 'shop:' || n))).*
  FROM topics_topic t, generate_series(1, %(count)s) n WHERE name = 'shop:first';
INSERT INTO topics_topichead
SELECT (jsonb_populate_record(h, jsonb_build_object('topic_id', 1000000 + n))).*
  FROM topics_topichead h, generate_series(1, %(count)s) n WHERE head_seq = 1;
INSERT INTO topics_cursor (topic_id, kind, name, seq, forwarded_total, updated_ts)
SELECT topic_id, 'pipeline', %(name)s, 1, 0, 0 FROM topics_topichead WHERE head_seq = 1;
INSERT INTO pipeline_reading (topic_id, name, target) SELECT topic_id, name, %(target)s FROM topics_cursor;
"""


@pytest.mark.parametrize("job", ["rollup", "archive"])
def test_a_job_with_nothing_new_reads_each_topic_once(dsn: str, tmp_path: Path, job: str) -> None:
    """Few rows for each topic, and one session, which holds the run's locks."""
    name, target = "rollup", "rollup"
    if job == "archive":
        target = LocalFiles(str(tmp_path)).root
        name = reading.reading_name("archive", target)
    numbers("shop:first", 1)
    scripts.put_topic("shop:empty", Config(), now_ms())
    with connection.cursor() as cursor:
        cursor.execute(COPIES, {"count": 1_000, "name": name, "target": target})
        cursor.execute("ANALYZE " + ", ".join(TABLES))
    options = {"topic": "shop:*"} | ({"out": str(tmp_path)} if job == "archive" else {})
    opened, read = sessions(), rows_read(*TABLES)
    assert perform(job, options).read == 0
    assert sessions() - opened == 1
    assert rows_read(*TABLES) - read <= 10 * 1_000
    assert rows("SELECT count(*) FROM pipeline_reading") == [(1_001,)]  # none of the topic that has nothing to read


def test_a_job_reads_what_routers_bring_to_topics_of_a_prefix(spark: SparkSession, dsn: str, tmp_path: Path) -> None:
    mirror("orders", "shop:copy")
    numbers("orders", 3)
    numbers("shop:own", 2)
    run_of = perform("archive", {"topic": "shop:*", "out": str(tmp_path)})
    assert run_of.read == 5
    assert {each["topic"]: each["records"] for each in run_of.report["topics"]} == {"shop:copy": 3, "shop:own": 2}
    scripts.delete_topic("shop:own", False, now_ms())
    numbers("orders", 1)
    assert perform("archive", {"topic": "shop:*", "out": str(tmp_path)}).report["topics"] == [
        {"topic": "shop:copy", "records": 1, "upto_seq": 4, "missed": 0, "trimmed": 0}
    ]
    assert rows("SELECT count(*) FROM pipeline_reading") == [(1,)]

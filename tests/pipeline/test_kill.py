"""kill -9 of a driver, at a moment nobody chose, under a query and all jobs that write: nothing is lost, and nothing comes twice.

They run side by side, because each kill costs the start of a JVM. A run after the kill has the result of one run that nobody
killed.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from django.db import connection
from pyspark.sql import SparkSession

from base.clock import now_ms
from pipeline.database import database
from pipeline.runs.running import perform
from tests import scripts
from tests.deadlines import DEADLINE
from tests.instances import until
from tests.log.test_reclaim import mirror
from tests.pipeline.filling import numbers, rows
from tests.pipeline.programs import Start, kill
from tests.pipeline.query import copy, divided
from tests.pipeline.test_archive import seqs
from topics.config import Config

KILLS = 2 if int(os.environ.get("THOROUGH", "1")) > 1 else 1
CHOSEN = random.Random()
LAST = """
SELECT DISTINCT ON (tag) tag, node, meta::text, data::text FROM topic_log WHERE topic = %s ORDER BY tag, seq DESC
"""
ROLLED_UP = """
SELECT t.name, r.node, r.tag_prefix, sum(r.records)::int, sum(r.bytes)::int, min(r.first_seq), max(r.last_seq)
  FROM pipeline_rollup r JOIN topics_topic t ON t.id = r.topic_id GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
"""
COUNTED = """
SELECT topic::text, coalesce(node, ''), coalesce(split_part(tag, ':', 1), ''), count(*)::int,
       sum(octet_length(data::text) + coalesce(octet_length(meta::text), 0))::int, min(seq), max(seq)
  FROM topic_log WHERE topic ^@ 'shop:' GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
"""
REACHED = """
SELECT coalesce(sum(c.seq), 0)::int FROM topics_cursor c JOIN topics_topic t ON t.id = c.topic_id
 WHERE c.kind = 'pipeline' AND t.name ^@ %s
"""
COUNT = "SELECT count(*)::int FROM topic_log WHERE topic = %s"
HOLD = "SELECT FROM topics_topichead WHERE topic_id = %s FOR UPDATE"
END_OTHERS = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'topics pipeline' AND pid <> pg_backend_pid()
"""
WRITTEN = """
SELECT (data ->> 'n')::int FROM topic_log WHERE topic = ANY ('{gate,out}') ORDER BY 1
"""
DATA = "SELECT data::text FROM topic_log WHERE topic = %s ORDER BY seq"


def one(statement: str, *arguments: Any) -> int:
    return int(rows(statement, *arguments)[0][0])


class Killed(NamedTuple):
    """What is killed: a job with its options (or the query), how far it got, where it ends, and a look at it after each kill.

    The function that yields it fills topics before, and completes the work afterwards.
    """

    job: str
    options: dict[str, Any]
    reached: Callable[[], int]
    end: int
    look: Callable[[], None] = lambda: None


def archive(spark: SparkSession, dsn: str, folder: Path) -> Iterator[Killed]:
    """It trims once it has archived everything."""
    numbers("archived", 4000)
    options = {"topic": "archived", "out": str(folder / "archive"), "trim": True}

    def look() -> None:
        held = rows("SELECT seq FROM topic_log WHERE topic = 'archived' ORDER BY seq")
        assert held in ([], [(seq,) for seq in range(1, 4001)])  # the topic is trimmed after the last step
        if not held:
            assert one(REACHED, "archived") == 4000

    yield Killed("archive", {**options, "step": 1000}, lambda: one(REACHED, "archived"), 4000, look)
    numbers("archived", 10)
    perform("archive", options)
    assert one(COUNT, "archived") == 0
    assert seqs(spark, folder / "archive") == list(range(1, 4011))
    assert perform("verify", {"topic": "archived", "archive": options["out"]}).state == "done"


def rollup(spark: SparkSession, dsn: str, folder: Path) -> Iterator[Killed]:
    for n in range(6):
        numbers(f"shop:{n}", 300, tag=tags(300, 50), node=["n1", "n2", "n2"] * 100)
    mirror("shop:0", "shop:copy")
    scripts.catch_up(scripts.look_up("shop:copy").id, 300)
    yield Killed("rollup", {"topic": "shop:*"}, lambda: one(REACHED, "shop:"), 2100)
    numbers("shop:5", 10)
    perform("rollup", {"topic": "shop:*"})
    assert rows(ROLLED_UP) == rows(COUNTED)
    assert rows("SELECT sum(records) FROM pipeline_delay") == [(300,)]
    assert rows("SELECT count(*) FROM pipeline_staged") == [(0,)]


def latest_in_a_topic(spark: SparkSession, dsn: str, folder: Path) -> Iterator[Killed]:
    numbers("changing", 1000, tag=tags(1000, 160))
    options = {"topic": "changing", "into": "table"}
    yield Killed("latest", options, lambda: one(COUNT, "table"), 160)
    numbers("changing", 20, tag=tags(20, 160))
    perform("latest", options)
    assert rows(LAST, "table") == rows(LAST, "changing")
    assert one(COUNT, "table") == 160 + 20  # each tag once for each run's end


def latest_in_a_folder(spark: SparkSession, dsn: str, folder: Path) -> Iterator[Killed]:
    out = folder / "latest"
    options = {"topic": "kept", "out": str(out)}
    numbers("kept", 1000, tag=tags(1000, 160))
    perform("latest", options)
    numbers("kept", 20, tag=tags(20, 160))

    def files() -> set[str]:
        """The files of Parquet that are there. A run may move or remove them while we look."""
        shown = (name for place in folder.glob("*latest*") for *_, names in os.walk(place) for name in names)
        return {name for name in shown if name.endswith(".parquet")}

    seen = files()

    def look() -> None:
        """The folder of before, or of this run. Between two moves it has another name."""
        shown = out if out.exists() else next(folder.glob("_latest.old-*"))
        assert spark.read.parquet(str(shown)).count() == 160
        seen.update(files())

    yield Killed("latest", options, lambda: len(files() - seen), 1, look)
    perform("latest", options)
    found = spark.read.parquet(str(out)).orderBy("tag").select("tag", "node", "meta", "data").collect()
    assert [tuple(row) for row in found] == rows(LAST, "kept")
    assert not list(folder.glob("_latest.*"))


def tags(count: int, different: int) -> list[str]:
    return [f"t{n % 2}:{n % different}" for n in range(count)]


def query(spark: SparkSession, dsn: str, folder: Path) -> Iterator[Killed]:
    """From one topic to another, while records are appended."""
    done = threading.Event()

    def append() -> None:
        for _ in range(15):
            numbers("orders", 100)
            done.wait(0.1)
        connection.close()

    numbers("orders", 1000)
    writer = threading.Thread(target=append)
    writer.start()
    try:
        yield Killed("", {}, lambda: one(COUNT, "out"), 2500)
    finally:
        done.set()
        writer.join()
    copy(spark, dsn, str(folder / "checkpoint")).trigger(availableNow=True).start().awaitTermination()
    assert one("SELECT max(seq) FROM topics_cursor WHERE kind = 'named'") == 2500
    assert rows(DATA, "out") == rows(DATA, "orders")


def goal(work: Killed) -> int:
    """Returns a number that the work gets to."""
    return CHOSEN.randint(min(work.reached() + 1, work.end), work.end)


def kill_midway(process: subprocess.Popen[bytes], works: list[Killed], output: Path) -> None:
    """Kills the process some moments after some of the works, one to all of them, got further."""
    goals, enough = [goal(work) for work in works], CHOSEN.randint(1, len(works))

    def is_midway() -> bool:
        return sum(work.reached() >= goal for work, goal in zip(works, goals, strict=True)) >= enough

    until(
        lambda: process.poll() is not None or is_midway(), f"{enough} of {len(works)} to get on", seconds=5 * DEADLINE
    )
    assert process.poll() is None, output.read_text()[-4000:]
    time.sleep(CHOSEN.random() * 0.5)  # anywhere in a step: which moment this meets is what chance is for
    kill(process)


@pytest.mark.guarantee("S3")
@pytest.mark.guarantee("S4")
def test_a_query_and_jobs_are_killed(spark: SparkSession, dsn: str, start: Start, tmp_path: Path) -> None:
    tried = [work(spark, dsn, tmp_path) for work in (archive, rollup, latest_in_a_topic, latest_in_a_folder, query)]
    works = [next(each) for each in tried]
    jobs = json.dumps([(work.job, work.options) for work in works if work.job])
    for _ in range(KILLS):
        process = start("-m", "tests.pipeline.side_by_side", dsn, str(tmp_path / "checkpoint"), jobs)
        kill_midway(process, works, tmp_path / "output")
        for work in works:
            work.look()
    for each in tried:
        next(each, None)


@pytest.mark.guarantee("S4")
def test_the_batch_of_a_killed_query_keeps_its_tasks(
    spark: SparkSession, dsn: str, start: Start, tmp_path: Path
) -> None:
    """The first of four tasks has written its records, and then most of them are deleted: the other tasks stay as they were."""
    numbers("orders", 20_000, tag=["kept"] * 1_000 + ["deleted"] * 4_000 + ["kept"] * 15_000)
    scripts.put_topic("gate", Config(), now_ms())
    with database(dsn).connect() as session, session.transaction():
        session.execute(HOLD, [scripts.look_up("gate").id])  # the other tasks wait
        process = start("-m", "tests.pipeline.query", dsn, str(tmp_path / "checkpoint"))
        until(lambda: process.poll() is not None or one(COUNT, "out") == 5_000, "the first task", seconds=5 * DEADLINE)
        assert process.poll() is None, (tmp_path / "output").read_text()[-4000:]
        kill(process)
        session.execute(END_OTHERS)  # Spark's workers outlive the driver, and would write once the lock is free
    scripts.delete_records("orders", None, ["tag", "Eq", "deleted"], now_ms())
    divided(spark, dsn, str(tmp_path / "checkpoint")).trigger(availableNow=True).start().awaitTermination()
    assert rows(WRITTEN) == [(n,) for n in range(1, 20_001)]

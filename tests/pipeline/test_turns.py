"""Runs of jobs side by side: each is refused, with the other run's name, or both end as they would alone."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.db import connection
from pyspark.sql import SparkSession

from base.errors import NotReady
from base.refusal import Refusal
from pipeline.models import Run
from pipeline.runs.running import perform
from pipeline.runs.work import Work
from tests import scripts
from tests.deadlines import DEADLINE
from tests.instances import until
from tests.log.test_reclaim import mirror
from tests.pipeline.filling import numbers, rows
from tests.pipeline.programs import Start, kill
from tests.pipeline.test_archive import seqs

Options = dict[str, Any]
TURNS = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND classid = 7200 AND granted"


@pytest.fixture
def held_up(dsn: str) -> Callable[[], contextlib.AbstractContextManager[None]]:
    """Jobs stand before records, which they read and write once they have their turns."""

    @contextlib.contextmanager
    def lock() -> Iterator[None]:
        with psycopg.connect(dsn) as session:
            session.execute("LOCK TABLE topics_record IN ACCESS EXCLUSIVE MODE")
            yield

    return lock


@pytest.fixture
def beside(spark: SparkSession) -> Iterator[Callable[[str, Options], Future[Run]]]:
    """Perform a job in a thread of its own."""

    def job(name: str, options: Options) -> Run:
        jvm: Any = spark._jvm
        jvm.org.apache.spark.sql.SparkSession.setActiveSession(spark._jsparkSession)  # each thread has its own
        try:
            return perform(name, options)
        finally:
            connection.close()

    with ThreadPoolExecutor(8) as threads:
        yield lambda name, options: threads.submit(job, name, options)


def turns() -> int:
    return int(rows(TURNS)[0][0])


def at(path: Path, options: Options) -> Options:
    return {name: f"{path}/{value}" if name in ("out", "archive") else value for name, value in options.items()}


ARCHIVE = ("archive", {"topic": "orders", "out": "archive"})
LATEST = ("latest", {"topic": "orders", "out": "latest"})
INTO = ("latest", {"topic": "orders", "into": "table"})
RESTORE = ("restore", {"archive": "before", "source": "orders", "topic": "again"})
ROLLUP = ("rollup", {"topic": "orders"})


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (ARCHIVE, ARCHIVE),
        (ARCHIVE, ("archive", {"topic": "ord*", "out": "link/archive", "trim": True})),
        (ARCHIVE, ("latest", {"topic": "shop", "out": "archive"})),
        (LATEST, LATEST),
        (LATEST, ("latest", {"topic": "shop", "out": "link/../latest/"})),
        (LATEST, ("archive", {"topic": "shop", "out": "latest"})),
        (INTO, INTO),
        (RESTORE, RESTORE),
        (RESTORE, ("restore", {**RESTORE[1], "from_seq": 3})),
        (ROLLUP, ROLLUP),
        (ROLLUP, ("rollup", {})),
    ],
)
def test_of_two_runs_that_exclude_each_other_the_second_names_the_first(
    spark: SparkSession,
    held_up: Callable[[], contextlib.AbstractContextManager[None]],
    beside: Callable[[str, Options], Future[Run]],
    tmp_path: Path,
    one: tuple[str, Options],
    other: tuple[str, Options],
) -> None:
    numbers("orders", 5, tag=["a"] * 5)
    numbers("shop", 1, tag=["a"])
    perform("archive", {"topic": "orders", "out": f"{tmp_path}/before"})
    (tmp_path / "link").symlink_to(tmp_path)
    with held_up():
        first = beside(one[0], at(tmp_path, one[1]))
        until(lambda: first.done() or turns() > 0, "the first run to begin")
        run = Run.objects.get(state="running")
        with pytest.raises(Refusal, match=rf"^topics: run {run.pk} \({one[0]}, since \S+ \S+ UTC\) works at .*: wait"):
            perform(other[0], at(tmp_path, other[1]))
        assert not Run.objects.filter(summary__contains="killed").exists()
    assert first.result().state == "done"
    assert turns() == 0
    assert perform(other[0], at(tmp_path, other[1])).state == "done" if one == other else True


def test_runs_that_do_not_exclude_each_other_end_as_alone(
    spark: SparkSession,
    held_up: Callable[[], contextlib.AbstractContextManager[None]],
    beside: Callable[[str, Options], Future[Run]],
    tmp_path: Path,
) -> None:
    numbers("orders", 9, tag=["a", "b", "c"] * 3)
    numbers("shop", 4, tag=["a", "b"] * 2)
    mirror("orders", "copy")
    scripts.catch_up(scripts.look_up("copy").id, 1)
    perform("archive", {"topic": "orders", "out": f"{tmp_path}/archive"})
    numbers("orders", 1, tag=["d"])
    jobs = [
        ARCHIVE,
        ("archive", {"topic": "shop", "out": "archive"}),
        ("verify", {"topic": "orders", "archive": "archive"}),
        ("verify", {"topic": "orders", "archive": "archive"}),
        ("restore", {"archive": "archive", "source": "orders", "topic": "again"}),
        LATEST,
        INTO,
        ROLLUP,
    ]
    with held_up():
        runs = [beside(name, at(tmp_path, options)) for name, options in jobs]
        until(lambda: Run.objects.filter(state="running").count() == len(jobs), "all runs to begin")
    assert [run.result().state for run in runs] == ["done"] * len(jobs)
    again = rows("SELECT data::text FROM topic_log WHERE topic = 'again' ORDER BY seq")
    assert again == rows("SELECT data::text FROM topic_log WHERE topic = 'orders' ORDER BY seq")[: len(again)]
    assert len(again) in (9, 10)  # with the segment that the archive wrote meanwhile, or without
    assert seqs(spark, tmp_path / "archive") == sorted([*range(1, 11), *range(1, 5)])
    assert sorted(row.tag for row in spark.read.parquet(f"{tmp_path}/latest").collect()) == ["a", "b", "c", "d"]
    assert rows("SELECT sum(records) FROM pipeline_rollup") == [(10,)]
    audits = [beside("audit", {}) for _ in range(2)]
    assert [run.result().state for run in audits] == ["done"] * 2


@pytest.mark.parametrize("job", [LATEST, RESTORE])
def test_where_a_run_was_killed_the_next_one_gets_in(
    spark: SparkSession,
    held_up: Callable[[], contextlib.AbstractContextManager[None]],
    start: Start,
    tmp_path: Path,
    job: tuple[str, Options],
) -> None:
    numbers("orders", 5, tag=["a"] * 5)
    perform("archive", {"topic": "orders", "out": f"{tmp_path}/before"})
    name, options = job[0], at(tmp_path, job[1])
    with held_up():
        process = start("manage.py", "pipeline", name, *(f"--{key}={value}" for key, value in options.items()))
        until(lambda: turns() > 0 or process.poll() is not None, "the process to have its turn", seconds=2 * DEADLINE)
        assert process.poll() is None, (tmp_path / "output").read_text()[-4000:]
        with pytest.raises(Refusal, match=rf"run \d+ \({name}, since"):
            perform(name, options)
        kill(process)
        until(lambda: turns() == 0, "the turn of the killed process to end")
    assert perform(name, options).state == "done"
    assert list(Run.objects.order_by("id").values_list("state", "summary"))[1][0] == "failed"
    if name == "restore":
        assert rows("SELECT count(*) FROM topic_log WHERE topic = 'again'") == [(5,)]
    assert not [path.name for path in tmp_path.iterdir() if ".new-" in path.name]


def test_a_run_whose_session_ended_replaces_nothing(
    spark: SparkSession, dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers("orders", 2, tag=["a", "b"])
    did = Work.begin

    def cut_off(work: Work, records: int) -> None:
        rows("SELECT pg_terminate_backend(%s)", work.session.info.backend_pid)
        did(work, records)

    monkeypatch.setattr(Work, "begin", cut_off)
    with pytest.raises(NotReady, match="the connection to PostgreSQL ended"):
        perform("latest", {"topic": "orders", "out": f"{tmp_path}/latest"})
    assert not (tmp_path / "latest").exists()


def test_verify_takes_what_is_trimmed_meanwhile_for_deleted(
    spark: SparkSession, dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers("orders", 10)
    perform("archive", {"topic": "orders", "out": f"{tmp_path}"})
    did = Work.begin

    def trim(work: Work, records: int) -> None:
        did(work, records)
        if work.run.job == "verify":
            assert perform("archive", {"topic": "orders", "out": f"{tmp_path}", "trim": True}).state == "done"

    monkeypatch.setattr(Work, "begin", trim)
    run = perform("verify", {"topic": "orders", "archive": f"{tmp_path}"})
    assert (run.state, run.report["deleted_since"], run.report["missing"]) == ("done", 10, [])


def test_latest_leaves_alone_what_came_into_its_folder(spark: SparkSession, dsn: str, tmp_path: Path) -> None:
    numbers("orders", 2, tag=["a", "b"])
    out = f"{tmp_path}/latest"
    perform("latest", {"topic": "orders", "out": out})
    perform("archive", {"topic": "orders", "out": out})
    with pytest.raises(Refusal, match=re.escape(f"file:{out} holds something else")):
        perform("latest", {"topic": "orders", "out": out})
    assert perform("verify", {"topic": "orders", "archive": out}).state == "done"

"""kill -9 of drivers, at moments nobody chose: nothing is lost, and nothing comes twice. And a cluster of several processes."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from django.db import connection
from pyspark.sql import SparkSession

from base.processes import die_with_parent
from tests.instances import ROOT, until
from tests.pipeline.cluster import WORKERS, cluster
from tests.pipeline.filling import ODD, fill, numbers, rows
from tests.pipeline.query import copy

Start = Callable[..., subprocess.Popen[bytes]]
CHOSEN = random.Random()


@pytest.fixture
def start(dsn: str, small: dict[str, str], tmp_path: Path) -> Iterator[Start]:
    """Start a Python program on this test's database, in a session of its own."""
    started: list[subprocess.Popen[bytes]] = []

    parent = os.getpid()

    def run(*argv: str, **environment: str) -> subprocess.Popen[bytes]:
        with (tmp_path / "output").open("ab") as output:
            process = subprocess.Popen(
                [sys.executable, *argv],
                env={**os.environ, **small, "DATABASE_URL": dsn, "TOPICS_SPARK_MEMORY": "600m", **environment},
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                preexec_fn=lambda: die_with_parent(parent),  # and its JVM with it
            )
        started.append(process)
        return process

    yield run
    for process in started:
        kill(process)


def kill(process: subprocess.Popen[bytes]) -> None:
    """SIGKILL the driver and its JVM."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def cursor_seq(kind: str) -> int:
    found = rows("SELECT max(seq) FROM topics_cursor WHERE kind = %s", kind)
    return int(found[0][0] or 0)


def kill_midway(process: subprocess.Popen[bytes], reached: Callable[[], int], end: int) -> None:
    """Kill it some moments after it got further, at the latest when it is through."""
    before = reached()
    goal = CHOSEN.randint(before + 1, (before + end) // 2)
    until(lambda: process.poll() is not None or reached() >= goal, "the process to get on", seconds=120)
    time.sleep(CHOSEN.random() * 0.5)  # anywhere in a step: which moment this meets is what chance is for
    kill(process)


def test_a_query_and_its_sink_killed_anywhere_write_each_record_once(
    spark: SparkSession, dsn: str, start: Start, tmp_path: Path
) -> None:
    done = threading.Event()

    def append() -> None:
        for _ in range(15):
            numbers("orders", 100)
            done.wait(0.1)
        connection.close()

    numbers("orders", 1000)
    writer = threading.Thread(target=append)
    writer.start()
    checkpoint = str(tmp_path / "checkpoint")
    try:
        kill_midway(start("-m", "tests.pipeline.query", dsn, checkpoint), written, 2500)
        writer.join()
        copy(spark, dsn, checkpoint).trigger(availableNow=True).start().awaitTermination()
        assert cursor_seq("named") == 2500
    finally:
        done.set()
        writer.join()
    data = "SELECT data::text FROM topic_log WHERE topic = %s ORDER BY seq"
    assert rows(data, "out") == rows(data, "orders")


def written() -> int:
    return int(rows("SELECT count(*) FROM topic_log WHERE topic = 'out'")[0][0])


def test_a_read_a_write_and_a_stream_run_on_a_cluster(
    dsn: str, small: dict[str, str], start: Start, tmp_path: Path
) -> None:
    """On executors that have nothing of the project except what the driver sends them."""
    fill("orders", ODD * 40, tag=[f"t:{n}" for n in range(440)])
    with cluster(tmp_path, small) as master:
        argv = ("-m", "tests.pipeline.spread", dsn, str(tmp_path / "checkpoint"))
        code = start(*argv, SPARK_MASTER=master, SPARK_LOCAL_IP="127.0.0.1").wait(240)
    assert code == 0, (tmp_path / "output").read_text()[-4000:]
    assert len(list(tmp_path.glob("worker*/app-*/*/stderr"))) == WORKERS  # each worker had an executor
    data = "SELECT tag, data::text FROM topic_log WHERE topic = %s ORDER BY seq"
    assert rows(data, "out") == rows(data, "orders")
    assert sorted(rows(data, "copy")) == sorted(rows(data, "orders"))

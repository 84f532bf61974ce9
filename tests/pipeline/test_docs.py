"""docs/pipeline.md as it is printed: its Python on this test's Spark, its jobs in this process, its SQL in this database."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from django.core.management import call_command
from django.db import connection
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from pipeline import stream
from pipeline.java import java_home
from pipeline.source import READ_OPTIONS
from tests.docs.printed import commands, snippets, text_of
from tests.instances import ROOT
from tests.pipeline.filling import fill, rows

PAGE = "docs/pipeline.md"
JOBS = [command for command in commands(PAGE) if command.startswith(".venv/bin/python manage.py pipeline")]

# What the analyst of the page may read, and what no analyst may.
SEEN, HIDDEN = ["topic_log"], ["topics_apikey"]


@pytest.fixture
def orders(dsn: str) -> None:
    fill(
        "orders", [b'{"id": 1, "total": 19.9}', b'{"id": 2, "total": 5}'], tag=["paid:1", "order:2"], node=["n1", "n2"]
    )
    fill("shop:a", [b'{"id": 3}'], tag=["paid:3"])


def test_the_python_works_as_printed(spark: SparkSession, orders: None, dsn: str, tmp_path: Path) -> None:
    known = {"spark": spark, "dsn": dsn}
    code = snippets(PAGE, "python")
    assert len(code) == 3
    for each in code:
        exec(each.replace("/srv/", f"{tmp_path}/"), known)
    query = known["query"]
    assert isinstance(query, StreamingQuery)
    try:
        query.processAllAvailable()
    finally:
        query.stop()
    assert rows("SELECT data::text FROM topic_log WHERE topic = 'orders-enriched'") == [('{"id":3}',)]


def test_the_jobs_work_as_printed(spark: SparkSession, orders: None, tmp_path: Path) -> None:
    assert len(JOBS) >= 8
    for command in JOBS:
        _, _, *arguments = shlex.split(command.replace("/srv/", f"{tmp_path}/"))
        call_command(*arguments)
    assert rows("SELECT count(*) FROM topic_log WHERE topic = 'orders-again'") == [(2,)]
    assert rows("SELECT count(*) FROM topic_log WHERE topic = 'orders-latest'") == [(2,)]
    assert list((tmp_path / "latest").rglob("*.parquet"))


def test_spark_submit_works_as_printed(orders: None, dsn: str, small: dict[str, str], tmp_path: Path) -> None:
    """But for the cluster, in whose place is this machine (tests/pipeline/test_kill.py has a cluster)."""
    (command,) = (each for each in commands(PAGE) if each.startswith("spark-submit "))
    given = {
        **os.environ,
        **small,
        "DATABASE_URL": dsn,
        "JAVA_HOME": str(java_home(tmp_path)),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    argv = shlex.split(command.replace("--master yarn", "--master local[1]"))
    done = subprocess.run(argv, cwd=ROOT, env=given, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr[-4000:]
    assert rows("SELECT job, state, read FROM pipeline_run") == [("rollup", "done", 3)]


def test_the_sql_works_as_printed(dsn: str) -> None:
    (code,) = snippets(PAGE, "sql")
    with connection.cursor() as cursor:
        cursor.execute(code)
        cursor.execute(
            "SELECT has_table_privilege('ada', name, 'SELECT') FROM unnest(%s::text[]) AS name", [[*SEEN, *HIDDEN]]
        )
        assert [may for (may,) in cursor.fetchall()] == [True, False]
        cursor.execute("DROP ROLE ada")


def test_every_option_of_the_source_is_in_the_table() -> None:
    reading = text_of(PAGE).split("### As a data source")[1].split("### The sink")[0]
    table = {
        name for row in re.findall(r"^\| (`.*?) \|", reading, re.MULTILINE) for name in re.findall(r"`(\w+)`", row)
    }
    assert table == stream.OPTIONS | READ_OPTIONS

"""docs/pipeline.md as it is printed: its Python as scripts, its jobs in this process, its SQL in this database."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from django.core.management import call_command
from django.db import connection
from psycopg.conninfo import make_conninfo
from pyspark.sql import SparkSession

from pipeline.read import batch, stream
from pipeline.runs.running import perform
from pipeline.session import driver
from pipeline.spark.java import java_home
from tests.deadlines import DEADLINE
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


@pytest.fixture
def ada(dsn: str) -> Iterator[str]:
    """The login of the page, made as the page says."""
    (code,) = snippets(PAGE, "sql")
    with connection.cursor() as cursor:
        cursor.execute(code.replace("…", "secret"))
        yield make_conninfo(dsn, user="ada", password="secret")
        cursor.execute("DROP ROLE ada")


def as_stranger(code: str, folder: Path, login: str, **environment: str) -> str:
    """Runs a script with the login and nothing of the site, under a Python that is not on PATH. Returns its output."""
    script = folder / "script.py"
    script.write_text(code.replace("/srv/", f"{folder}/"))
    given = {"DATABASE_URL": login, "PATH": "/usr/bin:/bin", "HOME": os.environ["HOME"], "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, script],
        cwd=folder,
        env=given | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=5 * DEADLINE,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


NEXT = "-- next script --"
OWN_SESSION = """
import sys
from pyspark.sql import SparkSession
from pipeline.spark.java import use_this_machine
use_this_machine()
spark = SparkSession.builder.config("spark.sql.python.filterPushdown.enabled", "true").getOrCreate()
from pipeline.source import Topics
spark.dataSource.register(Topics)
assert spark.read.format("topics").option("topic", "orders").load().count() == 2
spark.range(1).selectExpr("'[1]' AS data").write.format("topics").option("topic", "more").mode("append").save()
assert "django" not in sys.modules
spark.stop()
"""


def test_the_python_works_as_printed_and_a_session_of_ones_own_needs_no_site(
    spark: SparkSession, orders: None, ada: str, small: dict[str, str], tmp_path: Path
) -> None:
    perform("archive", {"topic": "orders", "out": str(tmp_path / "archive")})
    scripts = [OWN_SESSION, *snippets(PAGE, "python")]
    # Each script has its own namespace. They share a process, because each start of Java takes ten seconds of CPU.
    code = "".join(f"exec({script!r}, {{}}); print({NEXT!r})\n" for script in scripts)
    # Java takes the driver of the database when it starts.
    jar = driver("").get("spark.jars", "")
    given = {"PYSPARK_SUBMIT_ARGS": f"--jars {shlex.quote(jar)} pyspark-shell"} if jar else {}
    _, read, jdbc, _, archived, _ = as_stranger(code, tmp_path, ada, **small, **given).split(NEXT)
    assert rows("SELECT data::text FROM topic_log WHERE topic = 'more'") == [("[1]",)]
    assert "|  1| 19.9|" in read
    assert "n1|    1|" in jdbc
    assert "|    2|" in archived
    assert rows("SELECT data::text, tag FROM topic_log WHERE topic = 'orders-enriched'") == [('{"id": 3}', "seen:1")]


IMPORT = "import os; from pipeline.source import Topics; print(os.environ['PYSPARK_PYTHON'], os.environ['JAVA_HOME'])"


def test_the_import_of_the_source_finds_python_and_java(ada: str, tmp_path: Path) -> None:
    found = as_stranger(IMPORT, tmp_path, ada).split()
    assert found == [sys.executable, str(java_home(tmp_path))]


def test_the_address_of_the_embedded_postgresql_is_found_and_a_job_runs_in_the_same_shell(tmp_path: Path) -> None:
    (command,) = (each for each in commands(PAGE) if each.startswith("export "))
    job = shlex.join([sys.executable, str(ROOT / "manage.py"), "pipeline", "rollup", "--help"])
    said = subprocess.run(
        ["sh", "-euc", f'{command}\n{job}\necho "$DATABASE_URL"'],
        cwd=tmp_path,
        env={name: os.environ[name] for name in ("PATH", "HOME", "TOPICS_DATA")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (said.returncode, said.stderr) == (0, "")
    with psycopg.connect(said.stdout.splitlines()[-1]) as found:
        assert found.info.port == int(connection.get_connection_params()["port"])


def test_the_jobs_work_as_printed(spark: SparkSession, orders: None, tmp_path: Path) -> None:
    assert len(JOBS) >= 8
    for command in JOBS:
        _, _, *arguments = shlex.split(command.replace("/srv/", f"{tmp_path}/"))
        call_command(*arguments)
    assert rows("SELECT count(*) FROM topic_log WHERE topic = 'orders-again'") == [(2,)]
    assert rows("SELECT count(*) FROM topic_log WHERE topic = 'orders-latest'") == [(2,)]
    assert list((tmp_path / "latest").rglob("*.parquet"))


def test_spark_submit_works_as_printed(orders: None, dsn: str, small: dict[str, str], tmp_path: Path) -> None:
    """But for the cluster, in whose place is this machine (tests/pipeline/test_cluster.py has a cluster)."""
    (command,) = (each for each in commands(PAGE) if "spark-submit " in each)
    given = {**os.environ, **small, "DATABASE_URL": dsn, "JAVA_HOME": str(java_home(tmp_path))}
    given.pop("PYSPARK_PYTHON", None)  # an earlier test of this process may have set it
    # The python3 on PATH has no packages.
    without = tmp_path / "bin" / "python3"
    without.parent.mkdir()
    without.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
    without.chmod(0o755)
    given["PATH"] = f"{without.parent}:{os.environ['PATH']}"
    command = command.replace("--master yarn", "--master 'local[1]'")
    done = subprocess.run(
        ["sh", "-c", command], cwd=ROOT, env=given, capture_output=True, text=True, check=False, timeout=5 * DEADLINE
    )
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
    reading = text_of(PAGE).split("| option |")[1].split("### Over JDBC")[0]
    table = {
        name for row in re.findall(r"^\| (`.*?) \|", reading, re.MULTILINE) for name in re.findall(r"`(\w+)`", row)
    }
    assert table == stream.OPTIONS | batch.OPTIONS

"""A real Spark Connect server: what its clients read, append and stream, and a job."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.conf import settings

from pipeline.session import driver
from pipeline.spark.java import java_home
from tests.deadlines import DEADLINE
from tests.instances import ROOT, free_port, until
from tests.pipeline.cluster import spark_class
from tests.pipeline.filling import numbers, rows

SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"
CLIENT = """
import os
from pipeline.session import session

spark = session()
orders = {"dsn": os.environ["DATABASE_URL"], "topic": "orders"}
copy = {"dsn": orders["dsn"], "topic": "copy"}
read = spark.read.format("topics").options(**orders).schema("seq LONG, data STRING").load()
print([row.data for row in read.where("seq > 1").orderBy("seq").collect()])
read.where("seq = 1").select("data").write.format("topics").options(**orders).mode("append").save()
stream = spark.readStream.format("topics").options(**orders, startingSeq="earliest", columns="data").load()
sink = stream.coalesce(1).writeStream.format("topics").options(**copy, checkpointLocation=os.environ["CHECKPOINT"])
sink.trigger(availableNow=True).start().awaitTermination()
"""


@pytest.fixture
def remote(small: dict[str, str], tmp_path: Path) -> Iterator[str]:
    """The URL of the server. Its Python has the project, and nothing names the database to it."""
    port, log = free_port(), tmp_path / "connect.log"
    conf = {
        "spark.master": "local[2]",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        **driver(settings.TOPICS_JDBC_DRIVER),
    }
    argv = [word for name, value in conf.items() for word in ("--conf", f"{name}={value}")]
    given = {
        "PYTHONPATH": str(ROOT),
        "JAVA_HOME": str(java_home(tmp_path)),
        "DATABASE_URL": "",
        "SPARK_DAEMON_MEMORY": "700m",
    }
    server = spark_class("SparkSubmit", *argv, "--class", SERVER, "spark-internal", log=log, **small, **given)
    try:
        until(lambda: "Connect server started" in log.read_text() or server.poll() is not None, "the server to start")
        assert server.poll() is None, log.read_text()
        yield f"sc://127.0.0.1:{port}"
    finally:
        server.kill()
        server.wait()


def test_a_client_of_a_connect_server_reads_appends_and_runs_jobs(remote: str, dsn: str, tmp_path: Path) -> None:
    numbers("orders", 3)
    given = {
        **os.environ,
        "SPARK_REMOTE": remote,
        "CHECKPOINT": str(tmp_path / "checkpoint"),
        "PYTHONPATH": str(ROOT),
    }

    def run(*argv: str) -> str:
        done = subprocess.run(
            [sys.executable, *argv],
            cwd=ROOT,
            env=given,
            capture_output=True,
            text=True,
            check=False,
            timeout=5 * DEADLINE,
        )
        assert done.returncode == 0, done.stderr[-4000:]
        return done.stdout

    assert run("-c", CLIENT) == """['{"n":2}', '{"n":3}']\n"""
    assert rows("SELECT data::text FROM topic_log WHERE topic = 'orders' AND seq = 4") == [('{"n":1}',)]
    assert rows("SELECT count(*), count(DISTINCT seq) FROM topic_log WHERE topic = 'copy'") == [(4, 4)]
    run("manage.py", "pipeline", "rollup")
    assert rows("SELECT job, state, read FROM pipeline_run") == [("rollup", "done", 8)]

"""kill -9 of jobs, at moments nobody chose: a run after the kills has the result of one run that nobody killed."""

from __future__ import annotations

import os
from pathlib import Path

from pyspark.sql import SparkSession

from pipeline.running import perform
from tests import scripts
from tests.log.test_reclaim import mirror
from tests.pipeline.filling import numbers, rows
from tests.pipeline.test_archive import seqs
from tests.pipeline.test_kill import Start, cursor_seq, kill_midway, start

__all__ = ["start"]
KILLS = 2 if int(os.environ.get("THOROUGH", "1")) > 1 else 1  # each costs the start of a JVM
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
  FROM topic_log GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
"""


def tags(count: int, different: int) -> list[str]:
    return [f"t{n % 2}:{n % different}" for n in range(count)]


def test_an_archive_that_trims_is_killed(spark: SparkSession, dsn: str, start: Start, tmp_path: Path) -> None:
    numbers("orders", 4000)
    out = str(tmp_path / "archive")
    argv = ("manage.py", "pipeline", "archive", "--topic", "orders", "--out", out, "--step", "1000", "--trim")
    for _ in range(KILLS):
        kill_midway(start(*argv), lambda: cursor_seq("pipeline"), 8000)  # at 4000 it trims
        held = rows("SELECT seq FROM topic_log WHERE topic = 'orders' ORDER BY seq")
        assert held in ([], [(seq,) for seq in range(1, 4001)])  # the topic is trimmed after the last step
        if not held:
            assert cursor_seq("pipeline") == 4000
    numbers("orders", 10)
    perform("archive", {"topic": "orders", "out": out, "trim": True})
    assert rows("SELECT count(*) FROM topic_log") == [(0,)]
    assert seqs(spark, Path(out)) == list(range(1, 4011))
    assert perform("verify", {"topic": "orders", "archive": out}).state == "done"


def test_a_rollup_is_killed(spark: SparkSession, dsn: str, start: Start) -> None:
    for n in range(6):
        numbers(f"shop:{n}", 300, tag=tags(300, 50), node=["n1", "n2", "n2"] * 100)
    mirror("shop:0", "copy")
    scripts.catch_up(scripts.look_up("copy").id, 300)
    done = "SELECT coalesce(sum(seq), 0)::int FROM topics_cursor WHERE kind = 'pipeline'"
    for _ in range(KILLS):
        kill_midway(start("manage.py", "pipeline", "rollup"), lambda: rows(done)[0][0], 2100)
    numbers("shop:5", 10)
    perform("rollup", {})
    assert rows(ROLLED_UP) == rows(COUNTED)
    assert rows("SELECT sum(records) FROM pipeline_delay") == [(300,)]
    assert rows("SELECT count(*) FROM pipeline_staged") == [(0,)]


def test_a_topic_of_last_records_is_killed(spark: SparkSession, dsn: str, start: Start) -> None:
    numbers("orders", 1000, tag=tags(1000, 160))
    argv = ("manage.py", "pipeline", "latest", "--topic", "orders", "--into", "table")
    written = "SELECT count(*)::int FROM topic_log WHERE topic = 'table'"
    for _ in range(KILLS):
        kill_midway(start(*argv), lambda: rows(written)[0][0], 160)
    numbers("orders", 20, tag=tags(20, 160))
    perform("latest", {"topic": "orders", "into": "table"})
    assert rows(LAST, "table") == rows(LAST, "orders")
    assert rows(written) == [(160 + 20,)]  # each tag once for each run's end


def new_files(folder: Path) -> int:
    """How many files runs have written that did not end. A later run may remove them while we look."""
    found = (name for new in folder.glob("_latest.new-*") for *_, names in os.walk(new) for name in names)
    return sum(name.endswith(".parquet") for name in found)


def test_a_folder_of_last_records_is_killed(spark: SparkSession, dsn: str, start: Start, tmp_path: Path) -> None:
    numbers("orders", 1000, tag=tags(1000, 160))
    out = tmp_path / "latest"
    perform("latest", {"topic": "orders", "out": str(out)})
    numbers("orders", 20, tag=tags(20, 160))
    argv = ("manage.py", "pipeline", "latest", "--topic", "orders", "--out", str(out))
    for _ in range(KILLS):
        kill_midway(start(*argv), lambda: new_files(tmp_path), 3)
        # The folder of before, or of this run. Between two moves it has another name.
        shown = out if out.exists() else next(tmp_path.glob("_latest.old-*"))
        assert spark.read.parquet(str(shown)).count() == 160
    perform("latest", {"topic": "orders", "out": str(out)})
    found = spark.read.parquet(str(out)).orderBy("tag").select("tag", "node", "meta", "data").collect()
    assert [tuple(row) for row in found] == rows(LAST, "orders")
    assert not list(tmp_path.glob("_latest.*"))

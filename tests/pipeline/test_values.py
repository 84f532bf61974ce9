"""Odd JSON through Spark: the data source, an archive as Parquet, and a restore of it keep each byte."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from pipeline.runs.running import perform
from tests.fuzz.values import KEPT
from tests.pipeline.filling import fill, rows


def test_values_pass_spark(spark: SparkSession, dsn: str, tmp_path: Path) -> None:
    fill("orders", KEPT)
    read = spark.read.format("topics").options(dsn=dsn, topic="orders").load().orderBy("seq")
    assert [row.data.encode() for row in read.collect()] == KEPT
    perform("archive", {"topic": "orders", "out": str(tmp_path / "out")})
    archived = spark.read.parquet(str(tmp_path / "out")).orderBy("seq")
    assert [row.data.encode() for row in archived.collect()] == KEPT
    perform("restore", {"archive": str(tmp_path / "out"), "topic": "again", "source": "orders"})
    restored = rows("SELECT data::text FROM topic_log WHERE topic = 'again' ORDER BY seq")
    assert [text.encode() for (text,) in restored] == KEPT

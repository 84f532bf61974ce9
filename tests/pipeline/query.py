"""A streaming query from one topic to another."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import DataStreamWriter


def copy(spark: SparkSession, dsn: str, checkpoint: str) -> DataStreamWriter:
    """The query, to be started: `orders` to `out`, a few hundred records a batch."""
    stream = spark.readStream.format("topics").options(dsn=dsn, topic="orders", startingSeq="earliest", cursor="query")
    shown = stream.option("maxRecordsPerTrigger", 400).load().select("data", "tag", "node", "meta")
    return shown.writeStream.format("topics").options(dsn=dsn, topic="out", checkpointLocation=checkpoint)

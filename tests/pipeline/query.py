"""Streaming queries from a topic to others."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import DataStreamWriter


def copy(spark: SparkSession, dsn: str, checkpoint: str) -> DataStreamWriter:
    """The query, to be started: `orders` to `out`, a few hundred records a batch."""
    stream = spark.readStream.format("topics").options(dsn=dsn, topic="orders", startingSeq="earliest", cursor="query")
    shown = stream.option("maxRecordsPerTrigger", 400).load().select("data", "tag", "node", "meta")
    return shown.writeStream.format("topics").options(dsn=dsn, topic="out", checkpointLocation=checkpoint)


def divided(spark: SparkSession, dsn: str, checkpoint: str) -> DataStreamWriter:
    """The query, to be started: `orders` to `out`, in tasks of 5,000. All but the first write a record to `gate` before.

    So a test that locks `gate` stops them.
    """
    stream = spark.readStream.format("topics").options(dsn=dsn, topic="orders", startingSeq="earliest").load()
    shown = stream.selectExpr("if(seq IN (5001, 10001, 15001), 'gate', 'out') AS topic", "data")
    return shown.writeStream.format("topics").options(dsn=dsn, checkpointLocation=checkpoint)


if __name__ == "__main__":  # a process, which tests kill
    from pipeline.session import session

    divided(session(), *sys.argv[1:]).start().awaitTermination()

"""A streaming query from one topic to another; and as a process, which tests kill: database and checkpoint are its arguments."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import django

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import DataStreamWriter


def copy(spark: SparkSession, dsn: str, checkpoint: str) -> DataStreamWriter:
    """The query, to be started: `orders` to `out`, a few hundred records a batch."""
    stream = spark.readStream.format("topics").options(dsn=dsn, topic="orders", startingSeq="earliest", cursor="query")
    shown = stream.option("maxRecordsPerTrigger", 400).load().select("data", "tag", "node", "meta")
    return shown.writeStream.format("topics").options(dsn=dsn, topic="out", checkpointLocation=checkpoint)


if __name__ == "__main__":
    django.setup()  # the settings and the servers are in the environment
    from pipeline.session import session

    copy(session(), *sys.argv[1:]).trigger(processingTime="0 seconds").start().awaitTermination()

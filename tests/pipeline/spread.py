"""A read, a write and a stream on the cluster of SPARK_MASTER, as a program: database and checkpoint are its arguments."""

from __future__ import annotations

import sys

from pipeline.session import session
from tests.pipeline.query import copy

if __name__ == "__main__":
    dsn, checkpoint = sys.argv[1:]
    spark = session()
    read = (
        spark.read.format("topics")
        .options(dsn=dsn, topic="orders", partitions=4)
        .schema("data STRING, tag STRING")
        .load()
    )
    read.repartition(4).write.format("topics").options(dsn=dsn, topic="copy").mode("append").save()
    copy(spark, dsn, checkpoint).trigger(availableNow=True).start().awaitTermination()
    spark.stop()

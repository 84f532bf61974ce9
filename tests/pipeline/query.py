"""A streaming query from one topic to another, as a process that tests kill: DSN and checkpoint are its arguments."""

from __future__ import annotations

import sys

import django

django.setup()  # DJANGO_SETTINGS_MODULE and the servers are in the environment

from pipeline.session import session  # noqa: E402
from tests.pipeline.conftest import SMALL  # noqa: E402

if __name__ == "__main__":
    dsn, checkpoint = sys.argv[1:]
    spark = session(**{name.replace(".", "__"): value for name, value in SMALL.items()})
    stream = spark.readStream.format("topics").options(dsn=dsn, topic="orders", startingSeq="earliest", cursor="query")
    shown = stream.option("maxRecordsPerTrigger", 100).load().select("data", "tag", "node", "meta")
    sink = shown.writeStream.format("topics").options(dsn=dsn, topic="out", checkpointLocation=checkpoint)
    sink.trigger(processingTime="0 seconds").start().awaitTermination()

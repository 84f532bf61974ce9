"""Jobs beside a streaming query on one Spark, as a process, which tests kill: database, checkpoint, and the jobs as JSON."""

from __future__ import annotations

import json
import os
import sys
import threading
import traceback
from typing import Any

import django

from tests.deadlines import DEADLINE

if __name__ == "__main__":
    django.setup()  # the settings and the servers are in the environment
    from pipeline.jobs import latest
    from pipeline.runs.running import perform
    from pipeline.session import session
    from tests.instances import until
    from tests.pipeline.filling import FEW
    from tests.pipeline.query import copy

    dsn, checkpoint, jobs = sys.argv[1:]
    latest.TASKS = FEW
    spark = session()

    def run(job: str, options: dict[str, Any]) -> None:
        spark.createDataFrame([], "id INT")  # by which Java has the session, and its sources, in this thread too
        try:
            perform(job, options)
        except BaseException:
            traceback.print_exc()
            os._exit(1)

    query = copy(spark, dsn, checkpoint).trigger(processingTime="0 seconds").start()
    until(
        lambda: query.lastProgress, "the query to write", seconds=5 * DEADLINE, tick=0.1
    )  # all begin with a Spark that has done some work
    for work in json.loads(jobs):
        threading.Thread(target=run, args=work).start()
    query.awaitTermination()

"""Spark's daemon of Python workers, with the modules of the data source loaded before it forks.

Spark forks a Python process for each planning of a read and for each task. Without the modules, each of these processes would
spend half a second on imports. Arrow stops and restarts its thread pools around a fork.
"""

from __future__ import annotations

import importlib
import sys

from pyspark import daemon

MODULES = ("pyarrow", "pyarrow.compute", "pyspark.worker")
OURS = (
    "pipeline.source",
    "pipeline.read.batch",
    "pipeline.read.stream",
    "pipeline.write.sink",
    "pipeline.read.snapshot",
)


if __name__ == "__main__":
    for name in (*MODULES, *OURS, *sys.argv[1:]):
        importlib.import_module(name)
    daemon.manager()

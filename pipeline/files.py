"""Files below a path of any Hadoop file system: a local folder, hdfs://, s3a:// and others."""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING, Any

from base.refusal import Refusal

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


GLOB = re.compile(r"[\\{}\[\]*?^,]")  # special characters of Hadoop's patterns


class Files:
    """A folder. All paths are relative to the folder."""

    def __init__(self, spark: SparkSession, root: str) -> None:
        """Raises Refusal if this Spark cannot use the path."""
        from py4j.protocol import Py4JJavaError

        self.spark = spark
        jvm: Any = spark._jvm
        self.new_path = jvm.org.apache.hadoop.fs.Path
        try:
            path = self.new_path(root)
            self.system = path.getFileSystem(spark._jsc.hadoopConfiguration())
            self.root = self.system.makeQualified(path).toString().rstrip("/")
        except (Py4JJavaError, OSError, ValueError) as error:
            reason = str(getattr(error, "java_exception", error))
            raise Refusal(f"{root} is no path that Spark can use: {reason}") from error

    @property
    def place(self) -> str:
        """Returns a unique name of the folder: symbolic links of a local path are resolved."""
        local = self.root.removeprefix("file:")
        return self.root if local == self.root else f"file:{os.path.realpath(local)}"

    def url(self, path: str) -> str:
        return f"{self.root}/{path}" if path else self.root

    def literal(self, path: str) -> str:
        """Returns the URL of a path, escaped for calls that expect a pattern."""
        return escaped(self.url(path))

    def at(self, path: str) -> Any:
        return self.new_path(self.url(path))

    def exists(self, path: str) -> bool:
        return bool(self.system.exists(self.at(path)))

    def names(self, path: str) -> list[str]:
        """Returns the names in a folder, sorted. Returns [] if the folder does not exist."""
        if not self.exists(path):
            return []
        return sorted(status.getPath().getName() for status in self.system.listStatus(self.at(path)))

    def matching(self, pattern: str) -> list[str]:
        """Returns the paths that match one of Hadoop's patterns, sorted. The folder's own name is escaped."""
        found = self.system.globStatus(self.new_path(f"{self.literal('')}/{pattern}")) or []
        return sorted(self.relative(status.getPath()) for status in found)

    def relative(self, path: Any) -> str:
        return str(path.toString()).removeprefix(self.root + "/")

    def delete(self, path: str) -> None:
        self.system.delete(self.at(path), True)

    def move(self, path: str, to: str) -> None:
        """Moves `path` to `to` and replaces an existing target. Raises OSError."""
        target = self.at(to)
        self.system.mkdirs(target.getParent())
        if self.system.exists(target):
            self.system.delete(target, True)
        if not self.system.rename(self.at(path), target):
            raise OSError(f"{self.url(path)} could not be moved to {self.url(to)}")

    def write_json(self, path: str, value: Any) -> None:
        """Writes a JSON file in one step: readers never see a partial file."""
        new = f"{path}.new"
        stream = self.system.create(self.at(new), True)
        stream.write(bytearray(json.dumps(value, indent=1).encode()))
        stream.close()
        self.move(new, path)

    def read_json(self, path: str) -> Any:
        stream = self.system.open(self.at(path))
        try:
            return json.loads(bytes(stream.readAllBytes()))
        finally:
            stream.close()


def escaped(path: str) -> str:
    """Escapes a path, so that the path as a pattern matches only itself."""
    return GLOB.sub(r"\\\g<0>", path)

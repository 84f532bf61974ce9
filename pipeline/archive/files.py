"""Files below a folder: a local folder, or a folder of any other file system that Hadoop knows (pipeline/spark/classic.py)."""

from __future__ import annotations

import json
import os
import re
import shutil
from abc import ABC, abstractmethod
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

GLOB = re.compile(r"[\\{}\[\]*?^,]")  # special characters of Hadoop's patterns
SCHEME = re.compile(r"[^/]*:")
DEFAULT_FS = re.compile(r"^\s*spark\.hadoop\.fs\.defaultFS\b", re.MULTILINE)


class Files(ABC):
    """A folder. All paths are relative to the folder. `root` is its URL, as Hadoop writes it."""

    root: str

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

    def write_json(self, path: str, value: Any) -> None:
        """Writes a JSON file in one step: readers never see a partial file."""
        new = f"{path}.new"
        self.write(new, json.dumps(value, indent=1).encode())
        self.move(new, path)

    def read_json(self, path: str) -> Any:
        return json.loads(self.read(path))

    @abstractmethod
    def local(self, path: str) -> AbstractContextManager[Path]:
        """Gives a file as a file of this machine, for the time of the block."""

    @abstractmethod
    def exists(self, path: str) -> bool: ...

    @abstractmethod
    def names(self, path: str) -> list[str]:
        """Returns the names in a folder, sorted. Returns [] if the folder does not exist."""

    @abstractmethod
    def matching(self, pattern: str) -> list[str]:
        """Returns the paths that match a pattern with `*`, sorted. The folder's own name is no pattern."""

    @abstractmethod
    def delete(self, path: str) -> None: ...

    @abstractmethod
    def move(self, path: str, to: str) -> None:
        """Moves `path` to `to`, and replaces an existing file. Raises OSError."""

    @abstractmethod
    def write(self, path: str, content: bytes) -> None: ...

    @abstractmethod
    def read(self, path: str) -> bytes: ...


class LocalFiles(Files):
    """A folder of this machine. Its use needs no Spark."""

    def __init__(self, root: str) -> None:
        self.folder = Path(os.path.abspath(re.sub("^file:(//(?=/))?", "", root)))
        self.root = f"file:{self.folder}"

    def local(self, path: str) -> AbstractContextManager[Path]:
        return nullcontext(self.folder / path)

    def exists(self, path: str) -> bool:
        return (self.folder / path).exists()

    def names(self, path: str) -> list[str]:
        folder = self.folder / path
        return sorted(each.name for each in folder.iterdir() if is_shown(each)) if folder.exists() else []

    def matching(self, pattern: str) -> list[str]:
        return sorted(
            str(each.relative_to(self.folder)) for each in self.folder.glob(without_sets(pattern)) if is_shown(each)
        )

    def delete(self, path: str) -> None:
        target = self.folder / path
        if target.is_dir():
            shutil.rmtree(target)
            return
        for each in (target, checksum(target)):
            each.unlink(missing_ok=True)

    def move(self, path: str, to: str) -> None:
        source, target = self.folder / path, self.folder / to
        target.parent.mkdir(parents=True, exist_ok=True)
        # A file's checksum goes first: a checksum without its file is ignored, and an old checksum would refuse the new file.
        checksum(target).unlink(missing_ok=True)
        if checksum(source).exists():
            checksum(source).replace(checksum(target))
        source.replace(target)

    def write(self, path: str, content: bytes) -> None:
        target = self.folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        checksum(target).unlink(missing_ok=True)
        with target.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())

    def read(self, path: str) -> bytes:
        return (self.folder / path).read_bytes()


def root_of(root: str) -> str | None:
    """Returns the root of a path or URL as Hadoop would find it, or None if only Spark can tell."""
    if is_local(root):
        return LocalFiles(root).root
    return root.rstrip("/") if re.match(r"[A-Za-z][A-Za-z0-9+.-]*://[^/]+", root) else None


def is_local(root: str) -> bool:
    """Returns whether Hadoop would take a path for a local one: by its scheme, or by the default file system."""
    if SCHEME.match(root):
        return root.startswith("file:/") and not re.match("file://[^/]", root)
    folder = os.environ.get("SPARK_CONF_DIR")
    defaults = Path(folder, "spark-defaults.conf") if folder else None
    configured = defaults is not None and defaults.exists() and DEFAULT_FS.search(defaults.read_text())
    return not configured and not os.environ.get("HADOOP_CONF_DIR")


def checksum(file: Path) -> Path:
    """Returns the file in which Hadoop keeps the checksum of a local file."""
    return file.with_name(f".{file.name}.crc")


def is_shown(path: Path) -> bool:
    return not path.name.startswith(".")


def without_sets(pattern: str) -> str:
    """Escapes what is special for a Path and no star."""
    return re.sub(r"[\[?]", r"[\g<0>]", pattern)


def escaped(path: str) -> str:
    """Escapes a path, so that the path as a pattern matches only itself."""
    return GLOB.sub(r"\\\g<0>", path)

"""Files that an operator can change while the gateway runs: keys, certificates, tables. They are read again after changes.

A process looks at a file at most once a second, when it needs the value, and at once after SIGHUP. A file that changed within the
last half second is left for the next look, because its writer may not have finished.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from base.refusal import Refusal
from gateway.api import PluginConfigError

log = logging.getLogger(__name__)
Value = TypeVar("Value")
LOOK_EVERY_SECONDS = 1.0
SETTLED_SECONDS = 0.5
Stamp = tuple[int, int, int]


def stamp(file: Path) -> Stamp:
    """Returns what changes when a file is written or replaced. Raises OSError."""
    found = file.stat()
    return found.st_mtime_ns, found.st_size, found.st_ino


def stamp_or_none(file: Path) -> Stamp | None:
    """Returns the stamp of a file, or None if it cannot be looked at."""
    try:
        return stamp(file)
    except OSError:
        return None


class WatchedFiles(Generic[Value]):
    """The value of some files. `read` returns it from their present versions.

    If a later version is missing or invalid, the error is logged once, and the last good value stays. Each look reads that
    version again, because the error can pass without a change of the files, for example when a file descriptor is free again.
    """

    asked: ClassVar[float] = 0.0  # when an operator last wanted all files to be looked at

    def __init__(self, paths: Sequence[Path], read: Callable[[], Value]) -> None:
        """Raises what `read` raises if the first version is missing or invalid."""
        self.paths, self.read = paths, read
        self._stamps, self._looked = [stamp(each) for each in paths], time.monotonic()
        self._value = read()
        self._told: object = None  # the files and the fault that the log has

    @classmethod
    def look_now(cls) -> None:
        """Makes every value look at its files when it is needed next."""
        WatchedFiles.asked = time.monotonic()

    @property
    def value(self) -> Value:
        now = time.monotonic()
        if now >= self._looked + LOOK_EVERY_SECONDS or self._looked <= self.asked:
            is_forced, self._looked = self._looked <= self.asked, now
            self._look(is_forced)
        return self._value

    @property
    def changed(self) -> float:
        """When the last good version was changed, in seconds since 1970."""
        return max(changed for changed, _, _ in self._stamps) / 1e9

    def _look(self, is_forced: bool) -> None:
        names, stamps = ", ".join(map(str, self.paths)), list[Stamp]()
        try:
            stamps = [stamp(each) for each in self.paths]
            if stamps == self._stamps:
                self._told = None
                return
            last = max(changed for changed, _, _ in stamps) / 1e9
            if not is_forced and 0 <= time.time() - last < SETTLED_SECONDS:
                return
            self._value = self.read()
            self._stamps, self._told = stamps, None
            log.info("Read %s again", names)
        except (OSError, ValueError, Refusal) as error:
            if (fault := (stamps, str(error))) != self._told:
                self._told = fault
                log.warning("%s: invalid. The gateway keeps its last version: %s", names, error)


class WatchedFile(WatchedFiles[Value]):
    """One text file. `parse` raises ValueError if the text is invalid."""

    def __init__(self, path: Path, parse: Callable[[str], Value]) -> None:
        super().__init__([path], lambda: parse(path.read_text()))


class FileContext(Protocol):
    """The context of a plugin's `initialize`."""

    def file(self, name: str) -> Path: ...


def opened(context: FileContext, field: str, path: str, parse: Callable[[str], Any]) -> WatchedFile[Any]:
    """Returns the file that `field` of a plugin's configuration names. Raises PluginConfigError."""
    try:
        return WatchedFile(context.file(path), parse)
    except OSError as error:
        raise PluginConfigError(f"{field}: {path} cannot be read: {error.strerror}.") from error
    except ValueError as error:
        raise PluginConfigError(f"{field}: {path}: {error}.") from error

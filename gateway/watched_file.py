"""A file that an operator can change while the gateway runs. The file is read again after changes."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

log = logging.getLogger(__name__)
Parsed = TypeVar("Parsed")
LOOK_EVERY_SECONDS = 1.0


class WatchedFile(Generic[Parsed]):
    """`value` is the parsed file. If a later version does not parse, the error is logged, and the last good version stays."""

    def __init__(self, path: Path, parse: Callable[[str], Parsed]) -> None:
        """Raises OSError or ValueError if the first version is missing or invalid."""
        self.path, self.parse = path, parse
        self._stamp, self._next_look = self._look(), time.monotonic() + LOOK_EVERY_SECONDS
        self._value = parse(path.read_text())

    @property
    def value(self) -> Parsed:
        now = time.monotonic()
        if now >= self._next_look:
            self._next_look = now + LOOK_EVERY_SECONDS
            self._read_again()
        return self._value

    def _look(self) -> tuple[int, int, int]:
        found = self.path.stat()
        return found.st_mtime_ns, found.st_size, found.st_ino

    def _read_again(self) -> None:
        try:
            stamp = self._look()
            if stamp == self._stamp:
                return
            self._stamp = stamp
            self._value = self.parse(self.path.read_text())
            log.info("Read %s again", self.path)
        except (OSError, ValueError) as error:
            log.warning("%s is invalid. The gateway keeps its last version: %s", self.path, error)

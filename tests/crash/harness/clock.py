"""A clock that steps under running processes: clock.c, compiled here and preloaded into the instance."""

from __future__ import annotations

import mmap
import shutil
import struct
import subprocess
from pathlib import Path

SOURCE = Path(__file__).with_name("clock.c")


class Clock:
    """The wall clock of all processes that have `environment` in their environment."""

    def __init__(self, folder: Path) -> None:
        """Raises NoClock where none can be made."""
        library, file = folder / "clock.so", folder / "clock"
        compiler = shutil.which("cc")
        if compiler is None:
            raise NoClock("there is no C compiler (cc)")
        argv = [compiler, "-shared", "-fPIC", "-O2", "-o", str(library), str(SOURCE), "-ldl"]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        if done.returncode:
            raise NoClock(f"the clock does not compile: {done.stderr.strip().splitlines()[-1]}")
        file.write_bytes(bytes(24))
        with file.open("r+b") as opened:
            self._page = mmap.mmap(opened.fileno(), 24)
        for path in (folder, library, file):  # PostgreSQL is another user, and loads it, too
            path.chmod(0o755)
        self.environment = {"LD_PRELOAD": str(library), "CRASH_CLOCK": str(file)}

    def step(self, seconds: float) -> None:
        """From now on it is so many seconds ahead of the true time, or behind it."""
        self._page[:8] = struct.pack("q", int(seconds * 1e9))

    def step_one(self, pid: int, seconds: float) -> None:
        """From now on the clock of this process alone is so many seconds ahead of the others, or behind them."""
        self._page[8:] = struct.pack("qq", pid, int(seconds * 1e9))


class NoClock(Exception):
    """The clock cannot step on this machine."""

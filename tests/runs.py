"""The folder of a run of the tests, of the crash harness or of the benchmark. A run leaves nothing, however it ends.

The folder holds everything that the run and its processes write, also the temporary files of Spark and Chromium. A lock in it
ends with the run, even if the run is killed. The next run removes each folder whose lock is free: its processes, the shared
memory of its PostgreSQL servers, and its files.
"""

import contextlib
import fcntl
import os
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from multiprocessing.util import Finalize
from pathlib import Path
from typing import IO

from tests.shared_memory import MEMORY, free_shared_memory, remove_sockets

KINDS = ("tests", "crash", "bench")
LOCK = "lock"
AFTER_MULTIPROCESSING = -101  # which removes its own folder of temporary files with -100
LEAST_MEMORY = 12 * 2**30  # bytes, of which the files take 9 GiB at most
LONGEST_PATH = 30  # of the folder for temporary files
GIBIBYTE = 2**30


def begin_run(kind: str, memory: bool = True) -> Path:
    """Makes the folder of a run, and removes what killed runs left. It is removed when this process ends.

    Temporary files of this process, and of those that it starts, are made in the folder.
    `kind`: one of KINDS. `memory`: the folder is in memory if there is room. The benchmark measures the disk.
    """
    for each in ended():
        remove(each)
    folder, lock = make(kind, (in_memory() if memory else None) or on_disk())
    temporary = folder / "tmp"
    temporary.mkdir()
    temporary.chmod(0o1777)
    os.environ.update(dict.fromkeys(("TMPDIR", "SPARK_LOCAL_DIRS"), str(temporary)))
    tempfile.tempdir = None  # Python asks the environment again

    def end() -> None:
        remove(folder)
        lock.close()

    Finalize(None, end, exitpriority=AFTER_MULTIPROCESSING)
    return folder


def make(kind: str, where: str) -> tuple[Path, IO[str]]:
    """Returns a new folder and its lock. It gets its name when it is locked, so another run never takes it for an ended one."""
    unnamed = Path(tempfile.mkdtemp(prefix=".topics-", dir=where))
    unnamed.chmod(0o755)  # PostgreSQL is another user
    lock = (unnamed / LOCK).open("w")
    fcntl.flock(lock, fcntl.LOCK_EX)
    return unnamed.rename(unnamed.parent / f"topics-{kind}-{unnamed.name.rpartition('-')[2]}"), lock


def ended() -> Iterator[Path]:
    """Yields the folders of this user's runs whose lock is free, and holds the lock meanwhile."""
    for place in {MEMORY, Path(tempfile.gettempdir()), Path(on_disk())}:
        for path in (path for kind in KINDS for path in place.glob(f"topics-{kind}-*/{LOCK}")):
            with contextlib.suppress(OSError), path.open() as lock:
                if os.fstat(lock.fileno()).st_uid == os.geteuid():
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    yield path.parent


def in_memory() -> str | None:
    """Returns a folder in memory that has room for a run, or None.

    Each instance makes and removes some 1,700 files. ext4 searches longer for a free inode, the more were freed in the last
    minute: half a second of a core for each instance of a test run.
    """
    room = shutil.disk_usage(MEMORY).free if os.access(MEMORY, os.W_OK | os.X_OK) else 0
    return str(MEMORY) if min(room, available()) > LEAST_MEMORY else None


def on_disk() -> str:
    """Returns the folder of temporary files, or /tmp if its path is long: sockets below it have paths of at most 104 bytes."""
    folder = tempfile.gettempdir()
    return folder if len(folder) <= LONGEST_PATH else "/tmp"


def remove(folder: Path) -> None:
    """Removes a folder of servers: its processes, their shared memory and sockets, and its files."""
    kill_processes(folder)
    for each in folder.rglob("postmaster.pid"):
        free_shared_memory(each)
        remove_sockets(each)
    shutil.rmtree(folder, ignore_errors=True)


def kill_processes(folder: Path) -> None:
    """Kills all processes of a folder with SIGKILL, and waits until they have ended."""
    while pids := processes_of(folder):
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)


def processes_of(folder: Path, name: str = "") -> list[int]:
    """Returns the other processes with `name` in their command line, and with the folder in it, in their environment, or as cwd.

    Tests ask thousands of times, among hundreds of processes, so this reads no more of /proc than it has to.
    """
    found, wanted, named = [], os.fsencode(folder), os.fsencode(name)
    for pid in map(int, filter(str.isdigit, os.listdir("/proc") if os.path.isdir("/proc") else ())):
        try:
            command = whole(f"/proc/{pid}/cmdline").replace(b"\0", b" ")
            if not command or named not in command or pid == os.getpid():  # a zombie has no command line
                continue
            words = command + whole(f"/proc/{pid}/environ") + os.readlink(b"/proc/%d/cwd" % pid)
        except OSError:
            continue
        if wanted in words:
            found.append(pid)
    return found


def whole(path: str) -> bytes:
    """Returns a file's content, for a third of what Path.read_bytes takes."""
    descriptor, parts = os.open(path, os.O_RDONLY), []
    try:
        while part := os.read(descriptor, 65536):
            parts.append(part)
    finally:
        os.close(descriptor)
    return b"".join(parts)


def available() -> int:
    """Returns the bytes of memory that new processes can have, or as many as this machine has where the kernel does not say."""
    try:
        return meminfo()["MemAvailable"]
    except OSError:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def meminfo() -> dict[str, int]:
    """Returns what the kernel says of memory, in bytes."""
    rows = (line.split() for line in Path("/proc/meminfo").read_text().splitlines())
    return {name.rstrip(":"): int(kilobytes) * 1024 for name, kilobytes, *_ in rows}


class Peak(threading.Thread):
    """Looks each second how much memory is in use: by processes, and by files in /dev/shm."""

    def __init__(self) -> None:
        super().__init__(name="peak", daemon=True)
        self.before = available()
        self.bytes = 0
        self.start()

    def run(self) -> None:
        while True:
            self.bytes = max(self.bytes, self.before - available())
            time.sleep(1)

    def __str__(self) -> str:
        return (
            f"{self.bytes / GIBIBYTE:.1f} GiB of memory at most, of {self.before / GIBIBYTE:.1f} that were free before"
        )

"""Heartbeats of the processes of an instance, in memory that is shared with the supervisor (docs/deploy.md).

If a process is stopped, or its event loop hangs, the kernel still accepts connections to it, and nothing answers them. So each
process writes the time into a file that is mapped into memory, a web process from its event loop, and the others from a thread.
The supervisor kills a process if its last heartbeat is too old.

Only processes with a supervisor have these heartbeats, and only on Linux. Linux shows the start time of a process, and so whether
a pid still belongs to the same process.

Under another supervisor, a worker, push and beat touch a file instead, for the probes of Kubernetes and Compose. A probe that
asks through Redis would restart them all while Redis is away.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import mmap
import os
import signal
import struct
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from django.conf import settings

from base.locks import take_lock
from base.threads import start_thread

BEAT_SECONDS = 0.5
# After a later check the supervisor was stopped or slow itself, and perhaps the other processes too.
LATE_LOOK_SECONDS = 2.0
SLOT = struct.Struct("<16sqqq")  # name, pid, start time (kernel ticks), last heartbeat (ns, monotonic)
SLOTS = 1024
PROBED = ("worker", "push", "beat")  # a web process answers /v0/health
Beat = Callable[[], None]


class Slot(NamedTuple):
    name: str
    pid: int
    started: int
    beat_ns: int

    @property
    def is_alive(self) -> bool:
        """Whether the process that took the slot still runs."""
        return started(self.pid) == self.started


class Heartbeats:
    """The heartbeat file of an instance. Each process writes to its own slot. A lock protects taking and clearing of slots."""

    def __init__(self, data: Path) -> None:
        """Raises OSError if `make` has not created the file."""
        self.lock = data / "locks" / "heartbeats"
        with (data / "heartbeats").open("r+b") as file:
            self.memory = mmap.mmap(file.fileno(), SLOT.size * SLOTS)

    def slots(self) -> Iterator[tuple[int, Slot]]:
        """Yields the taken slots with their positions."""
        for place in range(SLOTS):
            name, *rest = SLOT.unpack_from(self.memory, place * SLOT.size)
            if rest[0]:
                yield place, Slot(name.rstrip(b"\0").decode(), *rest)

    def take(self, name: str) -> Beat:
        """Takes a slot for this process. Returns a function that writes a heartbeat. Raises OSError if all slots are taken."""
        with self.locked():
            taken = {place for place, slot in self.slots() if slot.is_alive}
            free = next((place for place in range(SLOTS) if place not in taken), None)
            if free is None:
                raise OSError("no free slot for a heartbeat")
            begin = free * SLOT.size
            SLOT.pack_into(self.memory, begin, name.encode(), os.getpid(), started(os.getpid()), time.monotonic_ns())
        at = begin + SLOT.size - 8
        return lambda: struct.pack_into("<q", self.memory, at, time.monotonic_ns())

    def late(self, now_ns: int, seconds: float) -> list[Slot]:
        """Returns the living processes whose last heartbeat is older than `seconds`. Frees the slots of exited processes.

        Raises OSError.
        """
        found = [slot for _, slot in self.slots() if now_ns - slot.beat_ns > seconds * 1e9]
        if any(not slot.is_alive for slot in found):
            with self.locked():
                for place, slot in self.slots():
                    if not slot.is_alive:
                        SLOT.pack_into(self.memory, place * SLOT.size, b"", 0, 0, 0)
        return [slot for slot in found if slot.is_alive]

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        held = take_lock(self.lock, fcntl.LOCK_EX)
        assert held is not None, "a lock that is waited for"
        try:
            yield
        finally:
            os.close(held)


class Watch:
    """The supervisor's check of heartbeats. Each call is one bounded step of the caller's loop."""

    def __init__(self, heartbeats: Heartbeats, seconds: float) -> None:
        """`seconds`: a process without a heartbeat for this long is killed. 0: no process is killed."""
        self.heartbeats, self.seconds = heartbeats, seconds
        self.looked_ns = time.monotonic_ns()
        self.grace_until_ns = 0

    def end_frozen(self, say: Callable[[str], object]) -> None:
        """Kills the processes whose heartbeat is late. Their parents start new processes."""
        now = time.monotonic_ns()
        if now - self.looked_ns > LATE_LOOK_SECONDS * 1e9:
            self.grace_until_ns = now + int(self.seconds * 1e9)
        self.looked_ns = now
        if not self.seconds or now < self.grace_until_ns:
            return
        try:
            late = self.heartbeats.late(now, self.seconds)
        except OSError:  # without a free descriptor, nobody can be told from a process that has exited
            return
        for slot in late:
            with contextlib.suppress(ProcessLookupError):
                os.kill(slot.pid, signal.SIGKILL)
                say(
                    f"{slot.name} (process {slot.pid}) had no heartbeat for {self.seconds:.0f} s: killed, another will start"
                )


def make(data: Path) -> Heartbeats:
    """Creates an empty heartbeat file.

    The new file replaces an old file, because processes of a former supervisor can still write to the old file. The function
    writes all pages, so a full disk raises an error here. Otherwise a full disk would raise a signal later.
    """
    new = data / "heartbeats.new"
    new.write_bytes(bytes(SLOT.size * SLOTS))
    new.rename(data / "heartbeats")
    return Heartbeats(data)


def in_thread(name: str) -> None:
    """Sends heartbeats while threads of this process run."""
    if (beat := slot_of(name) or file_of(name)) is not None:

        def beat_forever() -> None:
            while True:
                with contextlib.suppress(OSError):  # a file that cannot be touched for a moment
                    beat()
                time.sleep(BEAT_SECONDS)

        start_thread("heartbeat", beat_forever)


def in_loop(name: str) -> None:
    """Sends heartbeats while the running event loop works."""
    if (beat := slot_of(name)) is not None:
        loop = asyncio.get_running_loop()

        def again() -> None:
            beat()
            loop.call_later(BEAT_SECONDS, again)

        again()


def slot_of(name: str) -> Beat | None:
    """Returns the heartbeat function of this process, or None without a supervisor."""
    if sys.platform != "linux" or not os.environ.get("TOPICS_SUPERVISED"):
        return None
    with contextlib.suppress(OSError):
        return Heartbeats(settings.TOPICS_DATA).take(name)
    return None


def file_of(name: str) -> Beat | None:
    """Returns the heartbeat function of a process under another supervisor, or None if its folder takes no file."""
    file = settings.TOPICS_DATA / "alive" / name
    if os.environ.get("TOPICS_SUPERVISED") or name not in PROBED:
        return None
    with contextlib.suppress(OSError):
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        file.touch()
        return file.touch
    return None


def started(pid: int) -> int:
    """Returns the start time of a process in kernel ticks, or 0 if the process does not exist. A zombie counts as ended.

    Raises OSError if no descriptor is free.
    """
    try:
        state, *fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return 0 if state in "ZX" else int(fields[18])

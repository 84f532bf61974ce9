"""File descriptors that this process keeps for the time when no other is free."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import resource
import threading
import time
from collections.abc import Iterator

from base.errors import NotReady

log = logging.getLogger(__name__)
TELL_SECONDS = 60.0  # between two lines of the log about a process without a free descriptor

CLIENTS = 8  # descriptors, each for a connection of one answer (http1/acceptor.py)
DATABASE = 4  # descriptors for connections to PostgreSQL


def is_full(error: OSError) -> bool:
    """Returns whether the error says that no descriptor is free, in this process or on this machine."""
    return error.errno in (errno.EMFILE, errno.ENFILE)


class Reserve:
    """The reserve of one process: descriptors for clients, and others for PostgreSQL. A process that was forked begins with none.

    PostgreSQL needs descriptors of its own. If the connections of a process end while no descriptor is free, each that becomes
    free would otherwise go to the next client.
    """

    def __init__(self) -> None:
        self.for_clients: list[int] = []
        self.for_database: list[int] = []
        self.claims = 0  # connections to PostgreSQL that are being opened with descriptors of the reserve
        self.counting = threading.Lock()  # threads and the event loop open connections
        self.told_at = -TELL_SECONDS

    def refill(self) -> None:
        """Completes the reserve, as far as descriptors are free and no connection to PostgreSQL is about to take them."""
        if self.claims:
            return
        with contextlib.suppress(OSError):
            for held, most in ((self.for_database, DATABASE), (self.for_clients, CLIENTS)):
                while len(held) < most:
                    held.append(open_one())

    def give(self) -> bool:
        """Frees a descriptor for a client. Returns whether one was left."""
        if not self.for_clients:
            return False
        os.close(self.for_clients.pop())
        return True

    @contextlib.contextmanager
    def room(self, wanted: int = 1) -> Iterator[None]:
        """Keeps `wanted` descriptors free for a connection to PostgreSQL that is opened meanwhile, as far as the reserve can.

        While it holds, a client is accepted with a descriptor of the clients alone, so none takes those that are free here.
        """
        missing = wanted - free(wanted)
        if not missing:
            yield
            return
        with self.counting:
            self.claims += 1
        try:
            for _ in range(min(missing, len(self.for_database))):
                os.close(self.for_database.pop())
            yield
        finally:
            with self.counting:
                self.claims -= 1

    def tell(self, what: str, error: OSError) -> None:
        """Logs once a minute what the process cannot do, for example because no descriptor is free."""
        if time.monotonic() >= self.told_at + TELL_SECONDS:
            self.told_at = time.monotonic()
            log.warning("Cannot %s: %s. Raise the limit of open files, or close connections", what, error)

    def close(self) -> None:
        for held in (self.for_clients, self.for_database):
            while held:
                os.close(held.pop())


def none_free() -> NotReady:
    """Returns the answer of a process to a client whose connection got a descriptor of the reserve."""
    return NotReady(
        "no file descriptor of this process is free: try again later, or ask for a higher limit of open files"
    )


def raise_limit() -> None:
    """Lets this process open as many as it may. The soft limit is often 1,024, for programs that use select."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def free(wanted: int) -> int:
    """Returns how many descriptors are free, up to `wanted`."""
    opened: list[int] = []
    try:
        while len(opened) < wanted:
            opened.append(open_one())
    except OSError as error:
        if not is_full(error):
            return wanted
    finally:
        for each in opened:
            os.close(each)
    return len(opened)


def open_one() -> int:
    return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)


reserve = Reserve()

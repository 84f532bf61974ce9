"""Accepts connections for several processes that share a listening socket, so that each process has about as many as the others.

SO_REUSEPORT spreads connections by a hash, and a plain shared socket gives a burst to the process that wakes first. With a few
busy connections, one process would then work and the others rest.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import mmap
import socket
from collections.abc import Callable

log = logging.getLogger(__name__)
YIELD_SECONDS = 0.002  # for a process with fewer connections to accept first
FULL_SECONDS = 0.1  # after an accept that failed, for example because no file descriptor is free


class Shares:
    """The number of connections of each process, in memory that the processes share. Made before they are forked."""

    def __init__(self, processes: int) -> None:
        self.counts = memoryview(mmap.mmap(-1, 8 * processes)).cast("q")

    def least(self) -> int:
        return min(self.counts)


class Acceptor:
    """The accepting side of one process. `connected` returns the number of open connections of this process."""

    def __init__(
        self,
        listener: socket.socket,
        factory: Callable[[], asyncio.BaseProtocol],
        connected: Callable[[], int],
        shares: Shares,
        slot: int,
    ) -> None:
        self.listener, self.factory, self.connected = listener, factory, connected
        self.shares, self.slot = shares, slot
        self.loop = asyncio.get_running_loop()
        self.joining: set[asyncio.Task[object]] = set()  # accepted sockets that are not connections yet
        self.waiting: asyncio.TimerHandle | None = None
        self.count()
        self.loop.add_reader(listener, self.ready)

    def count(self) -> int:
        """Tells the other processes the number of connections of this process. Returns the number."""
        own = self.shares.counts[self.slot] = self.connected() + len(self.joining)
        return own

    def ready(self) -> None:
        """Accepts a waiting connection, or lets a process with fewer connections do so."""
        if self.count() > self.shares.least():
            self.pause(YIELD_SECONDS)
        else:
            self.accept()

    def pause(self, seconds: float) -> None:
        self.loop.remove_reader(self.listener)
        self.waiting = self.loop.call_later(seconds, self.resume)

    def resume(self) -> None:
        # The process with fewer connections may be busy or stopped. So this process accepts one connection.
        self.loop.add_reader(self.listener, self.ready)
        self.accept()

    def accept(self) -> None:
        try:
            accepted, _ = self.listener.accept()
        except (BlockingIOError, ConnectionAbortedError):  # another process was first, or the client has disconnected
            return
        except OSError as error:
            log.warning("Cannot accept a connection: %s. Next attempt in %.1f s", error, FULL_SECONDS)
            self.pause(FULL_SECONDS)
            return
        accepted.setblocking(False)
        task = self.loop.create_task(self.join(accepted))
        self.joining.add(task)
        task.add_done_callback(self.joined)
        self.count()

    async def join(self, accepted: socket.socket) -> None:
        with contextlib.suppress(OSError):  # the client has disconnected
            await self.loop.connect_accepted_socket(self.factory, accepted)

    def joined(self, task: asyncio.Task[object]) -> None:
        self.joining.discard(task)
        self.count()

    def close(self) -> None:
        if self.waiting is not None:
            self.waiting.cancel()
        self.loop.remove_reader(self.listener)

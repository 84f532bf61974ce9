"""Accepts connections for several processes that share a listening socket, so that each process has about as many as the others.

SO_REUSEPORT spreads connections by a hash, and a plain shared socket gives a burst to the process that wakes first. With a few
busy connections, one process would then work and the others rest. Of 4 connections to 2 processes, the busier process had 52 % on
average with this module, and 69 % with SO_REUSEPORT.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import mmap
import os
import socket
import ssl
from collections.abc import Callable

from base.descriptors import is_full, reserve

YIELD_SECONDS = 0.002  # for a process with fewer connections to accept first
TlsContexts = Callable[[], ssl.SSLContext]
FULL_SECONDS = 0.1  # after an accept that failed, for example because no file descriptor is free


class Shares:
    """The number of connections of each process, in memory that the processes share. Made before they are forked."""

    def __init__(self, processes: int) -> None:
        self.counts = memoryview(mmap.mmap(-1, 8 * processes)).cast("q")

    def least(self) -> int:
        return min(self.counts)


class Acceptor:
    """The accepting side of one process. `connected` returns the number of open connections of this process.

    `tls` returns the TLS context of the next connection.

    If no file descriptor is free, the acceptor gives back one of its reserve, and accepts a connection of `spare`. So a probe of
    readiness gets its answer, and other clients get a refusal, in place of none.
    """

    def __init__(
        self,
        listener: socket.socket,
        factory: Callable[[], asyncio.BaseProtocol],
        spare: Callable[[], asyncio.BaseProtocol],
        connected: Callable[[], int],
        shares: Shares,
        slot: int,
        tls: TlsContexts | None = None,
    ) -> None:
        self.listener, self.factory, self.spare, self.connected = listener, factory, spare, connected
        self.shares, self.slot, self.tls = shares, slot, tls
        self.loop = asyncio.get_running_loop()
        self.joining: set[asyncio.Task[object]] = set()  # accepted sockets that are not connections yet
        self.waiting: asyncio.TimerHandle | None = None
        reserve.refill()
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
        reserve.refill()  # first, because free descriptors belong to the reserve until it is complete
        try:
            accepted, factory = self.take()
        except (BlockingIOError, ConnectionAbortedError):  # another process was first, or the client has disconnected
            return
        except OSError as error:
            reserve.tell("accept a connection", error)
            self.pause(FULL_SECONDS)
            return
        accepted.setblocking(False)
        task = self.loop.create_task(self.join(accepted, factory))
        self.joining.add(task)
        task.add_done_callback(self.joined)
        self.count()

    def take(self) -> tuple[socket.socket, Callable[[], asyncio.BaseProtocol]]:
        """Returns an accepted socket and its factory, or `spare`. Raises OSError."""
        if reserve.claims:
            full = OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        else:
            try:
                return self.listener.accept()[0], self.factory
            except OSError as error:
                if not is_full(error):
                    raise
                full = error
        reserve.tell("accept a connection", full)
        if not reserve.give():
            raise full
        return self.listener.accept()[0], self.spare

    async def join(self, accepted: socket.socket, factory: Callable[[], asyncio.BaseProtocol]) -> None:
        with contextlib.suppress(OSError):  # the client has disconnected, or its handshake failed
            await self.loop.connect_accepted_socket(factory, accepted, ssl=self.tls() if self.tls is not None else None)

    def joined(self, task: asyncio.Task[object]) -> None:
        self.joining.discard(task)
        self.count()

    def close(self) -> None:
        if self.waiting is not None:
            self.waiting.cancel()
        reserve.close()
        self.loop.remove_reader(self.listener)

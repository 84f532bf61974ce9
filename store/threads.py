"""Threads that do work for an event loop. The work uses Django's connections, and so waits for PostgreSQL.

A thread that waits for an answer cannot be stopped. But another thread can end its connection. The waiting thread then gets an
error for the lost connection, and is free for other work. The caller does not even have to wait for this (liveness.py).
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
import weakref
from collections.abc import Callable
from concurrent.futures import CancelledError, ThreadPoolExecutor
from typing import Any, Generic, TypeVar

from django.conf import settings
from django.db.backends.signals import connection_created

from store import liveness

T = TypeVar("T")

# Work can have several statements, each with PostgreSQL's own limit. After two such limits the wait is given up, because only a
# stopped backend takes so long.
MOST_SECONDS = 2 * settings.TOPICS_STATEMENT_TIMEOUT_MS / 1000 or float("inf")

# Duplicates of the sockets of Django's connections, by thread. A thread can close a connection while another thread ends the
# connection. The file descriptor of a duplicate stays open, so no new file gets the same number meanwhile.
_sockets: dict[int, socket.socket] = {}
IDLE_SECONDS = settings.TOPICS_IDLE_CONNECTION_SECONDS
# Threads without work, and the time when their work ended. A thread that gets work removes its entry under the lock.
_rests_since: dict[int, float] = {}
_resting = threading.Lock()


def keep_socket(connection: Any, **_: Any) -> None:
    """Keeps a duplicate of the socket of a new Django connection. Called in the connection's thread."""
    opened = connection.connection
    ours = socket.socket(fileno=os.dup(opened.fileno()))
    weakref.finalize(opened, ours.close)
    _sockets[threading.get_ident()] = ours


def end_connection(thread: int) -> None:
    """Ends the connection of another thread, if that thread has a connection."""
    if (ours := _sockets.get(thread)) is not None:
        with contextlib.suppress(OSError):  # the connection has already ended
            ours.shutdown(socket.SHUT_RDWR)


def end_idle(now: float) -> None:
    """Ends the connections of threads that have had no work for TOPICS_IDLE_CONNECTION_SECONDS.

    Django opens a new connection for the thread's next work, because Django checks whether a kept connection still works. This
    call is one bounded step, and the caller repeats the call.
    """
    for thread, since in list(_rests_since.items()):
        if IDLE_SECONDS and now - since >= IDLE_SECONDS:
            with _resting:
                if _rests_since.pop(thread, None) is not None:  # otherwise the thread has work by now
                    end_connection(thread)


def end_connections() -> None:
    for thread in list(_sockets):
        end_connection(thread)


def watch_connections() -> None:
    """Makes end_connections() work for all Django connections that this process opens later. Called once."""
    connection_created.connect(keep_socket)


class Threads:
    """A bounded pool of threads."""

    def __init__(self, most: int, name: str) -> None:
        self.pool = ThreadPoolExecutor(most, thread_name_prefix=name)

    async def run(self, work: Callable[..., T], *arguments: Any) -> T:
        """Returns the result of the work. Raises psycopg.OperationalError if PostgreSQL is away or MOST_SECONDS are over."""
        watched = liveness.here()
        watched.check()
        job = ThreadJob(work)
        future = watched.loop.run_in_executor(self.pool, job.run, *arguments)
        return await watched.answered(future, MOST_SECONDS, job.give_up)

    def do(self, work: Callable[[], object]) -> None:
        """Wait for work, from another thread. `work` raises nothing. After close() the work is not done."""
        with contextlib.suppress(RuntimeError, CancelledError):
            self.pool.submit(ThreadJob(work).run).result()

    def submit(self, work: Callable[..., object], *arguments: Any) -> None:
        """Starts the work in a thread, without a wait for its result."""
        self.pool.submit(work, *arguments)

    def close(self) -> None:
        self.pool.shutdown(wait=False, cancel_futures=True)


class ThreadJob(Generic[T]):
    """One piece of work, and its thread."""

    def __init__(self, work: Callable[..., T]) -> None:
        self.work = work
        self.thread: int | None = None
        self.lock = threading.Lock()  # give_up() must not disturb the next work of a finished thread

    def run(self, *arguments: Any) -> T:
        self.thread = threading.get_ident()
        with _resting:
            _rests_since.pop(self.thread, None)
        try:
            return self.work(*arguments)
        finally:
            _rests_since[self.thread] = time.monotonic()
            with self.lock:
                self.thread = None

    def give_up(self) -> None:
        with self.lock:
            if self.thread is not None:
                end_connection(self.thread)


# The threads of a web process. Each holds a connection, so all pages share the first ones.
pages = Threads(settings.WEB_THREADS, "web")
# For short work that must not wait for pages: keys, readiness, heartbeats and the pulse.
quick = Threads(1, "quick")

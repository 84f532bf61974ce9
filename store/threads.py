"""Work that an event loop has done in threads, where it uses Django's connections and so waits for PostgreSQL.

A thread that waits for an answer cannot be told to stop. But its connection can be ended under it: then it hears that the
connection is lost, and is free for others. The caller does not have to wait even for this (liveness.py).
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Generic, TypeVar

from django.conf import settings
from django.db.backends.signals import connection_created

from store import liveness

T = TypeVar("T")

# Work may be several statements, each with PostgreSQL's own limit. After two such limits nobody waits any longer: only a
# backend that was stopped takes so long.
MOST_SECONDS = 2 * settings.TOPICS_STATEMENT_TIMEOUT_MS / 1000 or float("inf")

# The sockets of Django's connections, by thread. Ours are duplicates: nobody can close their numbers, and give them to
# somebody else, while we end a connection from another thread than its own.
_sockets: dict[int, socket.socket] = {}
IDLE_SECONDS = settings.TOPICS_IDLE_CONNECTION_SECONDS
_rests_since: dict[
    int, float
] = {}  # threads without work, and since when; a thread that gets work leaves it under the lock
_resting = threading.Lock()


def keep_socket(connection: Any, **_: Any) -> None:
    """On each new connection of Django's, in its thread."""
    opened = connection.connection
    ours = socket.socket(fileno=os.dup(opened.fileno()))
    weakref.finalize(opened, ours.close)
    _sockets[threading.get_ident()] = ours


def end_connection(thread: int) -> None:
    """End the connection of a thread, from another."""
    if (ours := _sockets.get(thread)) is not None:
        with contextlib.suppress(OSError):  # it has ended by itself
            ours.shutdown(socket.SHUT_RDWR)


def end_idle(now: float) -> None:
    """End the connections of threads that have had no work for TOPICS_IDLE_CONNECTION_SECONDS. Django opens another with the
    thread's next work, because it looks whether a kept one still lives. One bounded step; the loop is the caller's."""
    for thread, since in list(_rests_since.items()):
        if IDLE_SECONDS and now - since >= IDLE_SECONDS:
            with _resting:
                if _rests_since.pop(thread, None) is not None:  # else it has work by now
                    end_connection(thread)


def end_connections() -> None:
    for thread in list(_sockets):
        end_connection(thread)


def watch_connections() -> None:
    """From here on Django's connections of this process can be ended (end_connections). Called once."""
    connection_created.connect(keep_socket)


class Threads:
    """A bounded pool of threads."""

    def __init__(self, most: int, name: str) -> None:
        self.pool = ThreadPoolExecutor(most, thread_name_prefix=name)

    async def run(self, work: Callable[..., T], *arguments: Any) -> T:
        """What the work returns. Raises psycopg.OperationalError when PostgreSQL is away, or the work takes too long."""
        watched = liveness.here()
        watched.check()
        job = Job(work)
        future = watched.loop.run_in_executor(self.pool, job.run, *arguments)
        return await watched.answered(future, MOST_SECONDS, job.give_up)

    def submit(self, work: Callable[..., object], *arguments: Any) -> None:
        """Have something done that nobody waits for."""
        self.pool.submit(work, *arguments)

    def close(self) -> None:
        self.pool.shutdown(wait=False, cancel_futures=True)


class Job(Generic[T]):
    """One piece of work, and the thread that is at it."""

    def __init__(self, work: Callable[..., T]) -> None:
        self.work = work
        self.thread: int | None = None
        self.lock = threading.Lock()  # so that a thread which is through is not disturbed in its next work

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

"""One site in this process: the servers, the app of a web process, and the counters of all its connections to PostgreSQL.

PostgreSQL adds up what a session read when the session ends, or after some seconds. Only the session itself can ask for its sum
earlier. So the app runs in this process, which has all sessions in its hands. There is no worker and no beat: their tasks run
only as operations that are measured.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import psycopg

from tests.instances import RUN_FOLDER, copy_migrated, free_port, newest

FLUSH = "SELECT pg_stat_force_next_flush()"
# Not those of autovacuum, of checkpoints and of the WAL.
COUNTS = """
SELECT (SELECT (sum(hits) + sum(read_bytes) / 8192)::bigint FROM pg_stat_io
         WHERE backend_type IN ('client backend', 'background worker') AND object = 'relation'),
       (SELECT sum(pg_stat_get_tuples_returned(oid))::bigint FROM unnest(%s::oid[]) oid)
"""
# A sequential scan counts each row with its table, and an index scan counts each entry with its index.
RELATIONS = "SELECT array_agg(oid) FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'i')"
OTHERS = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> ALL (%s)"
SESSIONS = "SELECT array_agg(pid) FROM pg_stat_activity WHERE backend_type = 'client backend'"
SETTINGS = {
    "TOPICS_IDLE_CONNECTION_SECONDS": "0",  # a new session would read PostgreSQL's catalog again
    "TOPICS_ANSWER_TIMEOUT_MS": "600000",
    "TOPICS_STATEMENT_TIMEOUT_MS": "600000",
    "WEB_THREADS": "1",
    "HOST": "127.0.0.1",
}


class Counts(NamedTuple):
    """Buffers, and rows with entries of indexes, that PostgreSQL read."""

    buffers: int
    rows: int


class Site:
    """`data`: the folder of the instance. `port`: of the app."""

    def __init__(self, data: Path, port: int) -> None:
        self.data, self.port = data, port
        self.database = psycopg.connect(os.environ["DATABASE_URL"], autocommit=True)
        self.loop: asyncio.AbstractEventLoop | None = None
        self.relations: list[int] = []
        self.unseen = Counts(0, 0)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def serve(self) -> None:
        """Serves in a thread, until the process ends."""
        begun = threading.Event()
        threading.Thread(target=lambda: asyncio.run(self.serve_forever(begun)), daemon=True).start()
        assert begun.wait(60), "the app did not start"

    async def serve_forever(self, begun: threading.Event) -> None:
        from base.neighbours import Neighbours
        from http1 import Server, Shares
        from store import pool
        from topics_project import serve, wiring
        from watch.hub import hub
        from wire.process import sockets

        wiring.wire_web()
        pool.ping = flush  # so a check of the connections has each of them report its counts
        self.loop = asyncio.get_running_loop()
        server = Server(serve.handler(), limits=serve.LIMITS, on_error=serve.refused)
        hub().join(Neighbours(1), 0)
        server.share(sockets.listener("127.0.0.1", self.port), Shares(1), 0)
        begun.set()
        await asyncio.Event().wait()

    def settle(self) -> None:
        """Call after a change of the store: what is read next does not read the catalog again."""
        from store.connection import connect  # noqa: F401  (the app's modules are loaded)

        self.relations = self.one(RELATIONS)[0]
        self.counts()
        first, second = self.counts(), self.counts()
        self.unseen = Counts(*(b - a for a, b in zip(first, second, strict=True)))

    def counts(self) -> Counts:
        """Returns the counts so far. The look itself is in them: `unseen` of it."""
        from store import loop, threads

        assert self.loop is not None
        asyncio.run_coroutine_threadsafe(handlers_ended(), self.loop).result(60)
        asyncio.run_coroutine_threadsafe(loop.check(), self.loop).result()
        for thread in (threads.pages, threads.quick):
            thread.pool.submit(flush_django).result()
        flush_django()
        self.database.execute(FLUSH)
        return Counts(*self.one(COUNTS, self.relations))

    def since(self, before: Counts) -> Counts:
        now = self.counts()
        return Counts(*(b - a - c for a, b, c in zip(before, now, self.unseen, strict=True)))

    def sessions(self) -> list[int]:
        return self.one(SESSIONS)[0]

    def wait_for_others(self, ours: Sequence[int]) -> None:
        """Waits until the sessions of other processes have ended, and so have reported."""
        deadline = time.monotonic() + 30
        while self.one(OTHERS, list(ours))[0] and time.monotonic() < deadline:
            time.sleep(0.02)

    def one(self, sql: str, *arguments: Any) -> tuple[Any, ...]:
        row = self.database.execute(sql.encode(), arguments).fetchone()
        assert row is not None
        return row


async def handlers_ended() -> None:
    """Waits for the end of each request that is answered, because the end of a stream has statements of its own."""
    from http1.handlers import Handlers

    handle = Handlers.handle.__qualname__
    while any(getattr(task.get_coro(), "__qualname__", "") == handle for task in asyncio.all_tasks()):
        await asyncio.sleep(0.01)


async def flush(connection: Any) -> None:
    await connection.execute(FLUSH)


def flush_django() -> None:
    from django.db import connection

    if connection.connection is not None:
        with connection.cursor() as cursor:
            cursor.execute(FLUSH)


@contextlib.contextmanager
def site(**settings: str) -> Iterator[Site]:
    """A new site with empty tables, which is deleted at the end. Django is set up in it, so a process can have one."""
    with tempfile.TemporaryDirectory(prefix="topics-growth-", dir=os.environ.get("GROWTH_DATA")) as folder:
        port = free_port()
        if RUN_FOLDER in os.environ:  # within a test run
            copy_migrated(Path(folder))
        for name in ("DATABASE_URL", "REDIS_URL", "SECRET_KEY", "TOPICS_API_KEYS", "TOPICS_INSECURE"):
            os.environ.pop(name, None)
        os.environ.setdefault("TOPICS_POSTGRESQL", str(newest()))
        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "topics_project.settings")
        os.environ.update(SETTINGS | {"TOPICS_DATA": folder, "PORT": str(port)} | settings)
        import embedded

        with embedded.environment():
            import django

            django.setup()
            from topics_project.operations.prepare import first_admin, prepare_database

            prepare_database(print)
            first_admin(Path(folder))
            made = Site(Path(folder), port)
            made.serve()
            yield made
            made.database.close()

"""The raw limit: psycopg alone on one connection, with the server's statements and rows, in the same PostgreSQL."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import msgspec
import psycopg

from store.planner import SESSION
from topics.append.records import Append, check_rows
from topics.append.statements import appending
from topics.cache import LOOKUP, CachedTopic
from topics.read.diff import DIFF

SECONDS = 1.5


class Raw:
    """One connection to the instance's database."""

    def __init__(self, database_url: str) -> None:
        self.connection = psycopg.connect(database_url, autocommit=True)
        self.connection.prepare_threshold = 1
        self.connection.execute(SESSION)

    def known(self, topic: str) -> CachedTopic:
        row = self.connection.execute(LOOKUP, [topic]).fetchone()
        assert row is not None, topic
        return CachedTopic.of(row)

    def rate(self, call: Callable[[], Any]) -> float:
        """Returns the calls a second."""
        for _ in range(20):
            call()
        calls, started = 0, time.perf_counter()
        while time.perf_counter() - started < SECONDS:
            call()
            calls += 1
        return calls / (time.perf_counter() - started)

    def appends(self, topic: str, body: str, *, fsync: bool = False) -> float:
        """Returns the appends of this body a second."""
        known = self.known(topic)
        rows = check_rows(msgspec.json.decode(body, type=Append))
        append, arguments = appending([(known, rows)], int(time.time() * 1000))
        self.connection.execute(f"SET synchronous_commit = {'on' if fsync else 'off'}")
        return self.rate(lambda: self.connection.execute(append, arguments, prepare=True).fetchall())

    def diffs(self, topic: str, from_seq: int, limit: int) -> float:
        """Returns the reads of `limit` records a second."""
        known = self.known(topic)
        arguments = (known.id, known.version, from_seq, limit, None, None, None, False, True, 2**20, None)
        return self.rate(lambda: self.connection.execute(DIFF, arguments, prepare=True).fetchone())

"""Simultaneous appends of a process share a transaction (design.md section 3).

Appends that arrive while a statement runs wait and go together in the next one, whatever their topics. One
that PostgreSQL refuses never touches its neighbours: the batch then goes again, one append at a time.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import NamedTuple

import psycopg

from topics import wake
from topics.append import APPEND_LOGGED, APPEND_VOLATILE, MAKE_ROOM, Appended, Rows, parameters, room
from topics.connection import Connection, connect
from topics.database import hung_up, translated
from topics.known import Known

log = logging.getLogger(__name__)
MOST_RECORDS = 5_000  # of one transaction: the next append should not wait long
SYNC_ON, SYNC_OFF = "SET synchronous_commit = on", "SET synchronous_commit = off"


class Waiting(NamedTuple):
    """An append and who waits for it. The future's result is None when `topic` is no longer what it was."""

    topic: Known
    rows: Rows
    done: asyncio.Future[Appended | None]


class Batches:
    """The appends of one class of durability: one statement at a time, on one connection."""

    def __init__(self, *, fsync: bool, volatile: bool) -> None:
        self.fsync = fsync
        self.statement = APPEND_VOLATILE if volatile else APPEND_LOGGED
        self.waiting: list[Waiting] = []
        self.arrived = asyncio.Event()
        self.connection: Connection | None = None

    async def append(self, topic: Known, rows: Rows) -> Appended | None:
        done: asyncio.Future[Appended | None] = asyncio.get_running_loop().create_future()
        self.waiting.append(Waiting(topic, rows, done))
        if len(self.waiting) == 1:
            self.arrived.set()
        return await done

    async def run(self) -> None:
        """Write what waits, until cancelled."""
        while True:
            await self.arrived.wait()
            batch = self.take()
            try:
                await self.write(batch)
            except psycopg.Error as error:
                await self.write_singly(batch, error)
            except Exception as error:
                log.exception("a batch of appends failed")
                fail(batch, error)

    def take(self) -> list[Waiting]:
        """The next batch: at least one append, then as many as MOST_RECORDS allows."""
        records = 0
        for place, each in enumerate(self.waiting):
            records += len(each.rows.data)
            if records > MOST_RECORDS and place:
                batch, self.waiting = self.waiting[:place], self.waiting[place:]
                return batch
        batch, self.waiting = self.waiting, []
        self.arrived.clear()
        return batch

    async def write(self, batch: list[Waiting]) -> None:
        started = time.perf_counter()
        # A topic configured anew between two requests: the older view finds itself outdated.
        latest = {each.topic.id: each.topic for each in batch}
        current = [each for each in batch if each.topic is latest[each.topic.id]]
        bases, wrote, committed = await self.commit(current)
        wal_append_ms = (wrote - started) * 1000
        fsync_ms = (committed - wrote) * 1000 if self.fsync else 0.0
        for topic, rows, done in current:
            base = bases.get(topic.id)
            if base is None:
                answer(done, None)
                continue
            last = bases[topic.id] = base + len(rows.data)
            answer(done, Appended(base + 1, last, last, False, False, wal_append_ms, fsync_ms))
        if len(current) < len(batch):
            for each in batch:
                answer(each.done, None)  # but for those that have theirs
        for id, last in bases.items():
            wake.moved(latest[id], last)

    async def commit(self, batch: list[Waiting]) -> tuple[dict[int, int], float, float]:
        """Run the statement. Answers each topic's seq before it, when the statement was through, and the commit."""
        if self.connection is None or hung_up(self.connection):
            await self.close()
            self.connection = await connect()
            await self.connection.execute(SYNC_ON if self.fsync else SYNC_OFF)
        now = int(time.time() * 1000)
        arguments = parameters([(each.topic, each.rows) for each in batch], now)
        evicting = {each.topic.id: each.topic for each in batch if each.topic.evicts}
        bases: dict[int, int]
        if not evicting:
            if self.fsync:
                found, seconds = await self.connection.commit(self.statement, arguments)
            else:
                found, seconds = await self.connection.execute(self.statement, arguments), 0.0
            committed = time.perf_counter()
            return dict(found), committed - seconds, committed
        async with self.connection.transaction():
            bases = dict(await self.connection.execute(self.statement, arguments))
            for id in bases.keys() & evicting.keys():
                await self.connection.execute(MAKE_ROOM, room(evicting[id], now))
            wrote = time.perf_counter()
        return bases, wrote, time.perf_counter()

    async def write_singly(self, batch: list[Waiting], error: psycopg.Error) -> None:
        """After a refused batch: each append on its own. After a lost connection: nobody knows, all are told."""
        lost = isinstance(error, psycopg.OperationalError | psycopg.InterfaceError) and (
            self.connection is None or self.connection.closed
        )
        if lost or len(batch) == 1:
            fail(batch, translated(error) or error)
            return
        for each in batch:
            try:
                await self.write([each])
            except psycopg.Error as own:
                fail([each], translated(own) or own)

    async def close(self) -> None:
        if self.connection is not None:
            await self.connection.close()


def answer(done: asyncio.Future[Appended | None], result: Appended | None) -> None:
    if not done.done():  # its client may be gone
        done.set_result(result)


def fail(batch: list[Waiting], error: BaseException) -> None:
    for each in batch:
        if not each.done.done():
            each.done.set_exception(error)

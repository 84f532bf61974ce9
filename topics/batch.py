"""Simultaneous appends of a process share a transaction.

Appends that arrive while a statement runs wait and go together in the next one, whatever their topics. One that PostgreSQL
refuses never touches its neighbours: the batch then goes again, one append at a time. Neither does one whose topic
somebody else keeps locked: it waits aside, in the line of that head (store/held.py, docs/concurrency.md).
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import NamedTuple

import psycopg
from psycopg.errors import LockNotAvailable

from base.errors import NotReady
from store.codec import Arguments
from store.connection import Connection, connect
from store.database import hung_up, translated
from store.held import LONG_MS, limited
from store.loop import here
from topics import wake
from topics.cache import CachedTopic
from topics.insert import MAKE_ROOM, MOST_RECORDS, SYNC, Appended, appending, room
from topics.records import Rows

log = logging.getLogger(__name__)
SYNC_ON, SYNC_OFF = "SET synchronous_commit = on", "SET synchronous_commit = off"
# The heads that nobody holds right now. The locks taken here end with the statement.
FREE = "SELECT topic_id FROM topics_topichead WHERE topic_id = ANY (%s) FOR UPDATE SKIP LOCKED"


class Waiting(NamedTuple):
    """An append and who waits for it. The future's result is None when `topic` is no longer what it was."""

    topic: CachedTopic
    rows: Rows
    done: asyncio.Future[Appended | None]


Batch = list[Waiting]


class Written(NamedTuple):
    """What a statement did: each topic's seq before it, when it was through, and when it was committed (s)."""

    bases: dict[int, int]
    wrote: float
    committed: float


class Writer:
    """A connection for appends of one class of durability, opened when it is needed and replaced when it has ended."""

    def __init__(self, *, fsync: bool) -> None:
        self.fsync = fsync
        self.connection: Connection | None = None
        self.first: list[tuple[str, Arguments]] = []  # of each transaction

    async def open(self) -> Connection:
        if self.connection is None or hung_up(self.connection):
            await self.close()
            self.connection = await connect(LONG_MS)
            await self.connection.run(SYNC_ON if self.fsync else SYNC_OFF)
        return self.connection

    async def commit(self, batch: Batch) -> Written:
        """Append all of them in one transaction and one round trip: a process that is stopped in the middle leaves no
        lock behind, since PostgreSQL has all it needs to end the transaction. Raises psycopg.Error."""
        connection = await self.open()
        now = int(time.time() * 1000)
        append = appending([(each.topic, each.rows) for each in batch], now)
        evicting = {each.topic.id: each.topic for each in batch if each.topic.evicts}
        if not evicting and not self.fsync and not self.first:
            found = await connection.execute(*append)
            wrote = committed = time.perf_counter()
        else:
            make_room = [(MAKE_ROOM, room(topic, now)) for _, topic in sorted(evicting.items())]
            answers, wrote, committed = await connection.together([*self.first, append, *make_room])
            found = answers[len(self.first)]
        return Written({topic_id: base for topic_id, base, *_ in found}, wrote, committed)

    async def free(self, topic_ids: list[int]) -> set[int]:
        """Those of the topics that are there, and whose head nobody holds right now."""
        return {row[0] for row in await (await self.open()).execute(FREE, [topic_ids])}

    async def close(self) -> None:
        if self.connection is not None:
            await self.connection.close()
            self.connection = None


class Borrowed(Writer):
    """A writer in the line of a held lock, on a connection that belongs to others."""

    def __init__(self, connection: Connection, *, fsync: bool, lock_ms: int) -> None:
        super().__init__(fsync=fsync)
        self.connection = connection
        limit = limited(lock_ms)
        self.first = [(limit.sql, limit.arguments), (SYNC, ("on" if fsync else "off",))]

    async def open(self) -> Connection:
        assert self.connection is not None, "it was given one"
        return self.connection


class Batches:
    """The appends of one class of durability: one statement at a time, on one connection."""

    def __init__(self, *, fsync: bool) -> None:
        self.loop = asyncio.get_running_loop()
        self.fsync = fsync
        self.writer = Writer(fsync=fsync)
        self.held = here().held
        self.waiting: Batch = []
        self.probes: list[asyncio.Future[None]] = []
        self.arrived = asyncio.Event()
        self.aside: dict[int, Batch] = {}  # what waits for a locked head, by topic
        self.tasks: set[asyncio.Task[None]] = set()
        self.start()

    def append(self, topic: CachedTopic, rows: Rows) -> asyncio.Future[Appended | None]:
        """Returns what will come of it: None when the topic is no longer what it was; or TopicsError, or psycopg.Error."""
        done: asyncio.Future[Appended | None] = self.loop.create_future()
        if self.held.is_held(topic.id):
            self.set_aside([Waiting(topic, rows, done)])
        else:
            self.waiting.append(Waiting(topic, rows, done))
            if len(self.waiting) == 1:
                self.arrived.set()
        return done

    async def check(self) -> None:
        """A round trip on the very connection that appends go by. Raises TopicsError or psycopg.Error."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.probes.append(done)
        self.arrived.set()
        await done

    # -- The writer's task --------------------------------------------------------------------------------------------

    def start(self) -> None:
        self.running = asyncio.create_task(self.run())
        self.running.add_done_callback(self.ended)

    def ended(self, running: asyncio.Task[None]) -> None:
        """The task has no way to end but by close(). Should there be one all the same, appends must not wait for ever."""
        if running.cancelled():
            return
        log.error("the writer of appends ended and is started anew", exc_info=running.exception())
        fail(self.waiting, NotReady("the append may or may not have been written: ask before you send it again"))
        self.waiting = []
        self.start()

    async def run(self) -> None:
        """Write what waits, until cancelled."""
        while True:
            await self.arrived.wait()
            batch = self.take()
            if batch:
                await self.write_all(batch)
            if self.probes:
                await self.answer_probes()

    def take(self) -> Batch:
        """The next batch: as many appends as MOST_RECORDS allows, at least one where any waits."""
        records = 0
        for place, each in enumerate(self.waiting):
            records += len(each.rows.data)
            if records > MOST_RECORDS and place:
                batch, self.waiting = self.waiting[:place], self.waiting[place:]
                return batch
        batch, self.waiting = self.waiting, []
        self.arrived.clear()
        return batch

    async def answer_probes(self) -> None:
        probes, self.probes = self.probes, []
        try:
            await (await self.writer.open()).execute("SELECT 1")
        except Exception as error:
            refuse(probes, error)
        for done in probes:
            if not done.done():
                done.set_result(None)

    async def write_all(self, batch: Batch) -> None:
        """Have every append of the batch answered, or set aside."""
        try:
            await self.write(self.writer, batch)
        except LockNotAvailable:
            await self.write_free(batch)
        except Exception as error:
            await self.write_singly(self.writer, batch, error)

    async def write(self, writer: Writer, batch: Batch) -> None:
        started = time.perf_counter()
        # A topic configured anew between two requests: the older view finds itself outdated.
        latest = {each.topic.id: each.topic for each in batch}
        current = [each for each in batch if each.topic is latest[each.topic.id]]
        bases, wrote, committed = await writer.commit(current)
        wal_append_ms = (wrote - started) * 1000
        fsync_ms = (committed - wrote) * 1000 if writer.fsync else 0.0
        for topic, rows, done in current:
            base = bases.get(topic.id)
            if base is None:
                answer(done, None)
                continue
            last = bases[topic.id] = base + len(rows.data)
            answer(done, Appended(base + 1, last, last, False, False, wal_append_ms, fsync_ms))
        if len(current) < len(batch):
            for each in batch:
                if each.topic is not latest[each.topic.id]:
                    answer(each.done, None)
        for id, last in bases.items():
            wake.moved(latest[id], last)

    async def write_singly(self, writer: Writer, batch: Batch, error: Exception) -> None:
        """After a refused batch: each append on its own. After a lost connection: nobody knows, so all are told."""
        connection = writer.connection
        lost = isinstance(error, psycopg.OperationalError | psycopg.InterfaceError) and (
            connection is None or connection.closed
        )
        if lost or len(batch) == 1:
            fail(batch, error)
        else:
            await self.write_each(writer, batch)

    async def write_each(self, writer: Writer, batch: Batch) -> None:
        for each in batch:
            try:
                await self.write(writer, [each])
            except LockNotAvailable as error:
                if writer is self.writer:
                    self.held.note(each.topic.id)
                    self.set_aside([each])
                else:
                    fail([each], error)
            except Exception as error:
                fail([each], error)

    # -- Locked heads -------------------------------------------------------------------------------------------------

    async def write_free(self, batch: Batch) -> None:
        """After a head that stayed locked: its appends wait aside, and those to all other topics go on."""
        try:
            free = await self.writer.free([each.topic.id for each in batch])
        except Exception as error:
            fail(batch, error)
            return
        for topic_id in {each.topic.id for each in batch} - free:
            self.held.note(topic_id)
        self.set_aside([each for each in batch if each.topic.id not in free])
        if going := [each for each in batch if each.topic.id in free]:
            try:
                await self.write(self.writer, going)
            except Exception:  # perhaps yet another head: each finds out for itself
                await self.write_each(self.writer, going)

    def set_aside(self, batch: Batch) -> None:
        for each in batch:
            if each.topic.id not in self.aside:
                self.aside[each.topic.id] = []
                task = asyncio.create_task(self.wait_aside(each.topic.id))
                self.tasks.add(task)
                task.add_done_callback(self.tasks.discard)
            self.aside[each.topic.id].append(each)

    async def wait_aside(self, topic_id: int) -> None:
        """Append to one topic, in the line of its head, until nobody waits aside for it any more. Should the head stay locked
        for too long, all who wait are told."""
        batch: Batch = []
        try:
            while self.aside[topic_id]:
                async with self.held.aside(topic_id) as turn:
                    batch, self.aside[topic_id] = self.aside[topic_id], []
                    writer = Borrowed(turn.connection, fsync=self.fsync, lock_ms=turn.lock_ms)
                    try:
                        await self.write(writer, batch)
                    except LockNotAvailable:
                        raise
                    except Exception as error:
                        await self.write_singly(writer, batch, error)
        except Exception as error:
            fail(batch, error)
        finally:
            # Those who came while the lock was waited for in vain would wait in vain, too.
            fail(self.aside.pop(topic_id), NotReady("the topic is locked: try again"))

    async def close(self) -> None:
        self.running.cancel()
        for task in self.tasks:
            task.cancel()
        await self.writer.close()


def answer(done: asyncio.Future[Appended | None], result: Appended | None) -> None:
    if not done.done():  # its client may be gone
        done.set_result(result)


def fail(batch: Batch, error: BaseException) -> None:
    refuse([each.done for each in batch], error)


def refuse(waiting: list[asyncio.Future[Appended | None]] | list[asyncio.Future[None]], error: BaseException) -> None:
    told = translated(error) or error
    for done in waiting:
        if not done.done():
            done.set_exception(told)


class Writers:
    """The batches of an event loop, one for each class of durability."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.fsync = Batches(fsync=True)
        self.disk = Batches(fsync=False)
        self.memory = Batches(fsync=False)
        self.by_durability = {
            "fsync": self.fsync,
            "disk": self.disk,
            "memory": self.memory,
            "ephemeral": self.memory,
        }

    @property
    def all(self) -> tuple[Batches, ...]:
        return self.fsync, self.disk, self.memory


_writers: Writers | None = None


def writers() -> Writers:
    """The writers of the event loop that runs."""
    global _writers
    if _writers is None or _writers.loop is not asyncio.get_running_loop():
        _writers = Writers()
    return _writers


def batches(durability: str) -> Batches:
    return writers().by_durability[durability]


async def check() -> None:
    """A round trip on every connection that appends go by. Raises NotReady."""
    await asyncio.gather(*(each.check() for each in writers().all))


async def close() -> None:
    if _writers is not None:
        for each in _writers.all:
            await each.close()

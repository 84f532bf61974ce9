"""Reads and renders each topic, seq and view once for all streams (docs/watch.md).

Streams with own nodes also share readings: Batch.without cuts the own nodes' records from the shared reading.

A reading is kept for at most a second. Only streams opened before the start of a reading share the reading. Otherwise a stream
could get a record deleted before the stream connected.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from base.clock import now_ms
from base.errors import TopicsError
from store.coalesce import FLUSH
from store.loop import Loop
from store.script import Script, Statement
from topics.cache import CachedTopic, cached, forget_known, load_topic
from topics.diff import DIFF, Window
from topics.stamps import seen
from watch import frames
from watch.batch import Batch, Segment

log = logging.getLogger(__name__)
FRESH_SECONDS = 1.0  # seconds for which a reading is shared
MOST_BYTES = 8 * 1024 * 1024  # bytes of frames that a process keeps for sharing

# True if a crash cannot take back our reads: all inserted WAL is flushed.
FLUSHED = "SELECT pg_current_wal_flush_lsn() >= pg_current_wal_insert_lsn()"


# Renders the records of one read as a stream's frames. Arguments: topic, records.
Render = Callable[[str, str], bytes]


class View(NamedTuple):
    """The records and the fields that a reader gets of a topic, and their form."""

    limit: int
    max_bytes: int
    match_op: str | None
    match: str | None
    tags: bool
    meta: bool
    data: bool
    strong: bool
    prefixes: tuple[str, ...] = ()  # prefixes of the reader's key; readers without prefixes share their reads
    render: Render | None = None  # None: `record` events, in which each stream can leave out records


class Waiter(Protocol):
    """A caller that waits for a reading."""

    def reading_done(self) -> None:
        """The reading is done. The waiter may no longer need it."""


class Reading:
    """A read that is queued, runs, or is done.

    A reading that is done has a batch or an error. Without both, no topic has the id any more. `started` is when the query itself
    began, after the wait for a connection.
    """

    __slots__ = ("batch", "done", "error", "started", "waiting")

    def __init__(self) -> None:
        self.started: float | None = None
        self.done = False
        self.batch: Batch | None = None
        self.error: TopicsError | None = None
        self.waiting: list[Waiter] = []

    def serves(self, since: float) -> bool:
        """Returns True if the read starts at `since` or later. A read that has not started yet serves every caller."""
        return self.started is None or self.started >= since


Key = tuple[int, int, View]  # topic id, from_seq, view


class Feeds:
    """The reads of a process. Feeds run in the hub's event loop and need no lock.

    `recent` holds the readings that can be shared, the oldest first. Each reading runs as its own task. The task always calls its
    waiters at the end, even after an error. Otherwise a waiter would wait for ever.
    """

    def __init__(self, store: Loop) -> None:
        self.store = store
        self.recent: OrderedDict[Key, Reading] = OrderedDict()
        self.bytes = 0
        self.reads = 0  # for the metrics
        self.tasks: set[asyncio.Task[None]] = set()

    def ask(self, name: str, topic_id: int, from_seq: int, view: View, since: float) -> Reading:
        """Returns the reading of the records after from_seq. All callers with the same arguments share it.

        The reading does not start before `since`. If the reading is not done, the caller must add itself to its waiters.
        """
        key = (topic_id, from_seq, view)
        reading = self.recent.get(key)
        if reading is None or not reading.serves(max(since, time.monotonic() - FRESH_SECONDS)):
            self.drop(key)
            reading = self.recent[key] = Reading()
            task = asyncio.create_task(self.run(name, key, reading))
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)
        return reading

    async def run(self, name: str, key: Key, reading: Reading) -> None:
        try:
            reading.batch = await self.store.drive(self.read(name, key, reading))
        except TopicsError as error:
            reading.error = error
        except Exception as error:
            log.exception("Reading topic %s for a stream failed", name)
            reading.error = TopicsError(str(error))
        reading.done = True
        self.keep(key, reading)
        waiting, reading.waiting = reading.waiting, []
        for waiter in waiting:
            waiter.reading_done()

    def read(self, name: str, key: Key, reading: Reading) -> Script[Batch | None]:
        reading.started = time.monotonic()
        self.reads += 1
        _, from_seq, view = key
        found = yield from read_window(name, key)
        if found is None:
            return None
        if view.strong:
            yield from flush()
        topic, window = found
        return rendered(topic, from_seq, view, window)

    def keep(self, key: Key, reading: Reading) -> None:
        """Keeps a reading for other callers with the same key, and drops readings that are too old or too large together.

        A reading without progress beyond from_seq is not kept. The next caller at the same seq needs newer records.
        """
        batch = reading.batch
        if self.recent.get(key) is reading:
            if batch is None or batch.window.next_from_seq <= key[1]:
                del self.recent[key]
            else:
                self.bytes += batch.bytes
        old = time.monotonic() - FRESH_SECONDS
        while self.recent:
            oldest = next(iter(self.recent.values()))
            # A reading that runs is in use. All readings after it in the order are younger.
            if not oldest.done or (self.bytes <= MOST_BYTES and (oldest.started or 0) >= old):
                return
            self.drop(next(iter(self.recent)))

    def drop(self, key: Key) -> None:
        reading = self.recent.pop(key, None)
        if reading is not None and reading.batch is not None:
            self.bytes -= reading.batch.bytes


def read_window(name: str, key: Key) -> Script[tuple[CachedTopic, Window] | None]:
    """Returns the topic and the window, or None if no topic has this id any more."""
    topic_id, from_seq, view = key
    while True:
        topic = cached(name)
        if topic is None or topic.id != topic_id:
            topic = yield from load_topic(name)
        if topic is None or topic.id != topic_id:
            return None
        if found := (yield Statement(DIFF, arguments(topic, from_seq, view), quick=True)):
            return topic, Window(*found[0])
        forget_known(topic)  # the topic was reconfigured since we looked it up, so its version has changed


def arguments(topic: CachedTopic, from_seq: int, view: View) -> tuple[Any, ...]:
    return (
        topic.id,
        topic.version,
        from_seq,
        view.limit,
        None,  # nodes: each stream leaves out its own
        view.match_op,
        view.match,
        view.tags,
        view.meta,
        view.max_bytes,
        topic.expired_ts(now_ms()),
    )


def flush() -> Script[None]:
    """Waits until no crash can take back the currently visible records."""
    ((flushed,),) = yield Statement(FLUSHED)
    if not flushed:
        yield Statement(FLUSH)


def rendered(topic: CachedTopic, from_seq: int, view: View, window: Window) -> Batch:
    """Returns the window as a batch of frames for this view."""
    records = window.records or ""
    if records and not view.data:
        records = frames.without_data(records)
    if records:
        records = seen(records, view.prefixes)
    since, shown = from_seq if window.lost is None else window.gap_to, window._replace(records=None)
    if view.render is not None:
        return Batch(topic.name, shown, since, (), record=view.render(topic.name, records) if records else b"")
    return Batch(topic.name, shown, since, [(Segment(records, topic.dedupe_node), 0)] if records else ())

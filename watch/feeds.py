"""Reads and renders each topic, seq and view once for all streams (docs/watch.md).

Streams with own nodes also share readings: Batch.without cuts the own nodes' records from the shared reading. A stream between
the seqs of the last readings shares them, too (tail.py).

A reading is kept for at most a second. Only streams opened before the start of a reading share the reading. Otherwise a stream
could get a record deleted before the stream connected.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Iterable
from typing import Any

from base.clock import now_ms
from base.errors import TopicsError
from store.coalesce import FLUSH
from store.loop import Loop
from store.script import Script, Statement
from topics.append.written import Written
from topics.cache import CachedTopic, cached, forget_known, load_topic
from topics.read.diff import DIFF, Window
from topics.read.stamps import seen
from watch import frames
from watch.batch import Batch, RecordEvents
from watch.reading import Reading, ReadView
from watch.tail import Link, Tail

log = logging.getLogger(__name__)
FRESH_SECONDS = 1.0  # seconds for which a reading is shared
LEAST_PAUSE_SECONDS = 0.001  # the event loop's timers are no finer
MOST_BYTES = 8 * 1024 * 1024  # bytes of frames that a process keeps for sharing

# True if a crash cannot take back our reads: all inserted WAL is flushed.
FLUSHED = "SELECT pg_current_wal_flush_lsn() >= pg_current_wal_insert_lsn()"


Key = tuple[int, int, ReadView]  # topic id, from_seq, view


class Feeds:
    """The reads of a process. Feeds run in the hub's event loop and need no lock.

    `recent` holds the readings that can be shared, the oldest first. `tails` links those of them that follow each other. Each
    reading runs as its own task. The task always calls its waiters at the end, even after an error. Otherwise a waiter would wait
    for ever.
    """

    def __init__(self, store: Loop) -> None:
        self.store = store
        self.recent: OrderedDict[Key, Reading] = OrderedDict()
        self.tails: dict[tuple[int, ReadView], Tail] = {}
        self.bytes = 0  # of the readings in `recent`, and of what is joined in `tails`
        self.reads = 0  # for the metrics
        self.tasks: set[asyncio.Task[None]] = set()

    def ask(self, name: str, topic_id: int, from_seq: int, view: ReadView, since: float) -> Reading:
        """Returns the reading of the records after from_seq. All callers with the same arguments share it.

        The reading does not start before `since`. If the reading is not done, the caller must add itself to its waiters.
        """
        key = (topic_id, from_seq, view)
        since = max(since, time.monotonic() - FRESH_SECONDS)
        tail = self.tails.get((topic_id, view))
        if tail is not None and (reading := tail.at(from_seq, since)) is not None:
            self.keep_joined(tail, from_seq, reading)
            return reading
        reading = self.recent.get(key)
        if reading is None or not reading.serves(since):
            self.drop(key)
            reading = self.recent[key] = Reading()
            task = asyncio.create_task(self.run(name, key, reading))
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)
        return reading

    def hand(self, views: Iterable[ReadView], written: Written) -> None:
        """Takes the records of an append as a reading, for streams that have everything before them.

        The caller calls the streams afterwards. Streams of other views, of a busy topic or at another seq read as always, and
        so do streams after an append to a topic with caps, after a loss, and after an append with a key. In a busy topic a read
        finds several appends, so its streams get fewer and longer frames.

        docs/concurrency.md ("Records from memory") proves that a stream gets the records that a read would have given it.
        """
        for view in views:
            key = (written.topic.id, written.base, view)
            if not self.is_next(key, written):
                continue
            reading = self.recent[key] = Reading()
            reading.started, reading.done = written.started, True
            records = ",".join(written.shown(view.tags, view.meta))
            head_seq = written.base + written.records
            # Only a tombstone has the earliest seq, and here is no loss.
            window = Window(records, written.records, head_seq, head_seq, earliest_seq=1, lost=None, gap_to=0)
            reading.batch = rendered(written.topic, written.base, view, window)
            self.keep(key, reading)
            # The streams take it up in the loop's next round, and `was_served` runs in the round after that.
            loop, woken = asyncio.get_running_loop(), time.monotonic()
            loop.call_soon(loop.call_soon, self.note_service, key, reading, woken)

    def is_next(self, key: Key, written: Written) -> bool:
        """Returns whether a reading from memory shows what a read of this view from this seq would show, and need not wait."""
        _, base, view = key
        if view.match_op is not None or view.strong or view.render is not None:
            return False
        if written.records > view.limit or written.bytes > view.max_bytes or key in self.recent:
            return False
        tail = self.tails.get((key[0], view))
        if tail is None:
            return True
        # Behind a gap, the tail would begin again. A busy topic waits for more records, so that its streams get fewer frames.
        return tail.links[-1].to_seq == base and tail.busy_until <= time.monotonic()

    async def run(self, name: str, key: Key, reading: Reading) -> None:
        try:
            await self.pause(key)
            reading.batch = await self.store.drive(self.read(name, key, reading))
        except TopicsError as error:
            reading.error = error
        except Exception as error:
            log.exception("Reading topic %s for a stream failed", name)
            reading.error = TopicsError(str(error))
        reading.done = True
        self.keep(key, reading)
        self.call(key, reading)

    async def pause(self, key: Key) -> None:
        """Waits until the streams have taken up the last reading (tail.py). The more streams there are, the more records a frame
        has."""
        tail = self.tails.get((key[0], key[2]))
        seconds = tail.pause(key[1], time.monotonic()) if tail is not None else 0.0
        if seconds > LEAST_PAUSE_SECONDS:
            await asyncio.sleep(seconds)

    def call(self, key: Key, reading: Reading) -> None:
        """Calls the waiters. The loop runs the last waiter's stream before it runs `was_served`."""
        woken = time.monotonic()
        waiting, reading.waiting = reading.waiting, []
        for waiter in waiting:
            waiter.reading_done()
        asyncio.get_running_loop().call_soon(self.note_service, key, reading, woken)

    def note_service(self, key: Key, reading: Reading, woken: float) -> None:
        """Notes how long the streams took for a reading. `woken`: when they were called."""
        tail = self.tails.get((key[0], key[2]))
        if tail is not None and reading.batch is not None:
            tail.was_served(reading.batch.window.scanned, woken, time.monotonic())

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
        if reading.error is None and key[2].render is None:
            self.check_tail(key, reading.batch)
        batch = reading.batch
        if self.recent.get(key) is reading:
            if batch is None or batch.window.next_from_seq <= key[1]:
                del self.recent[key]
            else:
                self.bytes += reading.bytes
                if batch.window.lost is None and key[2].render is None:
                    self.lengthen_tail(key, reading, batch)
        old = time.monotonic() - FRESH_SECONDS
        while self.recent:
            oldest = next(iter(self.recent.values()))
            # A reading that runs is in use. All readings after it in the order are younger.
            if not oldest.done or (self.bytes <= MOST_BYTES and (oldest.started or 0) >= old):
                return
            self.drop(next(iter(self.recent)))

    def check_tail(self, key: Key, batch: Batch | None) -> None:
        """Drops a tail whose records may not exist any more: the topic is deleted, has lost records, or has a lower head."""
        tail = self.tails.get((key[0], key[2]))
        if tail is None:
            return
        if batch is None or batch.window.lost is not None or batch.window.head_seq < tail.links[-1].to_seq:
            self.forget_joined(tail)
            del self.tails[key[0], key[2]]

    def lengthen_tail(self, key: Key, reading: Reading, batch: Batch) -> None:
        topic_id, from_seq, view = key
        tail = self.tails.get((topic_id, view))
        if tail is None:
            tail = self.tails[topic_id, view] = Tail(view)
        self.forget_joined(tail)
        tail.add(Link(from_seq, reading, batch, reading.started or 0))

    def keep_joined(self, tail: Tail, from_seq: int, reading: Reading) -> None:
        """Keeps what was joined for a stream, if there is memory for it."""
        is_new = from_seq not in tail.joined and reading is not tail.links[-1].reading
        if is_new and self.bytes + reading.bytes <= MOST_BYTES:
            tail.joined[from_seq] = reading
            self.bytes += reading.bytes

    def forget_joined(self, tail: Tail) -> None:
        self.bytes -= sum(reading.bytes for reading in tail.joined.values())
        tail.joined.clear()

    def drop(self, key: Key) -> None:
        reading = self.recent.pop(key, None)
        if reading is None:
            return
        self.bytes -= reading.bytes
        tail = self.tails.get((key[0], key[2]))
        if tail is not None:
            self.forget_joined(tail)
            tail.drop(reading)
            if not tail.links:
                del self.tails[key[0], key[2]]


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


def arguments(topic: CachedTopic, from_seq: int, view: ReadView) -> tuple[Any, ...]:
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


def rendered(topic: CachedTopic, from_seq: int, view: ReadView, window: Window) -> Batch:
    """Returns the window as a batch of frames for this view."""
    records = window.records or ""
    if records and not view.data:
        records = frames.without_data(records)
    if records:
        records = seen(records, view.prefixes)
    since, shown = from_seq if window.lost is None else window.gap_to, window._replace(records=None)
    if view.render is not None:
        return Batch(topic.name, shown, since, (), record=view.render(topic.name, records) if records else b"")
    return Batch(topic.name, shown, since, [(RecordEvents(records, topic.dedupe_node), 0)] if records else ())

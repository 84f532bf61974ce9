"""One read of the log and one rendering per topic, seq and view, however many streams watch it (docs/watch.md).

Streams that leave out nodes of their own share them, too: what they leave out is cut from the shared reading (Batch.without).

A reading is kept for a second at most, and shared only with streams that were there before it began: so no stream is
shown a record that was deleted before the stream came.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import msgspec

from base.clock import now_ms
from base.errors import TopicsError
from store.loop import Loop
from store.script import Script, Statement
from store.writes import FLUSH
from topics.cache import CachedTopic, cached, forget, load_topic
from topics.diff import DIFF, Window
from topics.stamps import seen
from watch import frames

log = logging.getLogger(__name__)
FRESH_SECONDS = 1.0  # how long a reading is shared
MOST_BYTES = 8 * 1024 * 1024  # of frames that are kept to be shared, in a process

# Whether everything we have read is safe from a crash: no commit that we saw lies beyond the flushed part of the WAL.
FLUSHED = "SELECT pg_current_wal_flush_lsn() >= pg_current_wal_insert_lsn()"


# The records of one read as a stream's frames: topic, records, from_seq, to_seq, head_seq.
Render = Callable[[str, str, int, int, int], bytes]


class View(NamedTuple):
    """What a watcher wants to see of a topic, and in which form."""

    limit: int
    max_bytes: int
    match_op: str | None
    match: str | None
    tags: bool
    meta: bool
    data: bool
    strong: bool
    prefixes: tuple[str, ...] = ()  # of the reader's key: readers without any share what is read
    render: Render = frames.record


class Node(msgspec.Struct):
    node: str | None = msgspec.field(name="$node", default=None)


class Batch:
    """One window of a topic, rendered. All its streams send the same objects, and none of them may change one.

    `window` is without its records, which are in `record`, as a frame without an id. `message` is that frame with its
    id, for a stream that watches this topic alone and has nothing to add.
    """

    __slots__ = ("dedupes", "frame", "message", "name", "nodes", "pieces", "record", "records", "window")

    def __init__(self, name: str, window: Window, records: str, frame: Callable[[str], bytes], dedupes: bool) -> None:
        """`name`: of the topic. `frame` makes a frame of records. `dedupes`: a stream may leave out its own nodes."""
        self.name, self.window, self.records, self.frame, self.dedupes = name, window, records, frame, dedupes
        self.record = frame(records) if records else b""
        body = frames.id_line({name: window.next_from_seq}) + self.record
        self.message = {"type": "http.response.body", "body": body, "more_body": True}
        self.nodes: list[str | None] | None = None  # of each record, and what it looks like: once somebody asks
        self.pieces: list[bytes] = []

    @property
    def bytes(self) -> int:
        """What keeping it takes, about: the frame, and the records as text and in pieces."""
        return 3 * len(self.record)

    def without(self, own: frozenset[str]) -> Batch:
        """Returns the same window without the records of these nodes."""
        if not own or not self.records or not self.dedupes:
            return self
        if self.nodes is None:
            text = f"[{self.records}]".encode()
            self.nodes = [each.node for each in msgspec.json.decode(text, type=list[Node])]
            self.pieces = [bytes(each) for each in msgspec.json.decode(text, type=list[msgspec.Raw])]
        if own.isdisjoint(self.nodes):
            return self
        kept = [piece for piece, node in zip(self.pieces, self.nodes, strict=True) if node not in own]
        return Batch(self.name, self.window, b",".join(kept).decode(), self.frame, False)


class Waiter(Protocol):
    """Whoever has asked for a reading that is under way."""

    def reading_done(self) -> None:
        """The reading is done. The waiter may have lost interest in it meanwhile."""


class Reading:
    """A read that was asked for, is under way, or is done.

    When it is done it has a batch, or an error, or neither: then there is no topic of that id any more. `started` is
    when the read itself began, after it had waited for a connection.
    """

    __slots__ = ("batch", "done", "error", "started", "waiting")

    def __init__(self) -> None:
        self.started: float | None = None
        self.done = False
        self.batch: Batch | None = None
        self.error: TopicsError | None = None
        self.waiting: list[Waiter] = []

    def serves(self, since: float) -> bool:
        """Whether it does not begin before `since`. One that has not begun yet serves everybody."""
        return self.started is None or self.started >= since


Key = tuple[int, int, View]  # topic id, from_seq, view


class Feeds:
    """The reads of a process. Lives in the hub's event loop, so nothing here is locked.

    `recent` holds the readings that may be shared, the oldest first. Each runs as a task of its own, and wakes its
    waiters when it is done, however it ended: a waiter that is not called would wait for ever.
    """

    def __init__(self, store: Loop) -> None:
        self.store = store
        self.recent: OrderedDict[Key, Reading] = OrderedDict()
        self.bytes = 0
        self.reads = 0  # for the metrics
        self.tasks: set[asyncio.Task[None]] = set()

    def ask(self, name: str, topic_id: int, from_seq: int, view: View, since: float) -> Reading:
        """Returns the reading of what follows from_seq, which is shared with whoever asks for the same.

        It does not begin before `since`. If it is not done, the caller puts itself on its list of waiters.
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
            log.exception("reading %s failed", name)
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
        """Keep a reading for others who ask for the same, and let go of those that are too old or too many.

        One that ends where it began is not kept: the next who asks from there wants to know what came since.
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
            # What is under way is in use. Those behind it are younger still.
            if not oldest.done or (self.bytes <= MOST_BYTES and (oldest.started or 0) >= old):
                return
            self.drop(next(iter(self.recent)))

    def drop(self, key: Key) -> None:
        reading = self.recent.pop(key, None)
        if reading is not None and reading.batch is not None:
            self.bytes -= reading.batch.bytes


def read_window(name: str, key: Key) -> Script[tuple[CachedTopic, Window] | None]:
    """Returns the topic and the window; None when there is no topic of this id any more."""
    topic_id, from_seq, view = key
    while True:
        topic = cached(name)
        if topic is None or topic.id != topic_id:
            topic = yield from load_topic(name)
        if topic is None or topic.id != topic_id:
            return None
        if found := (yield Statement(DIFF, arguments(topic, from_seq, view), quick=True)):
            return topic, Window(*found[0])
        forget(name)  # it was configured anew since we looked it up, and its version is another one now


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
    """Wait until no crash can take back what was visible before this was called."""
    ((flushed,),) = yield Statement(FLUSHED)
    if not flushed:
        yield Statement(FLUSH)


def rendered(topic: CachedTopic, from_seq: int, view: View, window: Window) -> Batch:
    """Returns the window as what is sent of it."""
    records = window.records or ""
    if records and not view.data:
        records = frames.without_data(records)
    if records:
        records = seen(records, view.prefixes)
    since = from_seq if window.lost is None else window.gap_to
    to_seq = window.next_from_seq

    def frame(records: str) -> bytes:
        return view.render(topic.name, records, since, to_seq, window.head_seq)

    return Batch(topic.name, window._replace(records=None), records, frame, topic.dedupe_node)

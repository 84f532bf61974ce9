"""Appends many records in few calls, and tells for each record what happened to it."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Generic, Literal, TypeVar

import httpx
import msgspec

from topics_client import calls
from topics_client.codec import Codec
from topics_client.errors import Refused, TopicsError
from topics_client.records import New
from topics_client.script import Script, drive, run
from topics_client.tracing import stamped

T = TypeVar("T")
Settled = TypeVar("Settled", "BatchFuture", "asyncio.Future[int]")
Full = Literal["block", "refuse"]
MOST_RECORDS = 10_000  # of an append


class QueueFull(TopicsError):
    """The queue of the batch is full, and the batch was made with full="refuse"."""


class Limits(msgspec.Struct, frozen=True):
    """When a batch is sent: at so many records or bytes, or so long after its first record. `queue`: most records in memory."""

    max_records: int = 1000
    max_ms: int = 50
    max_bytes: int = 1 << 20
    queue: int = 10_000
    full: Full = "block"

    def __post_init__(self) -> None:
        if not 1 <= self.max_records <= MOST_RECORDS:
            raise ValueError(f"invalid max_records {self.max_records}: expected 1 to {MOST_RECORDS}")
        if self.full not in ("block", "refuse"):
            raise ValueError(f'invalid full {self.full!r}: expected "block" or "refuse"')


class BatchFuture:
    """The outcome of a record, for threads. All records of a batch share one condition: it is most of a Future of the library.

    In a fork, a record that had no outcome gets none, so its waits raise RuntimeError.
    """

    __slots__ = "batch", "outcome"

    def __init__(self, batch: Batch[Any]) -> None:
        self.batch = batch
        self.outcome: int | BaseException | None = None

    def done(self) -> bool:
        return self.outcome is not None

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Waits for the outcome, and returns the error of the record, if any. Raises TimeoutError after `timeout` seconds."""
        outcome = self._wait(timeout)
        return outcome if isinstance(outcome, BaseException) else None

    def result(self, timeout: float | None = None) -> int:
        """Waits for the outcome, and returns the record's seq. Raises its error, or TimeoutError after `timeout` seconds."""
        outcome = self._wait(timeout)
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    def _wait(self, timeout: float | None) -> int | BaseException:
        if self.outcome is None:
            self.batch.check_process("get the outcome there")
            with self.batch.changed:
                self.batch.changed.wait_for(self.done, timeout)
        if self.outcome is None:
            raise TimeoutError(f"no answer within {timeout} s")
        return self.outcome


class Waiting(Generic[Settled]):
    """The records that wait for an append, in order. Knows no threads and no event loop."""

    def __init__(self, limits: Limits) -> None:
        self.limits, self.bytes, self.unsettled = limits, 0, 0
        self.records: deque[tuple[msgspec.Raw, Settled]] = deque()
        self.first_at = 0.0
        self.is_closing = False
        self.error: BaseException | None = None  # the first

    def has_room(self, block: str) -> bool:
        """Returns whether a record can be added now. False: wait for room. Raises QueueFull, or RuntimeError after the block."""
        if self.is_closing:
            raise RuntimeError(f"the batch has ended: append within its `{block}` block")
        if self.unsettled < self.limits.queue:
            return True
        if self.limits.full == "refuse":
            raise QueueFull(f"{self.unsettled} records wait for the server: try again later")
        return False

    def add(self, record: msgspec.Raw, settled: Settled) -> None:
        if not self.records:
            self.first_at = time.monotonic()
        self.records.append((record, settled))
        self.bytes += len(record)
        self.unsettled += 1

    @property
    def has_enough(self) -> bool:
        """Whether an append has to wait for no further record."""
        enough = len(self.records) >= self.limits.max_records or self.bytes >= self.limits.max_bytes
        return bool(self.records) and (enough or self.is_closing)

    def seconds(self) -> float | None:
        """Returns the time until the next append, or None if there are no records."""
        if not self.records:
            return None
        return 0 if self.has_enough else max(0, self.first_at + self.limits.max_ms / 1000 - time.monotonic())

    def take(self) -> list[tuple[msgspec.Raw, Settled]]:
        """Takes the records of the next append."""
        taken: list[tuple[msgspec.Raw, Settled]] = []
        size = 0
        while self.records and len(taken) < self.limits.max_records:
            if taken and size + len(self.records[0][0]) > self.limits.max_bytes:
                break
            taken.append(self.records.popleft())
            size += len(taken[-1][0])
        self.bytes -= size
        self.first_at = time.monotonic()
        return taken

    def sent(self, outcomes: Sequence[int | BaseException]) -> None:
        """Counts records as settled."""
        self.unsettled -= len(outcomes)
        self.error = self.error or next((each for each in outcomes if isinstance(each, BaseException)), None)


def send(topic: str, codec: Codec[Any], records: list[msgspec.Raw]) -> Script[list[int | BaseException]]:
    """Appends records, and returns the seq or the error of each. A record that the server refuses stops no other record."""
    outcomes: list[int | BaseException] = [0] * len(records)
    left = list(range(len(records)))
    while left:
        try:
            appended = yield from calls.append(topic, codec, [records[index] for index in left])
        except TopicsError as error:
            refused = error.detail.get("index") if isinstance(error, Refused) and error.status == 400 else None
            if isinstance(refused, int) and refused < len(left):
                outcomes[left.pop(refused)] = error
                continue
            for index in left:
                outcomes[index] = error
            break
        for index, seq in zip(left, appended.seqs, strict=True):
            outcomes[index] = seq
        break
    return outcomes


def encoded(
    codec: Codec[Any], data: Any, tag: str | None, node: str | None, meta: dict[str, Any] | None
) -> msgspec.Raw:
    """Returns a record as JSON, so that the application may change its objects. Raises the error of a value that has no JSON.

    At the send, it would be the error of all records of the append.
    """
    return msgspec.Raw(codec.encode(New(data, tag, node, stamped(meta))))


class Batch(Generic[T]):
    """Appends of one topic, sent by a thread in the order of the calls. Threads can share it.

    At the end, the `with` block waits for all records, and raises the first error of a record if the block itself raised none.
    """

    def __init__(self, topic: str, http: httpx.Client, codec: Codec[T], limits: Limits) -> None:
        self.topic, self.http, self.codec = topic, http, codec
        self.waiting: Waiting[BatchFuture] = Waiting(limits)
        self.lock = threading.Lock()
        self.changed = threading.Condition(self.lock)
        self.is_idle = False  # the thread waits for records
        self.thread = threading.Thread(target=self._work, name=f"batch of {topic}", daemon=True)
        self.process = os.getpid()  # a fork has no such thread

    def append(
        self, data: T, *, tag: str | None = None, node: str | None = None, meta: dict[str, Any] | None = None
    ) -> BatchFuture:
        """Returns a future of the record's seq. If the queue is full, waits for room, or raises QueueFull.

        Raises RuntimeError in a fork of the process.
        """
        self.check_process("open one in this process")
        record = encoded(self.codec, data, tag, node, meta)
        settled = BatchFuture(self)
        with self.lock:
            while not self.waiting.has_room("with"):
                self.changed.wait()
            self.waiting.add(record, settled)
            if self.is_idle and (len(self.waiting.records) == 1 or self.waiting.has_enough):
                self.changed.notify_all()
        return settled

    def check_process(self, hint: str) -> None:
        """Raises RuntimeError in a fork. No thread sends there, and another thread can have held the lock at the fork."""
        if self.process != os.getpid():
            raise RuntimeError(f"the batch belongs to the process that was forked: {hint}")

    def _work(self) -> None:
        while True:
            with self.changed:
                while (seconds := self.waiting.seconds()) != 0:
                    if self.waiting.is_closing:
                        return
                    self.is_idle = True
                    self.changed.wait(seconds)
                    self.is_idle = False
                taken = self.waiting.take()
            outcomes: Sequence[int | BaseException]
            try:
                outcomes = run(send(self.topic, self.codec, [record for record, _ in taken]), self.http)
            except Exception as error:
                outcomes = [error] * len(taken)
            for (_, settled), outcome in zip(taken, outcomes, strict=True):
                settled.outcome = outcome
            with self.changed:
                self.waiting.sent(outcomes)
                self.changed.notify_all()

    def __enter__(self) -> Batch[T]:
        self.process = os.getpid()
        self.thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self.process != os.getpid():  # all records are those of the other process
            return
        with self.changed:
            self.waiting.is_closing = True
            self.changed.notify_all()
        self.thread.join()
        if error is None and self.waiting.error:
            raise self.waiting.error


class AsyncBatch(Generic[T]):
    """As Batch, sent by a task."""

    def __init__(self, topic: str, http: httpx.AsyncClient, codec: Codec[T], limits: Limits) -> None:
        self.topic, self.http, self.codec = topic, http, codec
        self.waiting: Waiting[asyncio.Future[int]] = Waiting(limits)
        self.added, self.room = asyncio.Event(), asyncio.Event()

    async def append(
        self, data: T, *, tag: str | None = None, node: str | None = None, meta: dict[str, Any] | None = None
    ) -> asyncio.Future[int]:
        """Returns a future of the record's seq. If the queue is full, waits for room, or raises QueueFull."""
        record = encoded(self.codec, data, tag, node, meta)
        while not self.waiting.has_room("async with"):
            self.room.clear()
            await self.room.wait()
        settled = asyncio.get_running_loop().create_future()
        self.waiting.add(record, settled)
        if len(self.waiting.records) == 1 or self.waiting.has_enough:
            self.added.set()
        return settled

    async def _work(self) -> None:
        while True:
            while (seconds := self.waiting.seconds()) != 0:
                if self.waiting.is_closing:
                    return
                self.added.clear()
                with suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(self.added.wait(), seconds)
            await self._send(self.waiting.take())

    async def _send(self, taken: Sequence[tuple[msgspec.Raw, asyncio.Future[int]]]) -> None:
        outcomes: Sequence[int | BaseException]
        try:
            outcomes = await drive(send(self.topic, self.codec, [record for record, _ in taken]), self.http)
        except asyncio.CancelledError:  # nobody knows whether they are stored
            self._give_up(taken)
            raise
        except Exception as error:
            outcomes = [error] * len(taken)
        for (_, settled), outcome in zip(taken, outcomes, strict=True):
            if settled.done():  # cancelled by the application
                continue
            if isinstance(outcome, BaseException):
                settled.set_exception(outcome)
                settled.exception()  # asyncio then logs nothing if nobody looks: the end of the block raises it
            else:
                settled.set_result(outcome)
        self.waiting.sent(outcomes)
        self.room.set()

    def _give_up(self, records: Iterable[tuple[msgspec.Raw, asyncio.Future[int]]]) -> None:
        """Cancels the futures of records, and ends the waits for room."""
        for _, settled in records:
            settled.cancel()
        self.waiting.is_closing = True
        self.room.set()

    async def __aenter__(self) -> AsyncBatch[T]:
        self.task = asyncio.create_task(self._work())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self.waiting.is_closing = True
        self.added.set()
        try:
            await asyncio.wait((self.task,))
            if self.task.cancelled():  # as asyncio.run does to all tasks at its end. The rest was never sent
                await self._work()
        finally:
            self.task.cancel()
            self._give_up(self.waiting.records)
        if not self.task.cancelled():
            self.task.result()  # raises an error of this package itself
        if error is None and self.waiting.error:
            raise self.waiting.error

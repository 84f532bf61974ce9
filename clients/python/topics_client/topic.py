"""A topic for threads, and one for event loops. Both run the scripts of calls.py and following.py."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator, Iterable
from contextlib import suppress
from typing import Any, Generic, TypeVar

import httpx

from topics_client import calls, objects
from topics_client.batch import AsyncBatch, Batch, Full, Limits
from topics_client.calls import Filter
from topics_client.codec import Codec, to_plain
from topics_client.errors import TopicsError
from topics_client.following import AsyncOnLoss, Following, OnLoss, Start, tell, tell_async
from topics_client.group import AsyncGroup, Group
from topics_client.jobs import Policy, doubled
from topics_client.membership import Membership
from topics_client.objects import Object
from topics_client.records import Appended, Cursor, Job, New, Record, Window
from topics_client.script import drive, run
from topics_client.tracing import stamped
from topics_client.worker import AsyncWorker, Worker, new_node

T = TypeVar("T")
Other = TypeVar("Other")
PAGE = 1000  # the most records that a read returns
IN_FLIGHT = 5000  # the records that a group sends ahead of the commits: so its reads are whole pages


def group_options(
    start: Start | None, partitions: int | None, partition_by: str | None, session_ms: int
) -> dict[str, str]:
    """Returns the options of a member's stream."""
    options = {"session_ms": str(session_ms), "max_in_flight": str(IN_FLIGHT)}
    if start is not None:
        options |= {"tail": "true"} if start == "head" else {"from_seq": "0" if start == "earliest" else str(start)}
    if partitions is not None:
        options["partitions"] = str(partitions)
    if partition_by is not None:
        options["partition_by"] = partition_by
    return options


class Topic(Generic[T]):
    """A topic whose data has the type T."""

    def __init__(self, name: str, http: httpx.Client, codec: Codec[T]) -> None:
        self.name, self.http, self.codec = name, http, codec

    def of(self, kind: type[Other]) -> Topic[Other]:
        """Returns this topic with typed data: a Struct of msgspec, a dataclass, a TypedDict or a pydantic model."""
        return Topic(self.name, self.http, Codec(kind))

    def append(
        self,
        data: T,
        *,
        tag: str | None = None,
        node: str | None = None,
        meta: dict[str, Any] | None = None,
        idempotency_key: str | None = None,
        expected_head: int | None = None,
        create: bool = True,
    ) -> Appended:
        """Appends a record. Tries again for up to a minute, and still appends once, because each call has an idempotency key."""
        return self.append_all([New(data, tag, node, stamped(meta))], idempotency_key, expected_head, create)

    def append_all(
        self,
        records: Iterable[New],
        idempotency_key: str | None = None,
        expected_head: int | None = None,
        create: bool = True,
    ) -> Appended:
        """Appends up to 10,000 records with consecutive seqs, or none of them. Tries again as `append` does."""
        script = calls.append(self.name, self.codec, list(records), idempotency_key, expected_head, create)
        return run(script, self.http)

    def batch(
        self,
        *,
        max_records: int = 1000,
        max_ms: int = 50,
        max_bytes: int = 1 << 20,
        queue: int = 10_000,
        full: Full = "block",
    ) -> Batch[T]:
        """Returns a batch for a `with` block. It sends at `max_records`, `max_bytes`, or `max_ms` after the first record.

        `queue`: the most records that wait for the server. If the queue is full, an append waits, or with `full="refuse"` it
        raises QueueFull.
        """
        return Batch(self.name, self.http, self.codec, Limits(max_records, max_ms, max_bytes, queue, full))

    def read(self, from_seq: int = 0, *, limit: int = PAGE, match: Filter | None = None, wait_ms: int = 0) -> Window[T]:
        """Reads up to `limit` records after a seq. Waits up to `wait_ms` (at most 30,000) if there are none.

        `match`: a tag, or ("tag", "Glob", "order:*").
        """
        return run(calls.diff(self.name, self.codec, from_seq, limit, match, wait_ms), self.http)

    def pages(
        self,
        *,
        cursor: str | None = None,
        start: Start = "earliest",
        match: Filter | None = None,
        limit: int = PAGE,
        wait: bool = True,
    ) -> Generator[Window[T], None, None]:
        """Yields windows of records, and of losses. A window is done when the loop asks for the next one.

        Suits a consumer that keeps `next_from_seq` in the database of its results, and gives it as `start`.
        """
        reader = Following(self.name, self.codec, cursor, start, match, limit, 0, wait)
        run(reader.begin(), self.http)
        try:
            while window := run(reader.next(), self.http):
                yield window
                reader.finish(window)
        finally:
            with suppress(TopicsError):
                run(reader.leave(), self.http)

    def follow(
        self,
        *,
        cursor: str | None = None,
        start: Start = "earliest",
        match: Filter | None = None,
        on_loss: OnLoss = "raise",
        commit_ms: int = 1000,
        limit: int = PAGE,
        wait: bool = True,
    ) -> Generator[Record[T], None, None]:
        """Yields each record once and in order, and waits for the next ones.

        `cursor`: a name under which the server keeps the position. A new cursor begins at `start`: "earliest", "head", or after
        a seq. A record is done when the loop asks for the next one. The cursor is committed `commit_ms` after the last commit,
        before each wait, and when the loop ends. So after a crash, the records of at most this time come again. 0 commits after
        each record. `wait=False` ends at the head. `on_loss`: a function that gets the Tombstone of lost records, "ignore", or
        "raise".
        """
        reader = Following(self.name, self.codec, cursor, start, match, limit, commit_ms, wait)
        run(reader.begin(), self.http)
        try:
            while window := run(reader.next(), self.http):
                if window.tombstone:
                    tell(window.tombstone, on_loss)
                for record in window.records:
                    yield record
                    if reader.is_due(record):
                        run(reader.commit(), self.http)
                reader.finish(window)
        finally:
            with suppress(TopicsError):
                run(reader.leave(), self.http)

    def worker(
        self,
        *,
        concurrency: int = 1,
        lease_ms: int = 60_000,
        retry_ms: int | Callable[[Job[Any]], int] = doubled,
        node: str | None = None,
    ) -> Worker[T]:
        """Returns a worker of this queue: a decorator for a function that does a job, or a loop over jobs.

        `concurrency`: jobs that the function does at once, each in a thread. `lease_ms`: after a crash of the worker, its jobs
        come back after this time, and a running worker extends it. `retry_ms`: how long a job waits after an error, by default
        1 s, and twice as long after each further one.
        """
        return Worker(self.name, self.http, self.codec, Policy(node or new_node(), concurrency, lease_ms, retry_ms))

    def group(
        self,
        name: str,
        *,
        member: str | None = None,
        start: Start | None = None,
        partitions: int | None = None,
        partition_by: str | None = None,
        session_ms: int = 30_000,
        commit_ms: int = 1000,
        on_loss: OnLoss = "raise",
    ) -> Group[T]:
        """Returns a member of a consumer group: a loop over the records of its shares. Records of one key stay in order.

        The first member decides `start` ("earliest", "head", or after a seq), `partitions` and `partition_by`. `session_ms`: how
        long a record can take. After that, or after a crash, other members get the shares. `commit_ms` and `on_loss`: as in
        `follow`.
        """
        options = group_options(start, partitions, partition_by, session_ms)
        membership = Membership(self.name, name, member or new_node(), self.codec, options, commit_ms)
        return Group(membership, self.http, on_loss)

    def configure(self, **fields: Any) -> Object:
        """Creates this topic, or changes its config. `fields`: see docs/wire.md, such as `type="queue"`."""
        return run(objects.put(calls.path(self.name), fields), self.http)

    def info(self) -> Object:
        """Returns the config and the figures of this topic."""
        return run(objects.get(calls.path(self.name)), self.http)

    def delete(self) -> Object:
        """Deletes this topic with its records."""
        return run(objects.delete(calls.path(self.name)), self.http)

    def cursors(self) -> list[Object]:
        """Returns the cursors of this topic, of every kind."""
        return run(objects.every(calls.path(self.name, "cursors"), "cursors", {}), self.http)

    def cursor(self, name: str) -> Cursor | None:
        """Returns a cursor, or None."""
        return run(calls.get_cursor(self.name, name), self.http)

    def set_cursor(self, name: str, seq: int, *, expected_seq: int | None = None) -> int:
        """Sets a cursor, and returns its seq. Raises CursorMoved if it is not at `expected_seq`."""
        return run(calls.set_cursor(self.name, name, seq=seq, expected_seq=expected_seq), self.http)

    def delete_cursor(self, name: str) -> Object:
        """Deletes a cursor."""
        return run(objects.delete(calls.path(self.name, "cursors", name)), self.http)

    def schedule(self, name: str, data: T, **fields: Any) -> Object:
        """Creates or replaces a schedule of this queue. `fields`: `not_before` or `cron`, and others of docs/wire.md."""
        return run(objects.put(calls.path(self.name, "schedules", name), {"data": to_plain(data), **fields}), self.http)

    def schedules(self) -> list[Object]:
        """Returns the schedules of this queue."""
        return run(objects.every(calls.path(self.name, "schedules"), "schedules", {}), self.http)

    def delete_schedule(self, name: str) -> Object:
        """Deletes a schedule. Its jobs stay."""
        return run(objects.delete(calls.path(self.name, "schedules", name)), self.http)

    def redrive(self, *, match: Filter | None = None, **fields: Any) -> int:
        """Moves dead letters of this topic back to their queues, and returns how many. `fields`: see docs/wire.md."""
        return run(objects.redrive(self.name, match, fields), self.http)


class AsyncTopic(Generic[T]):
    """A topic whose data has the type T, for `async` code."""

    def __init__(self, name: str, http: httpx.AsyncClient, codec: Codec[T]) -> None:
        self.name, self.http, self.codec = name, http, codec

    def of(self, kind: type[Other]) -> AsyncTopic[Other]:
        """As Topic.of."""
        return AsyncTopic(self.name, self.http, Codec(kind))

    async def append(
        self,
        data: T,
        *,
        tag: str | None = None,
        node: str | None = None,
        meta: dict[str, Any] | None = None,
        idempotency_key: str | None = None,
        expected_head: int | None = None,
        create: bool = True,
    ) -> Appended:
        """As Topic.append."""
        return await self.append_all([New(data, tag, node, stamped(meta))], idempotency_key, expected_head, create)

    async def append_all(
        self,
        records: Iterable[New],
        idempotency_key: str | None = None,
        expected_head: int | None = None,
        create: bool = True,
    ) -> Appended:
        """As Topic.append_all."""
        script = calls.append(self.name, self.codec, list(records), idempotency_key, expected_head, create)
        return await drive(script, self.http)

    def batch(
        self,
        *,
        max_records: int = 1000,
        max_ms: int = 50,
        max_bytes: int = 1 << 20,
        queue: int = 10_000,
        full: Full = "block",
    ) -> AsyncBatch[T]:
        """As Topic.batch, for an `async with` block."""
        return AsyncBatch(self.name, self.http, self.codec, Limits(max_records, max_ms, max_bytes, queue, full))

    async def read(
        self, from_seq: int = 0, *, limit: int = PAGE, match: Filter | None = None, wait_ms: int = 0
    ) -> Window[T]:
        """As Topic.read."""
        return await drive(calls.diff(self.name, self.codec, from_seq, limit, match, wait_ms), self.http)

    async def pages(
        self,
        *,
        cursor: str | None = None,
        start: Start = "earliest",
        match: Filter | None = None,
        limit: int = PAGE,
        wait: bool = True,
    ) -> AsyncGenerator[Window[T], None]:
        """As Topic.pages."""
        reader = Following(self.name, self.codec, cursor, start, match, limit, 0, wait)
        await drive(reader.begin(), self.http)
        try:
            while window := await drive(reader.next(), self.http):
                yield window
                reader.finish(window)
        finally:
            with suppress(TopicsError):
                await drive(reader.leave(), self.http)

    async def follow(
        self,
        *,
        cursor: str | None = None,
        start: Start = "earliest",
        match: Filter | None = None,
        on_loss: AsyncOnLoss = "raise",
        commit_ms: int = 1000,
        limit: int = PAGE,
        wait: bool = True,
    ) -> AsyncGenerator[Record[T], None]:
        """As Topic.follow. Close it with `contextlib.aclosing` if the loop can end early: then it commits at once."""
        reader = Following(self.name, self.codec, cursor, start, match, limit, commit_ms, wait)
        await drive(reader.begin(), self.http)
        try:
            while window := await drive(reader.next(), self.http):
                if window.tombstone:
                    await tell_async(window.tombstone, on_loss)
                for record in window.records:
                    yield record
                    if reader.is_due(record):
                        await drive(reader.commit(), self.http)
                reader.finish(window)
        finally:
            with suppress(TopicsError):
                await drive(reader.leave(), self.http)

    def worker(
        self,
        *,
        concurrency: int = 1,
        lease_ms: int = 60_000,
        retry_ms: int | Callable[[Job[Any]], int] = doubled,
        node: str | None = None,
    ) -> AsyncWorker[T]:
        """As Topic.worker, for an `async` function: `concurrency` of them run at once."""
        return AsyncWorker(
            self.name, self.http, self.codec, Policy(node or new_node(), concurrency, lease_ms, retry_ms)
        )

    def group(
        self,
        name: str,
        *,
        member: str | None = None,
        start: Start | None = None,
        partitions: int | None = None,
        partition_by: str | None = None,
        session_ms: int = 30_000,
        commit_ms: int = 1000,
        on_loss: AsyncOnLoss = "raise",
    ) -> AsyncGroup[T]:
        """As Topic.group."""
        options = group_options(start, partitions, partition_by, session_ms)
        membership = Membership(self.name, name, member or new_node(), self.codec, options, commit_ms)
        return AsyncGroup(membership, self.http, on_loss)

    async def configure(self, **fields: Any) -> Object:
        """Creates this topic, or changes its config. `fields`: see docs/wire.md, such as `type="queue"`."""
        return await drive(objects.put(calls.path(self.name), fields), self.http)

    async def info(self) -> Object:
        """Returns the config and the figures of this topic."""
        return await drive(objects.get(calls.path(self.name)), self.http)

    async def delete(self) -> Object:
        """Deletes this topic with its records."""
        return await drive(objects.delete(calls.path(self.name)), self.http)

    async def cursors(self) -> list[Object]:
        """Returns the cursors of this topic, of every kind."""
        return await drive(objects.every(calls.path(self.name, "cursors"), "cursors", {}), self.http)

    async def cursor(self, name: str) -> Cursor | None:
        """Returns a cursor, or None."""
        return await drive(calls.get_cursor(self.name, name), self.http)

    async def set_cursor(self, name: str, seq: int, *, expected_seq: int | None = None) -> int:
        """Sets a cursor, and returns its seq. Raises CursorMoved if it is not at `expected_seq`."""
        return await drive(calls.set_cursor(self.name, name, seq=seq, expected_seq=expected_seq), self.http)

    async def delete_cursor(self, name: str) -> Object:
        """Deletes a cursor."""
        return await drive(objects.delete(calls.path(self.name, "cursors", name)), self.http)

    async def schedule(self, name: str, data: T, **fields: Any) -> Object:
        """Creates or replaces a schedule of this queue. `fields`: `not_before` or `cron`, and others of docs/wire.md."""
        return await drive(
            objects.put(calls.path(self.name, "schedules", name), {"data": to_plain(data), **fields}), self.http
        )

    async def schedules(self) -> list[Object]:
        """Returns the schedules of this queue."""
        return await drive(objects.every(calls.path(self.name, "schedules"), "schedules", {}), self.http)

    async def delete_schedule(self, name: str) -> Object:
        """Deletes a schedule. Its jobs stay."""
        return await drive(objects.delete(calls.path(self.name, "schedules", name)), self.http)

    async def redrive(self, *, match: Filter | None = None, **fields: Any) -> int:
        """Moves dead letters of this topic back to their queues, and returns how many. `fields`: see docs/wire.md."""
        return await drive(objects.redrive(self.name, match, fields), self.http)

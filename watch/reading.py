"""One read of a topic for streams: arguments, waiting streams, and the batch as the result."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from base.errors import TopicsError
from watch.batch import Batch

# Renders the records of one read as a stream's frames. Arguments: topic, records.
Render = Callable[[str, str], bytes]


class ReadView(NamedTuple):
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

    @property
    def bytes(self) -> int:
        """Returns the approximate memory of the batch."""
        return 0 if self.batch is None else self.batch.bytes

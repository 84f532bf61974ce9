"""A reader that continues exactly where it was, through every cut, restart and crash."""

from __future__ import annotations

import inspect
import math
import time
from collections.abc import Awaitable, Callable
from typing import Any, Generic, Literal, TypeVar

from topics_client import calls
from topics_client.calls import Filter
from topics_client.codec import Codec
from topics_client.errors import CursorMoved, RecordsLost
from topics_client.records import Record, Tombstone, Window
from topics_client.script import PATIENCE, Pause, Script

T = TypeVar("T")
Start = int | Literal["earliest", "head"]
OnLoss = Literal["raise", "ignore"] | Callable[[Tombstone], None]
AsyncOnLoss = OnLoss | Callable[[Tombstone], Awaitable[None]]
WAIT_MS = 20_000
IDLE_SECONDS = 1.0  # between reads that return nothing at once, as those of a sealed topic do


class Following(Generic[T]):
    """The position of a reader, and the scripts that advance it.

    `seq` is the last seq that was read, `done` the last that the application has done, `committed` the cursor on the server.
    """

    def __init__(
        self,
        topic: str,
        codec: Codec[T],
        cursor: str | None,
        start: Start,
        match: Filter | None,
        limit: int,
        commit_ms: int,
        wait: bool,
    ) -> None:
        self.topic, self.codec, self.cursor, self.start = topic, codec, cursor, start
        self.match, self.limit, self.wait = match, limit, wait
        self.commit_seconds = commit_ms / 1000
        self.seq = self.done = self.committed = 0
        self.told: Tombstone | None = None
        self.is_at_head = True  # the next read can wait
        self.due_at = math.inf

    def begin(self) -> Script[None]:
        """Finds the position: that of the cursor, or `start` if the cursor is new."""
        stored = (yield from calls.get_cursor(self.topic, self.cursor)) if self.cursor else None
        if stored:
            self.seq = stored.seq
        elif self.start == "earliest":
            self.seq = 0
        elif self.cursor:
            where: dict[str, Any] = {"at": "head"} if self.start == "head" else {"seq": self.start}
            self.seq = yield from calls.set_cursor(self.topic, self.cursor, **where)
        elif self.start == "head":
            self.seq = (yield from calls.diff(self.topic, self.codec, 0, 1, None, 0)).head_seq
        else:
            self.seq = self.start
        self.done = self.committed = self.seq

    def next(self) -> Script[Window[T] | None]:
        """Reads until there are records or a loss, or returns None at the end if this reader does not wait.

        Commits before, if it is time or the read can wait.
        """
        if self.is_at_head or time.monotonic() >= self.due_at:
            yield from self.commit()
        while True:
            wait_ms = WAIT_MS if self.wait else 0
            began = time.monotonic()
            window = yield from calls.diff(
                self.topic, self.codec, self.seq, self.limit, self.match, wait_ms, patience=math.inf
            )
            # A recreated topic repeats its tombstone until its first record.
            if window.tombstone == self.told and window.next_from_seq == self.seq:
                window.tombstone = None
            moved, self.seq = window.next_from_seq != self.seq, window.next_from_seq
            if window.records or window.tombstone:
                if window.tombstone is not None and window.tombstone.reason == "recreated":
                    yield from self.find_again()
                self.told, self.is_at_head = window.tombstone, window.caught_up
                if self.done == self.committed:
                    self.due_at = time.monotonic() + self.commit_seconds
                return window
            if moved:  # past records that the filter leaves out
                self.done = self.seq
                yield from self.commit()
            if window.caught_up:
                if not self.wait:
                    return None
                if not moved and time.monotonic() - began < IDLE_SECONDS:
                    yield Pause(IDLE_SECONDS)

    def find_again(self) -> Script[None]:
        """Takes the cursor of the new topic, if it has one. The cursor of the former topic is gone."""
        if self.cursor:
            stored = yield from calls.get_cursor(self.topic, self.cursor, patience=math.inf)
            self.done = self.committed = stored.seq if stored else 0

    def finish(self, window: Window[T]) -> None:
        """Counts a whole window as done."""
        self.done = window.next_from_seq

    def is_due(self, record: Record[T]) -> bool:
        """Counts a record as done, and returns whether to commit now."""
        self.done = record.seq
        return time.monotonic() >= self.due_at

    def commit(self, patience: float = math.inf) -> Script[None]:
        """Sets the cursor to the last seq that is done. Raises CursorMoved if another consumer moved it."""
        if self.cursor and self.done != self.committed:
            try:
                yield from calls.set_cursor(
                    self.topic, self.cursor, seq=self.done, expected_seq=self.committed, patience=patience
                )
                self.committed = self.done
            except CursorMoved:
                if not (yield from self.is_recreated(patience)):
                    raise
        self.due_at = time.monotonic() + self.commit_seconds

    def is_recreated(self, patience: float) -> Script[bool]:
        """Returns whether the topic was deleted and created again since the last read. Then its cursor is gone, and did not move.

        The next read tells the loss, and finds the cursor again.
        """
        lost = (yield from calls.diff(self.topic, self.codec, self.seq, 1, None, 0, patience)).tombstone
        return lost is not None and lost.reason == "recreated" and lost != self.told

    def leave(self) -> Script[None]:
        """Commits at the end of the loop, without much patience: the records come again if it fails."""
        yield from self.commit(patience=min(PATIENCE, 5))


def tell(tombstone: Tombstone, on_loss: object) -> Any:
    """Tells the application of a loss, and returns what its function returns. Raises RecordsLost if it has not decided."""
    if callable(on_loss):
        return on_loss(tombstone)
    if on_loss == "raise":
        raise RecordsLost(tombstone)
    if on_loss != "ignore":
        raise ValueError(f'invalid on_loss {on_loss!r}: expected "raise", "ignore" or a function')
    return None


async def tell_async(tombstone: Tombstone, on_loss: object) -> None:
    """As `tell`. Awaits the function if it is `async`."""
    if inspect.isawaitable(told := tell(tombstone, on_loss)):
        await told

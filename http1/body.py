"""An arriving body. A reader takes it whole, or part by part with back pressure on its connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Protocol

from http1.errors import too_large

MOST_BUFFERED = 64 * 1024  # bytes that the reader did not take yet. Above this the connection pauses.


class Source(Protocol):
    """The connection of a body."""

    def pause_body(self) -> None: ...
    def resume_body(self) -> None: ...
    def want_body(self) -> None: ...  # a reader waits for the body, so the connection answers `Expect: 100-continue`


class Body:
    """Parts that one connection feeds and one reader takes.

    `complete`: the whole body arrived. `size`: bytes that arrived so far. `length`: the Content-Length, or None for a chunked
    body.
    """

    __slots__ = (
        "_buffered",
        "_error",
        "_gathers",
        "_parts",
        "_paused",
        "_source",
        "_waiter",
        "complete",
        "length",
        "size",
    )

    def __init__(self, source: Source | None, length: int | None = 0) -> None:
        self._source, self.length = source, length
        self._parts: list[bytes] = []
        self._buffered = self.size = 0
        self._gathers = self._paused = self.complete = False
        self._error: BaseException | None = None
        self._waiter: asyncio.Future[None] | None = None

    # -- By the connection -------------------------------------------------------------------------------------------

    def feed(self, part: bytes) -> None:
        self.size += len(part)
        self._buffered += len(part)
        self._parts.append(part)
        if self._buffered > MOST_BUFFERED and not self._gathers and not self._paused and self._source is not None:
            self._paused = True
            self._source.pause_body()
        self._wake()

    def end(self) -> None:
        self.complete = True
        self._let_go()

    def fail(self, error: BaseException) -> None:
        """End the body with an error. The reader gets the parts that arrived, then the error."""
        if not self.complete and self._error is None:
            self._error = error
            self._let_go()

    def _let_go(self) -> None:
        """Release the connection after the last part. Resumes the connection if the last part paused it."""
        source, self._source = self._source, None
        if self._paused and source is not None:
            self._paused = False
            source.resume_body()
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    # -- By the reader -----------------------------------------------------------------------------------------------

    @property
    def is_awaited(self) -> bool:
        return self._waiter is not None

    @property
    def failed(self) -> bool:
        return self._error is not None

    def take(self) -> bytes:
        """Returns the bytes that arrived and were not taken yet, without waiting."""
        parts = self._parts
        if not parts:
            return b""
        got = parts[0] if len(parts) == 1 else b"".join(parts)
        self._parts = []
        self._buffered = 0
        if self._paused:
            self._paused = False
            if self._source is not None:
                self._source.resume_body()
        return got

    async def next(self) -> bytes:
        """Returns the next part, or b"" at the end. Raises Refused or Failure if the rest does not arrive."""
        while not self._parts:
            if self.complete:
                return b""
            await self._more()
        return self.take()

    async def read(self, most: int | None = None) -> bytes:
        """Returns the rest of the body. Raises Refused with 413 as soon as the body is known to exceed `most` bytes."""
        if most is not None and self.length is not None and self.length > most:
            raise too_large(most)
        self._gathers = True
        if self._paused and self._source is not None:
            self._paused = False
            self._source.resume_body()
        while not self.complete:
            if most is not None and self._buffered > most:
                raise too_large(most)
            await self._more()
        if most is not None and self._buffered > most:
            raise too_large(most)
        return self.take()

    async def _more(self) -> None:
        """Wait for the next part, the end or an error. Raises the error that ended the body."""
        self._check()
        if self._source is not None:
            self._source.want_body()
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None
        if not self._parts:
            self._check()

    def _check(self) -> None:
        if self._error is not None:
            raise self._error

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if part := await self.next():
            return part
        raise StopAsyncIteration

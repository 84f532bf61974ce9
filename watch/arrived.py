"""How far a stream's client has surely come. A client without a Last-Event-ID continues there.

A send returns when the web server below has taken the message. The client gets the message later. A position therefore counts as
arrived only SETTLE_SECONDS after sending. If the client reads nothing, a position counts as arrived only after more bytes than
all buffers on the way can hold. A position too low costs records sent twice. A position too high would lose records.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from watch.sessions import SavedPositions

SETTLE_SECONDS = 0.5  # data that was sent so long before a connection ended has surely arrived
UNREAD_BYTES = 8 * 1024 * 1024  # bytes that may wait unread, here, in the kernel and at a client that takes nothing
MARK_BYTES = 1024 * 1024  # bytes between two positions that are kept for such a client

Current = Callable[[], SavedPositions]  # returns the current positions; called only if they are kept


class Sent(NamedTuple):
    """The positions that had been sent at a moment of the monotonic clock."""

    at: float
    positions: SavedPositions


class Arrived:
    """Keeps two positions by time and a few by bytes, however much a stream sends.

    The stream's own coroutine calls before_send(), then sent(). The registry also calls `positions` between the two, while a send
    is in progress.
    """

    __slots__ = ("marks", "newer", "next_mark", "older", "sent_at", "sent_bytes")

    def __init__(self, positions: SavedPositions) -> None:
        self.sent_at = time.monotonic()  # when the last send returned
        self.sent_bytes = 0
        # `newer` is at least SETTLE_SECONDS younger than `older`. Either `newer` or `older` is always old enough.
        self.newer = self.older = Sent(self.sent_at, positions)
        self.marks = deque([(0, positions)])  # (bytes sent, positions at that moment)
        self.next_mark = MARK_BYTES

    def before_send(self, current: Current) -> None:
        """Keeps the positions sent so far, unless the last positions were kept less than SETTLE_SECONDS ago."""
        if time.monotonic() - self.newer.at >= SETTLE_SECONDS:
            self.older, self.newer = self.newer, Sent(self.sent_at, current())

    def sent(self, size: int, current: Current) -> None:
        """Counts a sent message of `size` bytes. Drops positions too old to be unread."""
        self.sent_at = time.monotonic()
        self.sent_bytes += size
        if self.sent_bytes < self.next_mark:
            return
        self.marks.append((self.sent_bytes, current()))
        self.next_mark = self.sent_bytes + MARK_BYTES
        while self.marks[1][0] <= self.sent_bytes - UNREAD_BYTES:
            self.marks.popleft()

    def positions(self, current: Current, is_sending: bool, was_cut: bool) -> SavedPositions:
        """Returns the surely arrived positions. `was_cut`: the stream was ended because the client read nothing."""
        if was_cut:
            return self.marks[0][1]
        long_ago = time.monotonic() - SETTLE_SECONDS
        if self.sent_at <= long_ago and not is_sending:
            return current()
        return (self.newer if self.newer.at <= long_ago else self.older).positions

"""How far a stream's client has surely come. The session goes on there for a client that shows no Last-Event-ID.

A send returns when the web server below has taken the message, which is before the client has it. So a position counts
as arrived only when some time has passed since it was sent; or, where the client reads nothing, when so much was sent
after it that the buffers on the way cannot hold it any more. Counting too little costs records sent twice, counting
too much would lose them.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from watch.sessions import SavedPositions

SETTLE_SECONDS = 0.5  # what was sent so long before a connection ended has surely arrived
UNREAD_BYTES = 8 * 1024 * 1024  # as much may wait unread, here, in the kernel and at a client that takes nothing
MARK_BYTES = 1024 * 1024  # sent between two positions that are kept for such a client

Current = Callable[[], SavedPositions]  # the positions as of now; asked for only where they are kept


class Sent(NamedTuple):
    """What had been sent by a moment of the monotonic clock."""

    at: float
    positions: SavedPositions


class Arrived:
    """Keeps two positions by time and some by bytes, whatever a stream sends.

    Called by the stream's own coroutine in the order before_send(), sent(); `positions` is also called by the
    registry between the two, while a send is under way.
    """

    __slots__ = ("marks", "newer", "next_mark", "older", "sent_at", "sent_bytes")

    def __init__(self, positions: SavedPositions) -> None:
        self.sent_at = time.monotonic()  # when the last send returned
        self.sent_bytes = 0
        # `newer` is at least SETTLE_SECONDS younger than `older`, so one of the two is always old enough.
        self.newer = self.older = Sent(self.sent_at, positions)
        self.marks = deque([(0, positions)])  # what had been sent after so many bytes
        self.next_mark = MARK_BYTES

    def before_send(self, current: Current) -> None:
        """Keep what has been sent so far, unless that was done a moment ago."""
        if time.monotonic() - self.newer.at >= SETTLE_SECONDS:
            self.older, self.newer = self.newer, Sent(self.sent_at, current())

    def sent(self, size: int, current: Current) -> None:
        """A message of so many bytes was sent. Let go of the positions that are older than anything unread."""
        self.sent_at = time.monotonic()
        self.sent_bytes += size
        if self.sent_bytes < self.next_mark:
            return
        self.marks.append((self.sent_bytes, current()))
        self.next_mark = self.sent_bytes + MARK_BYTES
        while self.marks[1][0] <= self.sent_bytes - UNREAD_BYTES:
            self.marks.popleft()

    def positions(self, current: Current, is_sending: bool, was_cut: bool) -> SavedPositions:
        """Returns what has surely arrived. `was_cut`: the stream was ended because its client read nothing."""
        if was_cut:
            return self.marks[0][1]
        long_ago = time.monotonic() - SETTLE_SECONDS
        if self.sent_at <= long_ago and not is_sending:
            return current()
        return (self.newer if self.newer.at <= long_ago else self.older).positions

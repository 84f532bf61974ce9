"""Large bodies take turns, so that each client has an equal share of a process's time for them (docs/wire.md).

To read, unzip and parse a large body, or to refuse it, takes the event loop as long as many small requests, which wait
meanwhile. So large bodies pass at a bounded rate: after each, the next one of the same holder waits, and other requests go first.
A holder is a key, or an address if no key is needed. Small requests take no turn.
"""

from __future__ import annotations

import asyncio
from collections import deque

from django.conf import settings

from base.errors import Throttled
from http1.hang_up import has_hung_up, on_hang_up
from wire import metrics

RATE = settings.TOPICS_LARGE_BODIES_RATE  # bytes per second of a process
PATIENCE_SECONDS = 30.0  # of a request that waits for its turn. Many clients give up after a minute


class Turns:
    """The turns of this process. `rate`: bytes per second of all holders together. 0: nobody waits."""

    def __init__(self, rate: int, patience_seconds: float = PATIENCE_SECONDS) -> None:
        self.rate, self.patience_seconds = rate, patience_seconds
        # A holder is here from the beginning of its turn until the time of its last body is over. So there are few holders.
        self.waiting: dict[str, deque[asyncio.Future[None]]] = {}

    async def take(self, holder: str, size: int) -> None:
        """Waits for the holder's turn, for a body of `size` bytes. Raises Throttled."""
        await self.begin(holder)
        self.end(holder, size)

    async def begin(self, holder: str) -> None:
        """Waits for the holder's turn. Its next turn begins some time after end(). Raises Throttled after a long wait."""
        line = self.waiting.get(holder)
        if line is None:
            self.waiting[holder] = deque()
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        line.append(turn)
        try:
            async with asyncio.timeout(self.patience_seconds) as patience:
                with on_hang_up(lambda: patience.reschedule(0)):
                    await turn
        except BaseException as error:
            if turn.done() and not turn.cancelled():
                self.next(holder)  # the turn came at the same moment, so it is the next request's
            if not isinstance(error, TimeoutError):
                raise
            if not has_hung_up():
                metrics.throttled("large_bodies")
            message = f"this client sent large bodies at more than {self.rate} bytes per second: try again later"
            raise Throttled(message, limit="large_bodies", max=self.rate) from error

    def end(self, holder: str, size: int) -> None:
        """Ends the turn of a body of `size` bytes. All holders with a turn, or in wait for one, share the rate."""
        seconds = size * len(self.waiting) / self.rate if self.rate else 0
        asyncio.get_running_loop().call_later(seconds, self.next, holder)

    def next(self, holder: str) -> None:
        """Begins the turn of the holder's next request, if one waits."""
        line = self.waiting.get(holder)
        while line:
            turn = line.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self.waiting.pop(holder, None)  # absent after let_in(), which begins several turns of a holder

    def let_in(self) -> None:
        """Begins all turns, because the process shuts down and its requests have little time."""
        for line in self.waiting.values():
            for turn in line:
                if not turn.done():
                    turn.set_result(None)
            line.clear()


turns = Turns(RATE)

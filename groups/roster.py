"""The members that this process serves, each with a stream or on a WebSocket.

Five times a second, the roster reads the shares of its members from PostgreSQL. In the same round it writes which shares the
streams have stopped, and once a second which members are alive and which cursors advance without a commit. A commit in this
process reaches the stream at once. If a stream waits for commits and another process answers them, the roster looks more often.
"""

from __future__ import annotations

import asyncio
import threading
import time

from base.per_loop import PerLoop
from groups.membership import Membership
from groups.sessions import Looked, SettledShare, look, refresh, settle
from store.script import Script
from watch.hub import Hub, hub

LOOK_SECONDS = 0.2
SOON_SECONDS = 0.02  # until the next look, after a look that found commits for a stream that waited for them
TELL_SECONDS = 1.0  # between two rounds that tell which members are alive, and which cursors advance without a commit
TELL_PART = 0.25  # of the shortest session, if this is sooner


class Roster:
    """The members of one event loop, by session."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub
        self.streams: dict[int, Membership] = {}
        self.running: asyncio.Task[None] | None = None
        self.told_at = 0.0
        self.idle: set[int] = set()  # the sessions that were idle at the last look
        self.is_due = asyncio.Event()
        self.pause = LOOK_SECONDS  # until the next look

    def add(self, stream: Membership) -> None:
        self.streams[stream.joined.session] = stream
        self.is_due.set()
        if self.running is None:
            self.running = asyncio.create_task(self.run())

    def remove(self, stream: Membership) -> None:
        self.streams.pop(stream.joined.session, None)

    async def run(self) -> None:
        """Looks until no member is left."""
        while self.streams:
            self.is_due.clear()
            await self.hub.attempt(self.look)
            try:
                async with asyncio.timeout(self.pause):
                    await self.is_due.wait()
            except TimeoutError:
                pass
        self.running = None

    async def look(self) -> None:
        """Writes the progress of the streams to PostgreSQL, then reads their shares."""
        streams = list(self.streams.values())
        shortest = min(stream.joined.session_ms for stream in streams) / 1000
        is_time = time.monotonic() - self.told_at >= min(TELL_SECONDS, shortest * TELL_PART)
        # A member is alive while its stream is open and no record waits for a commit. Otherwise only its commits tell. It has the
        # whole time of a session for the first commit.
        idle = {stream.joined.session for stream in streams if stream.is_idle}
        begun = self.idle.intersection(self.streams) - idle
        alive = sorted(begun | idle if is_time else begun)
        rows = [(stream, row) for stream in streams for row in stream.drained()]
        if is_time:
            rows += [(stream, row) for stream in streams for row in stream.advanced()]
        found = await self.hub.store.drive(self.exchange(alive, [row for _, row in rows], streams))
        self.idle = idle
        if is_time:
            self.told_at = time.monotonic()
        for stream, row in rows:
            stream.noted(row)
        full = [stream for stream in streams if stream.is_full]
        for stream in streams:
            stream.found(found.get(stream.joined.session))
            if any(stream.drained()):
                self.is_due.set()  # another member waits for these shares
        has_news = not all(stream.is_full for stream in full)
        self.pause = SOON_SECONDS if has_news else min(2 * self.pause, LOOK_SECONDS)

    @staticmethod
    def exchange(alive: list[int], rows: list[SettledShare], streams: list[Membership]) -> Script[dict[int, Looked]]:
        yield from refresh(alive)
        yield from settle(rows)
        group_ids = list({stream.joined.group_id for stream in streams})
        return (yield from look([stream.joined.session for stream in streams], group_ids))

    def committed(self, session: int, shares: list[tuple[int, int, int]]) -> None:
        """Notes a commit that this process has answered. `shares`: number, generation and seq of each."""
        stream = self.streams.get(session)
        if stream is not None:
            for share in shares:
                stream.committed(*share)


process = PerLoop(lambda: Roster(hub()))
roster = process.here


def committed(session: int, shares: list[tuple[int, int, int]]) -> None:
    """Tells the session's stream about a commit, if the stream is in this process. Any thread can call this.

    The stream of another process finds the commit within LOOK_SECONDS.
    """
    here = process.made
    if here is None or session not in here.streams:
        return
    if threading.get_ident() == here.hub.thread:
        here.committed(session, shares)
    else:
        here.hub.loop.call_soon_threadsafe(here.committed, session, shares)

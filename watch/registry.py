"""The open streams of this process: how many there may be, whether their keys still hold, how far their sessions are.

The caps hold over all processes. Each process writes down how many streams it has, and reads what the others wrote.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter
from typing import Protocol

from django.conf import settings

from base.clock import now_ms
from base.errors import ShuttingDown
from store.script import Script, Statement
from watch.hub import Hub
from watch.outflow import outflows
from watch.sessions import REFRESH_MS, Saved, refresh, save
from watch.stream import Stream
from wire import shutdown as drain
from wire.entrance import fresh_keys
from wire.keys import Key, keyring
from wire.limits import check

MOST_SAVES = 500  # sessions saved at a time
STALE_MS = 10_000  # what a process wrote down counts no longer: it is dead

WRITE_COUNTS = """
INSERT INTO topics_streamcount (process, key_id, count, seen_ts)
SELECT %(process)s, key_id, count, %(now)s FROM unnest(%(keys)s::text[], %(counts)s::int[]) AS own (key_id, count)
    ON CONFLICT (process, key_id) DO UPDATE SET count = excluded.count, seen_ts = excluded.seen_ts
"""
READ_COUNTS = """
SELECT key_id, sum(count) FROM topics_streamcount WHERE process <> %(process)s AND seen_ts > %(now)s::bigint - %(stale_ms)s
 GROUP BY key_id
"""
# Also what a clock that was ahead wrote: who died then would count until that time. Who lives writes it anew each second.
FORGET_COUNTS = """
DELETE FROM topics_streamcount
 WHERE seen_ts NOT BETWEEN %(now)s::bigint - 2 * %(stale_ms)s AND %(now)s::bigint + 2 * %(stale_ms)s
"""


class Open(Protocol):
    """An open stream, of whatever kind."""

    key: Key

    def end(self, code: str, message: str) -> None:
        """Tell the client why, and end the stream soon. The stream leaves the registry when it has ended."""


class Registry:
    """Lives in the hub's event loop, whose chores call count, save and check_keys once a second.

    `own` and `others` count streams by holder (a key, or an address): those of this process as of now, and those of the others
    as of the last exchange. `closing` holds the last positions of sessions whose streams have ended and are not written down yet.
    """

    def __init__(self, hub: Hub) -> None:
        self.hub = hub
        self.process = secrets.token_hex(8)
        self.streams: dict[Open, None] = {}
        self.own: Counter[str] = Counter()
        self.others: Counter[str] = Counter()
        self.closing: list[Saved] = []
        self.saving = asyncio.Lock()
        self.refreshed = 0
        drain.before_the_end(self.shut_down, self.busy)
        hub.chores += [self.count, self.save, self.check_keys, outflows.shed]

    # -- How many -----------------------------------------------------------------------------------------------------

    async def enter(self, key: Key) -> None:
        """Count a stream that is about to open. Raises Throttled when there are too many, of this holder or of all."""
        self.own[key.holder] += 1  # before we look: of two that come at once, each is seen by the other
        try:
            if self.near(key):
                await self.count()
            self.check(key)
        except BaseException:
            self.exit(key)
            raise

    def exit(self, key: Key) -> None:
        self.own[key.holder] -= 1

    def check(self, key: Key) -> None:
        check("streams", settings.TOPICS_MAX_STREAMS, self.own.total() + self.others.total() - 1)
        of_key = self.own[key.holder] + self.others[key.holder] - 1
        check("streams_per_key", settings.TOPICS_MAX_STREAMS_PER_KEY, of_key)

    def near(self, key: Key) -> bool:
        """Whether a cap is so near that what the others had a second ago is not good enough."""
        caps = (
            (settings.TOPICS_MAX_STREAMS, self.own.total() + self.others.total()),
            (settings.TOPICS_MAX_STREAMS_PER_KEY, self.own[key.holder] + self.others[key.holder]),
        )
        return any(most and most - count < max(most / 2, 100) for most, count in caps)

    async def count(self) -> None:
        """Tell the others how many streams we have, and then see how many they have.

        In this order, so that of two processes that do this at once, at least one sees the other's new stream.
        """
        if self.own or self.others:
            await self.hub.store.drive(self.exchange())

    def exchange(self) -> Script[None]:
        keys = list(self.own)
        arguments = {"process": self.process, "now": now_ms(), "stale_ms": STALE_MS}
        own = {"keys": keys, "counts": [self.own[key] for key in keys]}
        yield Statement(WRITE_COUNTS, {**arguments, **own})
        self.others = Counter(dict((yield Statement(READ_COUNTS, arguments))))
        yield Statement(FORGET_COUNTS, arguments)
        for key in [key for key in keys if not self.own[key]]:
            del self.own[key]

    # -- How far ------------------------------------------------------------------------------------------------------

    def closed(self, stream: Stream) -> None:
        """A stream has ended: write down at once how far it came, together with those that end with it."""
        self.closing.append(stream.to_save(open=False))
        self.hub.soon(self.save)

    async def save(self) -> None:
        """Write down how far the sessions are. What cannot be written now is kept, and written the next time."""
        # The chore of each second and the streams that end may be here at once. Of two saves that overlap, the one
        # that began first could write the older positions last; so they take turns.
        async with self.saving:
            moved = [s for s in self.streams if isinstance(s, Stream) and s.progress != s.saved_progress][:MOST_SAVES]
            for stream in moved:  # to the end of the line, so that the others are first the next time
                self.streams[stream] = self.streams.pop(stream)
            closing, progress = self.closing[:], [stream.progress for stream in moved]
            if rows := closing + [stream.to_save(open=True) for stream in moved]:
                await self.hub.store.drive(save(rows, now_ms()))
            # Only now: had PostgreSQL been away, the positions would have been lost. While we wrote, more streams may
            # have closed, at the end of the list, and the moved ones may have moved on: the next save is for them.
            del self.closing[: len(closing)]
            for stream, saved in zip(moved, progress, strict=True):
                stream.saved_progress = saved
            if abs(now_ms() - self.refreshed) > REFRESH_MS / 2:  # a clock that went back waits for nothing
                wids = [stream.session.wid for stream in self.streams if isinstance(stream, Stream)]
                await self.hub.store.drive(refresh(wids, now_ms()))
                self.refreshed = now_ms()

    # -- Whose --------------------------------------------------------------------------------------------------------

    async def check_keys(self) -> None:
        """End the streams whose keys were revoked or changed, or whose secrets have expired."""
        if not self.streams:
            return
        await fresh_keys()
        for stream in list(self.streams):
            if not keyring.holds(stream.key):
                stream.end("unauthorized", "the key of this stream was revoked or changed, or has expired")

    def busy(self) -> bool:
        """Whether this process still has something to do for its streams before it may end."""
        return bool(self.own.total() or self.closing or self.saving.locked())

    def shut_down(self) -> None:
        """This process is about to end: end all streams."""
        for stream in list(self.streams):
            stream.end(ShuttingDown.code, "this server is shutting down: connect again, another one answers")


_registry: Registry | None = None


def registry(hub: Hub) -> Registry:
    """Returns the registry of this process, which has one hub."""
    global _registry
    if _registry is None:
        _registry = Registry(hub)
    return _registry

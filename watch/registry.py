"""The open streams of a process: caps, validity of keys, and saved positions of sessions.

The caps cover all processes together. Each process writes its number of streams to PostgreSQL and reads the numbers of the
others.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from typing import Protocol

from django.conf import settings

from base.clock import now_ms
from base.errors import ShuttingDown
from base.per_loop import PerLoop
from store.script import Script, Statement
from watch.hub import Hub, hub
from watch.outflow import outflows
from watch.sessions import REFRESH_MS, Saved, refresh, save
from watch.stream import Stream
from wire.access.entrance import fresh_keys
from wire.access.keys import Key, keyring
from wire.limits import check

MOST_SAVES = 500  # sessions per save
STALE_MS = 10_000  # an older count is ignored, because its process is dead

WRITE_COUNTS = """
INSERT INTO topics_streamcount (process, key_id, count, seen_ts)
SELECT %(process)s, key_id, count, %(now)s FROM unnest(%(keys)s::text[], %(counts)s::int[]) AS own (key_id, count)
    ON CONFLICT (process, key_id) DO UPDATE SET count = excluded.count, seen_ts = excluded.seen_ts
"""
READ_COUNTS = """
SELECT key_id, sum(count) FROM topics_streamcount WHERE process <> %(process)s AND seen_ts > %(now)s::bigint - %(stale_ms)s
 GROUP BY key_id
"""
# Also deletes counts from a clock that was ahead. The row of a dead process would otherwise count until its clock's time. Living
# processes write their counts again each second.
FORGET_COUNTS = """
DELETE FROM topics_streamcount
 WHERE seen_ts NOT BETWEEN %(now)s::bigint - 2 * %(stale_ms)s AND %(now)s::bigint + 2 * %(stale_ms)s
"""


class Open(Protocol):
    """An open stream of any kind."""

    def end(self, code: str, message: str) -> None:
        """Sends the reason to the client and ends the stream soon. The stream leaves the registry after it has ended."""


class Registry:
    """The open streams and their counts. Lives in the hub's event loop. The hub calls count, save and check_keys once a second.

    `streams` has the key of each open stream, or None for a stream of the console, because its user has no key. A WebSocket
    stays there until its last command has ended.
    `own` and `others` count streams by holder (a key or an address). `own` is exact for this process. `others` has the numbers of
    the last exchange. `closing` holds the last positions of sessions whose streams have ended and are not saved yet.
    """

    def __init__(self, hub: Hub) -> None:
        self.hub = hub
        self.process = secrets.token_hex(8)
        self.streams: dict[Open, Key | None] = {}
        self.own: Counter[str] = Counter()
        self.others: Counter[str] = Counter()
        self.closing: list[Saved] = []
        self.saving = asyncio.Lock()
        self.refreshed = 0
        self.hub.chores += [self.count, self.save, self.check_keys, outflows.shed]

    # -- Caps ---------------------------------------------------------------------------------------------------------

    async def enter(self, key: Key) -> None:
        """Counts a stream that is about to open. Raises Throttled if its holder, or all holders together, have too many
        streams."""
        self.own[key.holder] += 1  # before the check, so that of two concurrent streams each sees the other
        try:
            if self.near(key):
                await self.count()
            self.check(key)
        except BaseException:
            self.exit(key)
            raise

    def exit(self, key: Key) -> None:
        self.own[key.holder] -= 1

    @contextlib.asynccontextmanager
    async def place(self, key: Key) -> AsyncIterator[None]:
        """Counts a stream until the block ends. Raises Throttled."""
        await self.enter(key)
        try:
            yield
        finally:
            self.exit(key)

    @contextlib.contextmanager
    def listed(self, stream: Open, key: Key | None) -> Iterator[None]:
        """Lists a stream as open until the block ends."""
        self.streams[stream] = key
        try:
            yield
        finally:
            del self.streams[stream]

    def check(self, key: Key) -> None:
        check("streams", settings.TOPICS_MAX_STREAMS, self.own.total() + self.others.total() - 1)
        of_key = self.own[key.holder] + self.others[key.holder] - 1
        check("streams_per_key", settings.TOPICS_MAX_STREAMS_PER_KEY, of_key)

    def near(self, key: Key) -> bool:
        """Returns True if a cap is near and the others' counts of a second ago are therefore too old."""
        caps = (
            (settings.TOPICS_MAX_STREAMS, self.own.total() + self.others.total()),
            (settings.TOPICS_MAX_STREAMS_PER_KEY, self.own[key.holder] + self.others[key.holder]),
        )
        return any(most and most - count < max(most / 2, 100) for most, count in caps)

    async def count(self) -> None:
        """Writes our counts, and then reads the others' counts.

        If two processes count at once, at least one process sees the other's new stream because of the order.
        """
        if self.own or self.others:
            await self.hub.store.drive(self.exchange())

    def exchange(self) -> Script[None]:
        written = dict(self.own)
        arguments = {"process": self.process, "now": now_ms(), "stale_ms": STALE_MS}
        own = {"keys": list(written), "counts": list(written.values())}
        yield Statement(WRITE_COUNTS, {**arguments, **own})
        self.others = Counter(dict((yield Statement(READ_COUNTS, arguments))))
        yield Statement(FORGET_COUNTS, arguments)
        for key, count in written.items():
            if count == self.own[key] == 0:  # a count that became 0 meanwhile is written the next time
                del self.own[key]

    # -- Positions ----------------------------------------------------------------------------------------------------

    def closed(self, stream: Stream) -> None:
        """Saves the last positions of an ended stream at once, together with the positions of other streams that end now."""
        self.closing.append(stream.to_save(open=False))
        self.hub.soon(self.save)

    def sessions(self) -> list[Stream]:
        """Returns the streams with a stored session."""
        return [each for each in self.streams if isinstance(each, Stream) and each.session.wid]

    async def save(self) -> None:
        """Saves the positions of sessions. After a failure, the next save writes the same positions."""
        # The chore of each second and ending streams may save at once. If two saves overlapped, the earlier save could write
        # older positions last. The lock lets only one save run.
        async with self.saving:
            moved = [each for each in self.sessions() if each.progress != each.saved_progress][:MOST_SAVES]
            for stream in moved:  # to the end of the order, so that the next save starts with the others
                self.streams[stream] = self.streams.pop(stream)
            closing, progress = self.closing[:], [stream.progress for stream in moved]
            if rows := closing + [stream.to_save(open=True) for stream in moved]:
                await self.hub.store.drive(save(rows, now_ms()))
            # Only now, because an error of PostgreSQL would lose the positions. While we saved, more streams may have closed (at
            # the end of the list), and streams may have advanced again. The next save writes those.
            del self.closing[: len(closing)]
            for stream, saved in zip(moved, progress, strict=True):
                stream.saved_progress = saved
            if abs(now_ms() - self.refreshed) > REFRESH_MS / 2:  # abs(), so that a clock that went back delays nothing
                wids = [stream.session.wid for stream in self.sessions()]
                await self.hub.store.drive(refresh(wids, now_ms()))
                self.refreshed = now_ms()

    # -- Keys and shutdown --------------------------------------------------------------------------------------------

    async def check_keys(self) -> None:
        """Ends the streams of keys that were revoked or changed, or that have an expired secret."""
        if not self.streams:
            return
        await fresh_keys()
        for stream, key in list(self.streams.items()):
            if key is not None and not keyring.holds(key):
                stream.end("unauthorized", "the key of this stream was revoked or changed, or has expired")

    def busy(self) -> bool:
        """Returns True if streams of this process are still open or not saved. Then the process must not exit yet."""
        return bool(self.own.total() or self.closing or self.saving.locked())

    def shut_down(self) -> None:
        """Ends all streams, because this process is about to exit."""
        for stream in list(self.streams):
            stream.end(ShuttingDown.code, "this server is shutting down: connect again to another server")


process = PerLoop(lambda: Registry(hub()))
registry = process.here


def shut_down() -> None:
    """Ends all streams, because this process is about to exit."""
    if process.made is not None:
        process.made.shut_down()


def busy() -> bool:
    """Returns True if this process must not exit yet."""
    return process.made is not None and process.made.busy()

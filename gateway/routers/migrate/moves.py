"""The state of moving topics, as one gateway process last saw the state (router.py)."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence

from base.errors import TopicsError
from gateway.api import RouterContext
from gateway.routers import copies
from gateway.routers.migrate.steps import finish

log = logging.getLogger(__name__)
LOOK_SECONDS = 1.0
ABANDONED_SECONDS = (
    # After this time with both topics sealed, the command of the move has died, and this process continues the move.
    5.0
)


class Move:
    """One topic, as this process last saw the topic on both servers."""

    def __init__(self, topic: str, source: str, dest: str) -> None:
        """`source` and `dest` are routes."""
        self.topic, self.source, self.dest = topic, source, dest
        self.live = source
        self.is_copied = False  # the dest is a sealed copy
        self.both_sealed_since: float | None = None
        self.moved = asyncio.Event()

    @property
    def has_moved(self) -> bool:
        return self.live == self.dest

    async def begin_stream(self, context: RouterContext) -> copies.CopiedTopic | None:
        """Returns the source's topic for a new stream, or None. Raises TopicsError.

        A client's position can be above the head of a source whose topic has moved, and the source would start the stream again.
        So a sealed source leads to a look at both servers.
        """
        if self.has_moved:
            return None
        original = await copies.look(context, self.source, self.topic)
        if original is None or original.is_sealed:
            await self.look(context)
        return original

    async def look(self, context: RouterContext) -> None:
        """Reads the state of both servers. Raises TopicsError."""
        if self.has_moved:
            return
        original, copy = await asyncio.gather(
            copies.look(context, self.source, self.topic), copies.look(context, self.dest, self.topic)
        )
        self.is_copied = copy is not None and copy.is_sealed
        now = time.monotonic()
        if copy is not None and not copy.is_sealed and (original is None or original.is_sealed):
            self.live, self.both_sealed_since = self.dest, None
            self.moved.set()
            log.info("Topic %r is now on the route %r", self.topic, self.dest)
        elif original is not None and original.is_sealed and self.is_copied:
            self.both_sealed_since = self.both_sealed_since or now
        else:
            self.both_sealed_since = None


class Moves:
    """The topics of one MigrateRouter."""

    def __init__(self, source: str, dest: str, topics: Sequence[str]) -> None:
        self.source, self.dest = source, dest
        self.topics = {topic: Move(topic, source, dest) for topic in topics}

    async def follow(self, context: RouterContext) -> None:
        """Polls the topics that have not moved, so that streams learn about moves. Finishes a move whose command has died.

        Several gateways can finish a move at once, because each step can be repeated.
        """
        while True:
            for move in [each for each in self.topics.values() if not each.has_moved]:
                try:
                    await move.look(context)
                    since = move.both_sealed_since
                    if since is not None and time.monotonic() - since > ABANDONED_SECONDS:
                        log.warning("The command that moved %r has stopped. This gateway finishes the move", move.topic)
                        await finish(context, move.topic, move.source, move.dest)
                except TopicsError as error:
                    log.warning("Cannot read the state of the move of %r: %s", move.topic, error.message)
            await asyncio.sleep(LOOK_SECONDS)

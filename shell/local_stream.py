"""`tail -f`: a watch stream (watch/stream.py) in this process, which is heard where others send over HTTP.

No web server has to run. The stream stays while PostgreSQL or Redis is away, and then goes on where it was.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.conf import settings
from django.db import connection

from shell.follower import Follower
from shell.printing import LIMIT
from store.script import run
from topics.cache import topic_called
from watch.hub import hub
from watch.sessions import Options, SavedPosition, Session
from watch.stream import Stream
from wire.keys import OPEN

HEARTBEAT_MS = 60_000  # nobody needs one here


def follow(follower: Follower) -> None:
    """Have it hear what comes behind what it knows, until somebody interrupts. Raises what it raises."""
    positions = {name: SavedPosition(run(topic_called(name)).id, seq) for name, seq in follower.seqs.items()}
    # As if it had been there and was deleted: the stream waits for another topic of the name. No topic has this id.
    positions |= {name: SavedPosition(0, 0, gone=True) for name in follower.awaited}
    connection.close()  # a stream has connections of its own
    asyncio.run(stream(follower, positions))


async def stream(follower: Follower, positions: dict[str, SavedPosition]) -> None:
    async def send(message: dict[str, Any]) -> None:
        with interruptible():
            follower.hear(message["body"])

    options = Options(LIMIT, settings.TOPICS_DIFF_BYTES, HEARTBEAT_MS, tags=True)
    # No row in the database: this session ends with its only stream.
    ours = Stream(hub(), Session("", options, positions, stream=1, exact=True), OPEN, send)
    try:
        await ours.begin(None)
        await ours.pump()
    finally:
        ours.close()
        await hub().close()


@contextmanager
def interruptible() -> Iterator[None]:
    """asyncio notes a Ctrl-C and acts on it later: never, while a pipe that nobody reads holds up a write."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)

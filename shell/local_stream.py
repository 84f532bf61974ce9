"""`tail -f` with a watch stream (watch/stream.py) in this process instead of HTTP.

No web server has to run. If PostgreSQL or Redis becomes unavailable, the stream waits and then continues at its position.
"""

from __future__ import annotations

import asyncio
import signal

from django.conf import settings
from django.db import connection

from shell.follower import Follower
from shell.interrupt import on_ctrl_c
from shell.printing import LIMIT
from store.script import run
from topics.cache import topic_called
from topics.read.diff import check_match
from watch.hub import hub
from watch.sessions import Options, SavedPosition, Session
from watch.stream import Stream
from wire.access.keys import OPEN

HEARTBEAT_MS = 60_000  # the maximum, because nothing here needs heartbeats


def follow(follower: Follower) -> None:
    """Passes new records to the follower until Ctrl-C. Raises the follower's errors."""
    positions = {name: SavedPosition(run(topic_called(name)).id, seq) for name, seq in follower.seqs.items()}
    # An absent topic gets the position of a deleted topic, and the stream waits for a topic of the name. No topic has the id 0.
    positions |= {name: SavedPosition(0, 0, gone=True) for name in follower.awaited}
    connection.close()  # the stream has connections of its own
    asyncio.run(stream(follower, positions))


async def stream(follower: Follower, positions: dict[str, SavedPosition]) -> None:
    async def send(data: bytes) -> None:
        # asyncio only notes the signal, so a write to a pipe without a reader would never end.
        with on_ctrl_c(signal.default_int_handler):
            follower.hear(data)

    match = follower.match if follower.match is None or isinstance(follower.match, str) else tuple(follower.match)
    op, literal = check_match(match)
    matches = {} if op is None or literal is None else dict.fromkeys(positions, (op, literal))
    options = Options(LIMIT, settings.TOPICS_DIFF_BYTES, HEARTBEAT_MS, matches=matches, tags=True)
    # No row in the database, because the session ends with its only stream.
    ours = Stream(hub(), Session("", options, positions, stream=1, exact=True), OPEN, send)
    try:
        await ours.begin()
        await ours.run()
    finally:
        ours.close()
        await hub().close()

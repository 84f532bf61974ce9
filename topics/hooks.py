"""Where other apps join in: each name is one place, which its app fills when it starts (apps.py).

The log imports nothing of routers or streams. Without them these do nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from store.script import Script
from topics.cache import CachedTopic
from wire.keys import Key


def _no_script(*_: object) -> Script[None]:
    yield from ()


def _nothing_removed(*_: object) -> Script[list[str]]:
    yield from ()
    return []


def _anything(*_: object) -> None:
    """Every config will do."""


def _nobody(*_: object) -> list[str]:
    return []


async def _at_once(*_: object) -> bool:
    return False


# Before a topic that others forward into is read (topic, now): what was acked upstream before is to be seen.
before_read: Callable[[CachedTopic, int], Script[None]] = _no_script

# Before a topic's config is kept (name, what a full one does, whether it is sealed): raises InvalidRequest where that topic
# cannot do so.
check_config: Callable[[str, str, bool], None] = _anything

# In the transaction that deletes a topic, before its row is locked: whoever changes what names topics is kept away.
before_delete: Callable[[], Script[None]] = _no_script

# In the same transaction, with the row locked and the head not yet (topic id, name, on whose behalf): what names the topic
# goes along. Returns the names of the routers that went.
with_delete: Callable[[int, str, Key], Script[list[str]]] = _nothing_removed

# The names of the routers that name one of these topics (ids): what a page says will go along with them.
named_by: Callable[[list[int]], list[str]] = _nobody

# Comes back when a topic's head is no longer at a seq, when the topic is sealed, or after so many seconds (topic id, seq,
# seconds). Returns whether it is worth waiting again: not when the time is up, or this process is about to end.
until_moved: Callable[[int, int, float], Awaitable[bool]] = _at_once

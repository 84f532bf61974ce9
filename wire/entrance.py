"""The keys, for an event loop. They are read on a thread of their own: no number of requests keeps anybody from coming in."""

from __future__ import annotations

from store.database import translating
from store.threads import Threads
from wire.dialect import Keys
from wire.keys import keyring

_threads = Threads(1, "keys")


async def fresh_keys(keys: Keys = keyring) -> None:
    """Come back when the keys are known as of a second ago. Raises NotReady."""
    if keys.stale:
        with translating():
            await _threads.run(keys.refresh)
    elif keys.aging and not keys.being_read:
        _threads.submit(keys.refresh)

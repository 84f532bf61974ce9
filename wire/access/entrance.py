"""The keys, for an event loop. A separate thread reads them, so authentication works under any number of requests."""

from __future__ import annotations

import asyncio
import time

from base.errors import Unauthorized
from store.database import translating
from store.threads import quick
from wire.access.client import address
from wire.access.keys import OPEN, Key, keyring, open_to
from wire.access.tokens import token_in
from wire.api import Api, Keys

_asked_for: set[Keys] = set()  # keys that the thread reads now or next: only once, for any number of requests
# Requests with unknown keys share one reading of the keys in this time, because a client may guess keys at any rate.
DOUBT_SECONDS = 0.05


async def fresh_keys(keys: Keys = keyring) -> None:
    """Wait until the keys are at most a second old. Raises NotReady."""
    if keys.stale:
        with translating():
            await quick.run(keys.refresh)
    elif keys.aging and keys not in _asked_for:
        _asked_for.add(keys)
        quick.submit(refresh, keys)


def refresh(keys: Keys) -> None:
    """Read the keys again before a request has to wait for it."""
    try:
        keys.refresh()
    finally:
        _asked_for.discard(keys)


async def who(api: Api, peer: str, headers: dict[bytes, bytes]) -> Key:
    """Returns the key behind a request's Authorization header. Raises Unauthorized or NotReady.

    `peer`: the address of the connection.
    """
    authorization = headers.get(b"authorization")
    given = authorization.decode("latin-1") if authorization else None
    if api.keys.aging:
        await fresh_keys(api.keys)
    try:
        return counted(api.keys.authenticate(given), peer, headers)
    except Unauthorized:
        if api.revalidate is None or given is None:
            raise
        came = time.monotonic()
        await asyncio.sleep(DOUBT_SECONDS)
        api.revalidate(came)
        await fresh_keys(api.keys)
        return counted(api.keys.authenticate(given), peer, headers)


async def who_follows(query: bytes, peer: str, headers: dict[bytes, bytes]) -> Key:
    """Returns the key of a stream's request, from the header or from ?token=, because a browser's `EventSource` and `WebSocket`
    can send no header. Raises Unauthorized or NotReady."""
    await fresh_keys()
    authorization = headers.get(b"authorization")
    given = authorization.decode("latin-1") if authorization else None
    if given is None:
        token, _ = token_in(query.decode("latin-1"))
        given = f"Bearer {token}" if token else None
    return counted(keyring.authenticate(given), peer, headers)


async def check_still(key: Key) -> None:
    """Raises Unauthorized if a request that has waited would no longer be authenticated as exactly this key. Raises NotReady."""
    await fresh_keys()
    if not keyring.holds(key):
        raise Unauthorized(
            "the key of this request was revoked or changed, or has expired, while it waited: use another key"
        )


def counted(key: Key, peer: str, headers: dict[bytes, bytes]) -> Key:
    """Returns the key for the caps. If no key is needed, each address counts separately."""
    return open_to(address(peer, headers)) if key is OPEN else key

"""Authentication for the console's streams: Django's session and permissions, queried in a thread."""

from __future__ import annotations

from typing import Any

from base.errors import Forbidden, Unauthorized
from store.threads import pages
from wire.access.keys import Key
from wire.access.visitors import staff
from wire.process import shutdown
from wire.streams import StreamCall


def visitor(cookie: str, permission: str) -> Any:
    """Returns the user of a session with this permission. Raises Unauthorized or Forbidden. Runs queries."""
    user = staff(cookie)
    if user is None:
        raise Unauthorized("no login: log in to the admin first")
    if not user.has_perm(permission):
        raise Forbidden(f"your account lacks the permission {permission}")
    return user


async def enter(call: StreamCall, permission: str) -> Key:
    """Returns a key that stands for the logged-in user of a request, for the caps. Raises TopicsError unless the user has this
    permission."""
    shutdown.check()
    cookie = call.headers.get(b"cookie", b"").decode("latin-1")
    user = await pages.run(visitor, cookie, permission)
    return Key(f"user:{user.pk}", frozenset(("read",)))

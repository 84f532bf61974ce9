"""Who is logged in, for what is served in plain ASGI: Django's session and permissions, looked up in a thread."""

from __future__ import annotations

from typing import Any

from base.errors import Forbidden, MethodNotAllowed, Unauthorized
from store.threads import Threads
from wire.visitors import staff

_threads: Threads | None = None


def threads() -> Threads:
    """The threads of this process for the console's streams: what they ask takes milliseconds, and two take turns."""
    global _threads
    if _threads is None:
        _threads = Threads(2, "console")
    return _threads


def visitor(cookie: str, permission: str) -> Any:
    """The user of a session who may do this. Raises Unauthorized or Forbidden. Runs queries."""
    user = staff(cookie)
    if user is None:
        raise Unauthorized("log in to the admin first")
    if not user.has_perm(permission):
        raise Forbidden(f"your account lacks the permission {permission}")
    return user


async def enter(scope: dict[str, Any], permission: str) -> Any:
    """Who asks for a page's stream: somebody who is logged in and may. Raises TopicsError."""
    if scope["method"] != "GET":
        raise MethodNotAllowed(f"a stream is asked for by GET, not {scope['method']}")
    cookie = dict(scope["headers"]).get(b"cookie", b"").decode("latin-1")
    return await threads().run(visitor, cookie, permission)

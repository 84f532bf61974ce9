"""Authentication for streams in plain ASGI: Django's session and permissions, queried in a thread."""

from __future__ import annotations

from typing import Any

from base.errors import Forbidden, MethodNotAllowed, Unauthorized
from store.threads import pages
from wire.visitors import staff


def visitor(cookie: str, permission: str) -> Any:
    """Returns the user of a session with this permission. Raises Unauthorized or Forbidden. Runs queries."""
    user = staff(cookie)
    if user is None:
        raise Unauthorized("no login: log in to the admin first")
    if not user.has_perm(permission):
        raise Forbidden(f"your account lacks the permission {permission}")
    return user


async def enter(scope: dict[str, Any], permission: str) -> Any:
    """Returns the logged-in user of the request if the user has this permission. Raises TopicsError."""
    if scope["method"] != "GET":
        raise MethodNotAllowed(f"this path does not take {scope['method']}: send GET for a stream")
    cookie = dict(scope["headers"]).get(b"cookie", b"").decode("latin-1")
    return await pages.run(visitor, cookie, permission)

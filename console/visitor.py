"""Who is logged in, for what is served in plain ASGI: Django's session and permissions, looked up in a thread."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user
from django.contrib.auth.base_user import AbstractBaseUser
from django.http import HttpRequest
from django.http.cookie import parse_cookie

from base.errors import Forbidden, MethodNotAllowed, Unauthorized
from store.database import mend
from store.threads import Threads

_threads: Threads | None = None


def threads() -> Threads:
    """The threads of this process for the console's streams: what they ask takes milliseconds, and two take turns."""
    global _threads
    if _threads is None:
        _threads = Threads(2, "console")
    return _threads


def visitor(cookie: str, permission: str) -> Any:
    """The user of a session who may do this. Raises Unauthorized or Forbidden. Runs queries."""
    mend()
    request = HttpRequest()
    session_id = parse_cookie(cookie).get(settings.SESSION_COOKIE_NAME)
    request.session = import_module(settings.SESSION_ENGINE).SessionStore(session_id)
    user: AbstractBaseUser | Any = get_user(request)
    if not (session_id and user.is_active and getattr(user, "is_staff", False)):
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

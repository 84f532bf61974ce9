"""Authenticates visitors of the admin before the server reads their forms."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user
from django.http import HttpRequest
from django.http.cookie import parse_cookie

from store.database import mend


def staff(cookie: str) -> Any:
    """Returns the user of the session in a Cookie header, or None if the user may not log in to the admin. Runs queries."""
    session_id = parse_cookie(cookie).get(settings.SESSION_COOKIE_NAME)
    if not session_id:
        return None
    mend()
    request = HttpRequest()
    request.session = import_module(settings.SESSION_ENGINE).SessionStore(session_id)
    visitor = get_user(request)
    return visitor if visitor.is_active and getattr(visitor, "is_staff", False) else None


def may_administer(cookie: str) -> bool:
    """Returns whether the user of the session in a Cookie header may log in to the admin. Runs queries."""
    return staff(cookie) is not None

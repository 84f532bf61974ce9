"""Authenticates visitors of the admin before the server reads their forms, and gives them a key for the browsable API."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user
from django.http import HttpRequest
from django.http.cookie import parse_cookie

from store.database import mend
from wire.access.keys import Key

# The scopes of operators in the browsable API: the permissions that the console asks for, all of them.
PERMISSIONS = {
    "read": ("topics.view_topic", "topics.view_cursor", "routers.view_router"),
    "write": ("console.append_record",),
    "commit": ("topics.change_cursor",),
    "delete": ("topics.delete_topic", "topics.delete_cursor", "routers.delete_router"),
    "webhooks": ("push.view_webhook", "push.add_webhook", "push.change_webhook", "push.delete_webhook"),
    "admin": (
        "topics.add_topic",
        "topics.change_topic",
        "topics.change_cursor",
        "routers.add_router",
        "routers.change_router",
    ),
}


def staff(cookie: str) -> Any:
    """Returns the user of the session in a Cookie header, or None if the user may not log in to the admin. Runs queries."""
    session_id = parse_cookie(cookie).get(settings.SESSION_COOKIE_NAME)
    if not session_id:
        return None
    mend()
    request = HttpRequest()
    request.session = import_module(settings.SESSION_ENGINE).SessionStore(session_id)
    visitor = get_user(request)
    return visitor if is_operator(visitor) else None


def is_operator(user: Any) -> bool:
    """Returns whether a user may log in to the admin."""
    return user.is_active and getattr(user, "is_staff", False)


def may_administer(cookie: str) -> bool:
    """Returns whether the user of the session in a Cookie header may log in to the admin. Runs queries."""
    return staff(cookie) is not None


def key_of(user: Any) -> Key:
    """Returns the key that stands for a logged-in user. The audit log shows the user."""
    scopes = frozenset(scope for scope, needed in PERMISSIONS.items() if user.has_perms(needed))
    return Key(f"user:{user.pk}", scopes, name=user.get_username())

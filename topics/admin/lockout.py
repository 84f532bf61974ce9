"""Finds changes of keys that would leave no key to write or no key to configure. The pages of keys then ask for confirmation.

Without any key, the server accepts every request. With the first key, it refuses requests without a key.
"""

from __future__ import annotations

from collections.abc import Iterable

from django.conf import settings

from base.clock import now_ms
from topics.models import ApiKey
from wire.access.keys import parse_keys

NEEDED = {"write": "append", "admin": "create or configure topics, cursors and routers"}


def kept() -> list[ApiKey]:
    """Returns the admin's keys, which are few, without their secrets."""
    return list(ApiKey.objects.defer("secret_sha256", "previous_sha256"))


def not_held(keys: Iterable[ApiKey]) -> set[str]:
    """Returns the scopes of `write` and `admin` that no client would have.

    `keys` are the admin's keys. The keys of the environment count, too.
    """
    fixed, keys = parse_keys(settings.TOPICS_API_KEYS), list(keys)
    if not fixed and not keys:
        return set()
    now = now_ms()
    valid = [key for key in keys if key.revoked_ts is None and (key.expires_ts is None or key.expires_ts > now)]
    held = {scope for key in fixed.values() for scope in key.scopes}
    return {scope for scope in NEEDED if scope not in held and not any(getattr(key, scope) for key in valid)}


def lost(before: Iterable[ApiKey], after: Iterable[ApiKey]) -> list[str]:
    """Returns, in words, the actions that clients can do with the keys `before`, but not with the keys `after`."""
    return [NEEDED[scope] for scope in NEEDED if scope in not_held(after) - not_held(before)]

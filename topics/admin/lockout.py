"""Whether a change of keys would leave nobody who may write, or nobody who may configure: the pages of keys then ask first.

Without any key everybody may do everything. From the first one on, whoever shows none is refused.
"""

from __future__ import annotations

from collections.abc import Iterable

from django.conf import settings

from base.clock import now_ms
from topics.models import ApiKey
from wire.keys import parse_keys

NEEDED = {"write": "append", "admin": "create or configure topics, cursors and routers"}


def kept() -> list[ApiKey]:
    """The admin's keys, without their secrets. There are few."""
    return list(ApiKey.objects.defer("secret_sha256", "previous_sha256"))


def not_held(keys: Iterable[ApiKey]) -> set[str]:
    """Of `write` and `admin`, what nobody could do any more if these were the admin's keys, beside those of the environment."""
    fixed, keys = parse_keys(settings.TOPICS_API_KEYS), list(keys)
    if not fixed and not keys:
        return set()
    now = now_ms()
    valid = [key for key in keys if key.revoked_ts is None and (key.expires_ts is None or key.expires_ts > now)]
    held = {scope for key in fixed.values() for scope in key.scopes}
    return {scope for scope in NEEDED if scope not in held and not any(getattr(key, scope) for key in valid)}


def lost(before: Iterable[ApiKey], after: Iterable[ApiKey]) -> list[str]:
    """What somebody may do now and nobody could do then, in words."""
    return [NEEDED[scope] for scope in NEEDED if scope in not_held(after) - not_held(before)]

"""What the answers of /v0/routers look like, field by field (docs/wire.md)."""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

from wire.schema import Clamped, Performance


class RouterSettings(msgspec.Struct, kw_only=True):
    """A router's config. `filter` as it was given, a bare string as its Eq."""

    router: str
    source: str
    dest: str
    preserve_node: bool
    preserve_tag: bool
    filter: list[str] | None
    allow_cycle: bool
    guarantee: Literal["at_least_once", "exactly_once"]
    allow_fan_in: bool
    paused: bool


class RouterShown(RouterSettings, kw_only=True):
    """A router, how far it has come and what keeps it."""

    forwarded_total: int
    cursor: int
    lag: int
    oldest_unread_ms: int | None
    state: Literal["running", "paused", "blocked"]
    stalled: bool
    last_error: str | None


class PutRouterAnswer(RouterSettings, kw_only=True):
    created: bool
    performance: Performance


class RouterAnswer(RouterShown, kw_only=True):
    performance: Performance


class RoutersAnswer(msgspec.Struct, kw_only=True):
    routers: list[RouterShown]
    next_cursor: str | UnsetType = UNSET
    clamped: Clamped = UNSET
    performance: Performance


class DeleteRouterAnswer(msgspec.Struct, kw_only=True):
    router: str
    deleted: bool
    performance: Performance

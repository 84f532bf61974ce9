"""What the answers of /v0/routers look like, field by field (docs/wire.md)."""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import UNSET

from wire.paging import NextCursor
from wire.schema import Clamped, Performance


class RouterSettings(msgspec.Struct, kw_only=True):
    """A router's config. `filter` as it was given, a bare string as its Eq."""

    router: str
    """The router's name."""
    source: str
    """The topic that it forwards from."""
    dest: str
    """The topic that it forwards to."""
    preserve_node: bool
    """Whether copies have the `$node` of their record."""
    preserve_tag: bool
    """Whether copies have the `$tag` of their record."""
    filter: list[str] | None
    """Only records with such a tag, as `["tag", "Eq" or "Glob", "…"]`; null: all."""
    allow_cycle: bool
    """Whether it may close a cycle."""
    guarantee: Literal["at_least_once", "exactly_once"]
    """`exactly_once` stamps each copy with where it came from; both forward each record once."""
    allow_fan_in: bool
    """Whether its dest may have other sources."""
    paused: bool
    """Whether it rests."""


class RouterShown(RouterSettings, kw_only=True):
    """A router, how far it has come and what keeps it."""

    forwarded_total: int
    """Records that it has forwarded."""
    cursor: int
    """The last seq of its source that it looked at."""
    lag: int
    """The source's head minus `cursor`, computed now."""
    oldest_unread_ms: int | None
    """Milliseconds since the first record that waits was appended; null where none does."""
    state: Literal["running", "paused", "blocked"]
    """`blocked`: it cannot go on, and `last_error` says why; it tries again by itself."""
    stalled: bool
    """Whether it is behind, is not paused, and nobody moves it."""
    last_error: str | None
    """Why it is blocked; null where it is not."""


class PutRouterAnswer(RouterSettings, kw_only=True):
    created: bool
    """False: the router was there before."""
    performance: Performance


class RouterAnswer(RouterShown, kw_only=True):
    performance: Performance


class RoutersAnswer(msgspec.Struct, kw_only=True):
    routers: list[RouterShown]
    """The routers of this page, by name."""
    next_cursor: NextCursor = UNSET
    clamped: Clamped = UNSET
    performance: Performance


class DeleteRouterAnswer(msgspec.Struct, kw_only=True):
    router: str
    """The router's name."""
    deleted: bool
    """False: there was none."""
    performance: Performance

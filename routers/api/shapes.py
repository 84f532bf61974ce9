"""Field by field, the answers of /v0/routers (docs/wire.md)."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta

from contract.names import NamedRouter, NamedTopic
from routers.routers import Guarantee
from wire.paging import NextCursor
from wire.schema import Clamped, Performance

RouterState = Annotated[Literal["running", "paused", "blocked"], Meta(title="RouterState")]


class RouterSettings(msgspec.Struct, kw_only=True):
    """A router's config. `filter` always has the full form: a bare string in a PUT is shown as `Eq`."""

    router: NamedRouter
    """The router's name."""
    source: NamedTopic
    """The topic that the router forwards from."""
    dest: NamedTopic
    """The topic that the router forwards to."""
    preserve_node: bool
    """Whether copies keep the `$node` of the original record."""
    preserve_tag: bool
    """Whether copies keep the `$tag` of the original record."""
    filter: list[str] | None
    """Forwards only records with a matching tag: `["tag", "Eq" or "Glob", "…"]`. Null: all records."""
    allow_cycle: bool
    """Whether the router may close a cycle."""
    guarantee: Guarantee
    """`exactly_once` stamps each copy with its origin. Both guarantees forward each record once."""
    allow_fan_in: bool
    """Whether the dest may have other sources."""
    paused: bool
    """Whether the router is paused."""


class RouterShown(RouterSettings, kw_only=True):
    """A router's config, position, lag and state."""

    forwarded_total: int
    """Number of records forwarded by this router."""
    cursor: int
    """The last seq of the source that the router has examined."""
    lag: int
    """The source's head minus `cursor`, computed at the call."""
    oldest_unread_ms: int | None
    """Milliseconds since the oldest waiting record was appended. Null if no record waits."""
    state: RouterState
    """`blocked`: the router cannot forward, and `last_error` says why. The server retries automatically."""
    stalled: bool
    """Whether the router lags, is not paused, and its cursor has not advanced for 10 s."""
    last_error: str | None
    """Why the router is blocked. Null if it is not blocked."""


class PutRouterAnswer(RouterSettings, kw_only=True):
    created: bool
    """False: the router existed before."""
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
    router: NamedRouter
    """The router's name."""
    deleted: bool
    """False: the router did not exist."""
    performance: Performance

"""/v0/routers (docs/routers.md): put, get, list, delete. A router's name, source and dest must be within the key's prefixes."""

from __future__ import annotations

from typing import Any

from base.clock import now_ms
from base.errors import Incompatible, RouterCycle, RouterNotFound, TopicNotFound
from base.names import check_router_name
from contract.names import NamedTopic
from contract.operations import Operation
from routers.api.shapes import DeleteRouterAnswer, PutRouterAnswer, RouterAnswer, RoutersAnswer, RouterShown
from routers.lag import Lagging, lagging
from routers.routers import RouterConfig, delete_router, put_router
from routers.stored import StoredRouter, absent, find, page_of_routers
from store.script import Script
from wire.answer import Answer
from wire.endpoint import Call, Endpoint
from wire.paging import PageQuery

TAG = "routers"


def shown(router: StoredRouter, lag: Lagging) -> dict[str, Any]:
    return {
        **router.config(),
        "forwarded_total": router.forwarded_total,
        "cursor": router.seq,
        "lag": lag.lag,
        "oldest_unread_ms": lag.oldest_unread_ms,
        "state": router.state,
        "stalled": lag.stalled,
        "last_error": router.last_error,
    }


@Endpoint(
    Operation.PUT_ROUTER,
    scope="admin",
    body=RouterConfig,
    answers={200: PutRouterAnswer, 201: PutRouterAnswer},
    errors=(TopicNotFound, RouterCycle, Incompatible),
    tag=TAG,
    example={"source": "example-orders", "dest": "example-audit", "from": "earliest"},
    needs_body=True,
)
def put(call: Call[RouterConfig, None], router: str) -> Script[Answer]:
    """Create a router, or change its config."""
    config = call.body
    call.key.check_name(config.source)
    call.key.check_name(config.dest)
    done = yield from put_router(router, config, now_ms(), call.key)
    answer = PutRouterAnswer(created=done.created, **done.router.config(), performance=call.performance())
    return call.answer(answer, status=201 if done.created else 200)


@Endpoint(Operation.GET_ROUTER, scope="read", answers={200: RouterAnswer}, errors=(RouterNotFound,), tag=TAG)
def get(call: Call[None, None], router: str) -> Script[Answer]:
    """Get a router's config, position, lag and state."""
    found = yield from find(router)
    found.check_ends(call.key)
    lag = yield from lagging([found.id], now_ms())
    if found.id not in lag:  # deleted since we found it
        raise absent(router)
    return call.answer(RouterAnswer(**shown(found, lag[found.id]), performance=call.performance()))


@Endpoint(
    Operation.DELETE_ROUTER,
    scope="delete",
    answers={200: DeleteRouterAnswer},
    tag=TAG,
    names={"router": "example-no-longer-wanted"},
)
def delete(call: Call[None, None], router: str) -> Script[Answer]:
    """Stop forwarding at once and delete the router. Forwarded records stay in the dest."""
    deleted = yield from delete_router(check_router_name(router), call.key)
    return call.answer(DeleteRouterAnswer(router=router, deleted=deleted, performance=call.performance()))


class RoutersQuery(PageQuery):
    prefix: str = ""
    """Only routers whose name starts with this prefix."""
    source: NamedTopic | None = None
    """Only routers with this topic as source."""
    dest: NamedTopic | None = None
    """Only routers with this topic as dest."""


@Endpoint(
    Operation.LIST_ROUTERS,
    scope="read",
    query=RoutersQuery,
    answers={200: RoutersAnswer},
    tag=TAG,
    instead="PUT /v0/routers/:router creates a router",
)
def list_routers(call: Call[None, RoutersQuery]) -> Script[Answer]:
    """List the routers within the key's prefixes, sorted by name."""
    wanted = call.query
    (after,) = wanted.after()
    found = yield from page_of_routers(wanted.prefix, wanted.source, wanted.dest, after, wanted.size + 1, call.key)
    page, following = wanted.page(found, lambda router: (router.name,))
    lag = yield from lagging([router.id for router in page], now_ms())
    rows = [RouterShown(**shown(router, lag[router.id])) for router in page if router.id in lag]
    return call.answer(
        RoutersAnswer(routers=rows, next_cursor=following, clamped=wanted.clamped, performance=call.performance())
    )

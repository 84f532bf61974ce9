"""/v0/routers (seeds/000): put, get, list, delete."""

from __future__ import annotations

from typing import Any

from django.db.models import Q, QuerySet
from rest_framework.request import Request
from rest_framework.response import Response

from base.clock import now_ms
from base.names import check_router_name
from routers.api.shapes import DeleteRouterAnswer, PutRouterAnswer, RouterAnswer, RoutersAnswer
from routers.lag import Lagging, lagging
from routers.models import Router
from routers.routers import RouterConfig, check_ends, config_of, delete_router, find, put_router
from wire.endpoint import Endpoint
from wire.paging import PageQuery, next_cursor
from wire.schema import operation

TAG = "routers"


class RoutersQuery(PageQuery):
    prefix: str = ""
    source: str | None = None
    dest: str | None = None


def shown(router: Router, lag: Lagging) -> dict[str, Any]:
    return {
        **config_of(router),
        "forwarded_total": router.cursor.forwarded_total,
        "cursor": router.cursor.seq,
        "lag": lag.lag,
        "oldest_unread_ms": lag.oldest_unread_ms,
        "state": router.state,
        "stalled": lag.stalled,
        "last_error": router.last_error,
    }


class RouterEndpoint(Endpoint):
    """/v0/routers/:router. A key's prefixes bind the router's name, its source and its dest."""

    @operation(
        "put_router", body=RouterConfig, answers={200: PutRouterAnswer, 201: PutRouterAnswer}, errors=(409,), tag=TAG
    )
    def put(self, request: Request, router: str) -> Response:
        """Create a router, or change its config."""
        self.check(router, "admin")
        config = self.body(RouterConfig)
        self.key.check_name(config.source)
        self.key.check_name(config.dest)
        put = put_router(router, config, now_ms(), self.key)
        answer = {"router": router, "created": put.created, **config_of(put.router)}
        return self.answer(answer, status=201 if put.created else 200)

    @operation("get_router", answers={200: RouterAnswer}, tag=TAG)
    def get(self, request: Request, router: str) -> Response:
        """A router, how far it has come and what keeps it."""
        self.check(router, "read")
        found = find(check_router_name(router))
        check_ends(found, self.key)
        return self.answer(shown(found, lagging([found.pk], now_ms())[found.pk]))

    @operation("delete_router", answers={200: DeleteRouterAnswer}, tag=TAG)
    def delete(self, request: Request, router: str) -> Response:
        """Stop forwarding at once and remove the router; what it forwarded stays."""
        self.check(router, "delete")
        return self.answer({"router": router, "deleted": delete_router(check_router_name(router), self.key)})


class RouterList(Endpoint):
    """GET /v0/routers, by name, filtered by prefix, source, dest and the key's prefixes."""

    @operation("list_routers", query=RoutersQuery, answers={200: RoutersAnswer}, tag=TAG)
    def get(self, request: Request) -> Response:
        """Routers by name, those within the key's prefixes."""
        self.key.check("read")
        asked = self.query(RoutersQuery)
        (after,) = asked.after()
        routers = list(self.wanted(asked).filter(name__gt=after).order_by("name")[: asked.size + 1])
        lag = lagging([router.pk for router in routers], now_ms())
        rows = [shown(router, lag[router.pk]) for router in routers if router.pk in lag]
        answer: dict[str, Any] = {"routers": rows[: asked.size]}
        if len(routers) > asked.size:
            answer["next_cursor"] = next_cursor(routers[asked.size - 1].name)
        return self.answer(answer)

    def wanted(self, asked: RoutersQuery) -> QuerySet[Router]:
        routers = Router.objects.select_related("source", "dest", "cursor").filter(name__startswith=asked.prefix)
        if asked.source is not None:
            routers = routers.filter(source__name=asked.source)
        if asked.dest is not None:
            routers = routers.filter(dest__name=asked.dest)
        for field in ("name", "source__name", "dest__name"):
            mine = Q()
            for allowed in self.key.prefixes:
                mine |= Q(**{f"{field}__startswith": allowed})
            routers = routers.filter(mine)
        return routers

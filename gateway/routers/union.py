"""UnionRouter: the topics of all routes, prefixed by the route's name. `eu.orders` is the topic `orders` of the route `eu`."""

from __future__ import annotations

from functools import partial
from typing import ClassVar

import msgspec

from base.errors import InvalidRequest, NotReady, TopicNotFound
from gateway.api import (
    NoConfig,
    Operation,
    Request,
    Response,
    RouterContext,
    RouterFactoryContext,
    RouterResponse,
    without,
)
from gateway.blocks import Listed, begin_watches, gather, joined_stream, merged_list, wants_partial, without_partial
from gateway.errors import NotOffered, UnknownRoute
from gateway.rewrite.identifiers import parameter, with_parameter
from gateway.rewrite.names import (
    BUS,
    OF_ROUTERS,
    UNKNOWN,
    Raws,
    Renaming,
    of_owner,
    prefixed_at_client,
    quotable,
    raw,
    renamed_request,
    renamed_response,
)

SEPARATOR = "."
# Calls that each server answers only about itself.
OF_ONE = frozenset((Operation.SCHEMA, Operation.DOCS, Operation.OPTIONS))


class Union:
    """The routes of one virtual cluster, longest name first, because one route's name can be a prefix of another's."""

    def __init__(self, routes: list[str]) -> None:
        self.routes = sorted(routes, key=len, reverse=True)
        self.renamings = {route: prefixed_at_client(route + SEPARATOR) for route in routes}

    def route(self, name: str) -> str | None:
        for route in self.routes:
            if name.startswith(route) and name[len(route) : len(route) + 1] == SEPARATOR:
                return route
        return None


class UnionRouter:
    def __init__(self, union: Union) -> None:
        self.union = union

    async def on_request(self, operation: Operation, request: Request, context: RouterContext) -> RouterResponse:
        return context.respond_with(await self.answer(operation, request, context))

    async def answer(self, operation: Operation, request: Request, context: RouterContext) -> Response:
        """Returns the answer to a request. Raises TopicsError."""
        if context.virtual_node is not None:
            return await context.send_request(context.virtual_node, request)
        if operation in (Operation.LIST_TOPICS, Operation.LIST_ROUTERS):
            return await self.list(operation, request, context)
        if operation is Operation.WATCH:
            return await self.watch(request, context)
        if operation is Operation.FOLLOW_WATCH:
            return await joined_stream(context, request, self.union.renamings)
        if operation in (Operation.GET_HEALTH, Operation.GET_READY):
            return await self.probe(request, context)
        if operation in OF_ONE:
            return await context.send_request(context.any_node(self.union.routes[-1]), request)
        if request.topic is None and operation not in OF_ROUTERS:
            raise NotOffered(
                operation.value,
                "the call concerns one server, and this address has several: ask a node of GET /v0/nodes",
            )
        name = request.topic if request.topic is not None else request.name or ""
        route = self.union.route(name)
        if route is None:
            raise self.no_route(operation, name)
        if operation is Operation.PUT_ROUTER:
            await self.check_one_server(route, request)
        renaming = self.union.renamings[route]
        inner = await renamed_request(request, renaming)
        send = partial(context.send_request, context.any_node(route))
        response = await of_owner(request, await send(inner), renaming, send)
        return await renamed_response(operation, response, renaming, await quotable(inner, response))

    async def probe(self, request: Request, context: RouterContext) -> Response:
        """Returns the answer of all routes to a probe. Raises NotReady with the routes that failed."""
        asked = without_partial(request)
        asked = asked.replace(headers=without(asked.headers, b"accept-encoding"))
        found = await gather(context, dict.fromkeys(self.union.routes, asked))
        failed = sorted(
            {*found.errors, *(route for route, response in found.answers.items() if response.status != 200)}
        )
        if failed:
            raise NotReady(f"not ready: {', '.join(failed)}", routes=failed)
        if request.method == "HEAD":
            return found.answers[self.union.routes[-1]]
        told = [await response.decoded() for response in found.answers.values()]
        body = told[-1]
        if "topics" in body:
            body["topics"] = sum(each["topics"] for each in told)
        if degraded := sorted({part for each in told for part in each.get("degraded", ())}):
            body["degraded"] = degraded
        return Response.json(200, body)

    def no_route(self, operation: Operation, name: str) -> Exception:
        names = ", ".join(route + SEPARATOR for route in sorted(self.union.routes))
        message = f"unknown server in {name!r}: expected a name with one of the prefixes {names}"
        return TopicNotFound(message, topic=name) if operation.is_read else UnknownRoute(message, topic=name)

    async def check_one_server(self, route: str, request: Request) -> None:
        """Checks that a router's topics are on the router's server, because a router copies within one server.

        Raises InvalidRequest.
        """
        body = await request.json()
        for key in ("source", "dest"):
            name = body.get(key)
            if isinstance(name, str) and self.union.route(name) != route:
                raise InvalidRequest(
                    f"{key} {name!r} is on another server than the router:"
                    f" expected the prefix {route + SEPARATOR!r} in name, source and dest",
                    field=key,
                )

    async def list(self, operation: Operation, request: Request, context: RouterContext) -> Response:
        key, name = ("topics", "topic") if operation is Operation.LIST_TOPICS else ("routers", "router")
        prefix = parameter(request.query, "prefix") or ""
        parts = {}
        for route, renaming in self.union.renamings.items():
            inner = self.inner_prefix(route, prefix)
            if inner is None:
                continue
            asked = without_partial(request)
            asked = asked.replace(query=with_parameter(asked.query, "prefix", inner or None))
            try:
                asked = await renamed_request(asked, renaming)
            except InvalidRequest:
                continue  # `source` or `dest` is a topic of another route
            parts[route] = Listed(asked, partial(renamed_response, operation, renaming=renaming))
        if not parts:
            return Response.json(200, {key: [], "performance": {"server_total_ms": 0.0}})
        return await merged_list(context, request, parts, key, name)

    def inner_prefix(self, route: str, prefix: str) -> str | None:
        """Translates a prefix of the client's names to the route's own names.

        Returns None if no name of the route has the prefix.
        """
        own = route + SEPARATOR
        if prefix.startswith(own):
            return prefix[len(own) :]
        return "" if own.startswith(prefix) else None

    async def watch(self, request: Request, context: RouterContext) -> Response:
        body = await request.json(Raws)
        try:
            topics: Raws = msgspec.json.decode(body.get("topics", b"{}"), type=Raws)
        except msgspec.MsgspecError:
            topics = {}
        by_route: dict[str, Raws] = {}
        is_lenient = parameter(request.query, "lenient") in ("true", "1")
        for name, start in topics.items():
            route = self.union.route(name)
            if route is not None:
                by_route.setdefault(route, {})[name] = start
            elif not is_lenient:
                raise self.no_route(Operation.WATCH, name)
        if not by_route:
            if topics:
                raise self.no_route(Operation.WATCH, next(iter(topics)))
            by_route = {self.union.routes[-1]: {}}  # the server reports the error
        requests: dict[str, tuple[Request, Renaming]] = {}
        plain = without_partial(request)
        for route, own in by_route.items():
            renaming = self.union.renamings[route]
            one = plain.replace(body=msgspec.json.encode({**body, "topics": raw(own)} if topics else body))
            requests[route] = await renamed_request(one, renaming), renaming
        return await begin_watches(context, requests, partial=wants_partial(request), lenient=is_lenient)

    def explain(self, request: Request) -> str:
        route = self.union.route(request.topic or request.name or "")
        return "every route takes part" if route is None else f"the name has the prefix {route + SEPARATOR!r}"


class UnionRouterFactory:
    """Offers the topics of all routes, prefixed by the route's name: `eu.orders`."""

    offers_not: ClassVar = {
        **UNKNOWN,
        Operation.GET_METRICS: "several servers have separate counters: ask each node of GET /v0/nodes",
        **dict.fromkeys(BUS, "several servers have separate push buses: ask each node of GET /v0/nodes"),
    }

    def initialize(self, context: RouterFactoryContext, config: NoConfig) -> Union:
        return Union(list(context.route_names))

    def create_router(self, context: RouterFactoryContext, data: Union) -> UnionRouter:
        return UnionRouter(data)

"""TopicRouter: chooses the route by the topic in the path. The exact name wins, then the longest prefix, then the default."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

import msgspec
import yaml

from base.errors import InvalidRequest
from gateway.api import (
    Operation,
    PluginConfigError,
    Request,
    RouterContext,
    RouterFactoryContext,
    RouterResponse,
)
from gateway.errors import UnknownRoute
from gateway.watched_file import WatchedFile


class Table(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """The routes of topics.

    `topics`: by exact name. `prefixes`: by prefix of the name. `default`: for all other topics, and calls without a topic.
    Without a default these calls are refused.
    """

    topics: dict[str, str] = {}
    prefixes: dict[str, str] = {}
    default: str | None = None


class TopicRouterConfig(Table, rename="camel"):
    """The table, or `tableFile`: a YAML file with the same three keys, which is read again after changes."""

    table_file: str | None = None


class Lookup:
    """A table with lookups. Raises ValueError for a route that the router does not have."""

    def __init__(self, table: Table, routes: Sequence[str]) -> None:
        named = {
            "topics": table.topics.values(),
            "prefixes": table.prefixes.values(),
            "default": [table.default or routes[0]],
        }
        for key, names in named.items():
            for name in names:
                if name not in routes:
                    raise ValueError(f"{key}: route {name!r} does not exist: expected one of {', '.join(routes)}")
        self.table = table
        self.prefixes = sorted(table.prefixes, key=len, reverse=True)
        self.route = lru_cache(4096)(self.find)

    def find(self, topic: str) -> str | None:
        """Returns the route of a topic, or None if no entry matches."""
        table = self.table
        if topic in table.topics:
            return table.topics[topic]
        return next((table.prefixes[prefix] for prefix in self.prefixes if topic.startswith(prefix)), table.default)


def parsed(text: str, routes: Sequence[str]) -> Lookup:
    """Returns the table in a file's text. Raises ValueError."""
    try:
        return Lookup(msgspec.convert(yaml.safe_load(text) or {}, Table), routes)
    except (yaml.YAMLError, msgspec.ValidationError) as error:
        raise ValueError(" ".join(str(error).split())) from error


class TopicRouter:
    def __init__(self, table: Lookup | WatchedFile[Lookup]) -> None:
        self.table = table

    async def on_request(self, operation: Operation, request: Request, context: RouterContext) -> RouterResponse:
        node = context.virtual_node
        if node is None:
            node = context.any_node(await self.route(operation, request))
        return context.respond_with(await context.send_request(node, request))

    async def route(self, operation: Operation, request: Request) -> str:
        """Returns the route of a request. Raises UnknownRoute, and InvalidRequest for topics of several routes."""
        tables = self.table.value if isinstance(self.table, WatchedFile) else self.table
        if request.topic is not None:
            route = tables.route(request.topic)
            if route is None:
                raise UnknownRoute(f"no route takes the topic {request.topic!r}", topic=request.topic)
            return route
        names = await topics_in(operation, request)
        routes = {tables.route(name) for name in names}
        if len(routes) > 1:
            raise InvalidRequest(
                f"the topics of this {operation.value} are on several servers: name topics of one server", topics=names
            )
        route = routes.pop() if routes else tables.table.default
        if route is None:
            raise UnknownRoute("no route takes this call, because the table of topics has no default")
        return route

    def static_routes(self) -> Mapping[Operation, str]:
        return {}

    def close(self) -> None:
        pass


async def topics_in(operation: Operation, request: Request) -> list[str]:
    """Returns the topics in a body: the topics of a watch, or the source and dest of a router."""
    if operation is Operation.WATCH:
        body = await request.json()
        topics = body.get("topics")
        return list(topics) if isinstance(topics, dict) else []
    if operation is Operation.PUT_ROUTER:
        body = await request.json()
        return [name for key in ("source", "dest") if isinstance(name := body.get(key), str)]
    return []


class TopicRouterFactory:
    """Routes by the topic in the path: the exact name, then the longest prefix, then a default."""

    def initialize(self, context: RouterFactoryContext, config: TopicRouterConfig) -> Lookup | WatchedFile[Lookup]:
        if config.table_file is None:
            try:
                return Lookup(config, context.route_names)
            except ValueError as error:
                raise PluginConfigError(str(error)) from error
        if config.topics or config.prefixes or config.default:
            raise PluginConfigError("tableFile: expected the table in the file or in the configuration, not in both")
        file = context.file(config.table_file)
        try:
            return WatchedFile(file, lambda text: parsed(text, context.route_names))
        except (OSError, ValueError) as error:
            raise PluginConfigError(f"tableFile: invalid {file}: {error}") from error

    def create_router(self, context: RouterFactoryContext, data: Lookup | WatchedFile[Lookup]) -> TopicRouter:
        return TopicRouter(data)

    def close(self, data: Lookup | WatchedFile[Lookup]) -> None:
        pass

"""TopicRouter: chooses the route by the topics of a call. The exact name wins, then the longest prefix, then the default."""

from __future__ import annotations

from collections.abc import Sequence
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
from gateway.rewrite.names import ANY, OF_ROUTERS, UNKNOWN, topics_of
from gateway.watched_file import WatchedFile, opened


class Table(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """The routes of topics."""

    topics: dict[str, str] = {}
    """The route of each topic, by its exact name."""
    prefixes: dict[str, str] = {}
    """The route of names that begin so. The longest prefix wins."""
    default: str | None = None
    """The route of all other topics and calls. Without it they are 404 `unknown_route`."""


class TopicRouterConfig(Table, rename="camel"):
    """The table, in the configuration or in a file of its own."""

    table_file: str | None = None
    """A YAML file with these three keys instead. A change of the file counts, too."""


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
        tables = self.tables
        names = [name for name in await topics_of(request) if not name.endswith(ANY)]
        if operation in OF_ROUTERS and request.name:  # a GET or DELETE names nothing else
            names.append(request.name)
        by_name = {name: tables.route(name) for name in names}
        if request.topic is not None and by_name.get(request.topic) is None:
            raise UnknownRoute(f"no route takes the topic {request.topic!r}", topic=request.topic)
        if len(set(by_name.values())) > 1:
            raise InvalidRequest(
                f"the names in this {operation.value} are on several servers: take names of one server", topics=names
            )
        route = next(iter(by_name.values()), tables.table.default)
        if route is None:
            raise UnknownRoute("no route takes this call, because the table of topics has no default")
        return route

    @property
    def tables(self) -> Lookup:
        return self.table.value if isinstance(self.table, WatchedFile) else self.table

    def still_leads_to(self, route: str, request: Request) -> bool:
        return request.topic is None or self.tables.route(request.topic) == route


class TopicRouterFactory:
    """Routes by the topics of a call: the exact name, then the longest prefix, then a default."""

    offers_not = UNKNOWN

    def initialize(self, context: RouterFactoryContext, config: TopicRouterConfig) -> Lookup | WatchedFile[Lookup]:
        if config.table_file is None:
            try:
                return Lookup(config, context.route_names)
            except ValueError as error:
                raise PluginConfigError(str(error)) from error
        if config.topics or config.prefixes or config.default:
            raise PluginConfigError("tableFile: expected the table in the file or in the configuration, not in both")
        return opened(context, "tableFile", config.table_file, lambda text: parsed(text, context.route_names))

    def create_router(self, context: RouterFactoryContext, data: Lookup | WatchedFile[Lookup]) -> TopicRouter:
        return TopicRouter(data)

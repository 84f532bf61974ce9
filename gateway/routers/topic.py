"""TopicRouter: by the topic in the path. The exact name wins, then the longest prefix, then the default."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

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

log = logging.getLogger(__name__)
LOOK_SECONDS = 1.0  # between two looks at the table's file


class Table(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """Which route takes which topic. `topics`: by exact name. `prefixes`: by the beginning of the name. `default`: all others,
    and the calls that name no topic. Without a default they are refused."""

    topics: dict[str, str] = {}
    prefixes: dict[str, str] = {}
    default: str | None = None


class TopicRouterConfig(Table, rename="camel"):
    """The table, or `tableFile`, a YAML file with the same three keys, which is read again when it changes."""

    table_file: str | None = None


class Tables:
    """The table of one router, shared by its connections. A file is looked at once a second, and only when a request comes."""

    def __init__(self, config: TopicRouterConfig, routes: tuple[str, ...], file: Path | None) -> None:
        self.routes, self.file = routes, file
        if self.file is not None and (config.topics or config.prefixes or config.default):
            raise PluginConfigError("tableFile: the table stands in the file or here, not in both")
        self.looked, self.stamp = time.monotonic(), self.stamped()
        self.put(self.read() if self.file is not None else config)

    def put(self, table: Table) -> None:
        for name in (*table.topics.values(), *table.prefixes.values(), *filter(None, [table.default])):
            if name not in self.routes:
                raise PluginConfigError(f"there is no route {name!r}: expected one of {', '.join(self.routes)}")
        self.table = table
        self.prefixes = sorted(table.prefixes, key=len, reverse=True)
        self.route = lru_cache(4096)(self.find)

    def stamped(self) -> tuple[int, int] | None:
        try:
            stat = self.file.stat() if self.file is not None else None
        except OSError:
            return None
        return (stat.st_mtime_ns, stat.st_ino) if stat is not None else None

    def read(self) -> Table:
        assert self.file is not None
        try:
            return msgspec.convert(yaml.safe_load(self.file.read_text()) or {}, Table)
        except (OSError, ValueError, yaml.YAMLError, msgspec.ValidationError) as error:
            raise PluginConfigError(f"tableFile: {self.file} cannot be used: {error}") from error

    def look(self) -> None:
        """Read the file again if it changed. One with a fault is reported, and the table stays as it was."""
        now = time.monotonic()
        if self.file is None or now - self.looked < LOOK_SECONDS:
            return
        self.looked = now
        if (stamp := self.stamped()) != self.stamp:
            self.stamp = stamp
            try:
                self.put(self.read())
                log.info("the table %s changed and is used from now on", self.file)
            except PluginConfigError as error:
                log.error("the changed table is not used: %s", error)

    def find(self, topic: str) -> str | None:
        table = self.table
        if topic in table.topics:
            return table.topics[topic]
        for prefix in self.prefixes:
            if topic.startswith(prefix):
                return table.prefixes[prefix]
        return table.default


class TopicRouter:
    def __init__(self, tables: Tables) -> None:
        self.tables = tables

    async def on_request(self, operation: Operation, request: Request, context: RouterContext) -> RouterResponse:
        node = context.virtual_node
        if node is None:
            node = context.any_node(await self.route(operation, request))
        return context.respond_with(await context.send_request(node, request))

    async def route(self, operation: Operation, request: Request) -> str:
        """Returns the route of a request. Raises UnknownRoute, and InvalidRequest for topics of several routes at once."""
        tables = self.tables
        tables.look()
        if request.topic is not None:
            route = tables.route(request.topic)
            if route is None:
                raise UnknownRoute(f"no route takes the topic {request.topic!r}", topic=request.topic)
            return route
        names = await topics_in(operation, request)
        routes = {tables.route(name) for name in names}
        if len(routes) > 1:
            raise InvalidRequest(
                f"the topics of a {operation.value} belong to several servers: ask for those of one", topics=names
            )
        route = routes.pop() if routes else tables.table.default
        if route is None:
            raise UnknownRoute("no route takes this call: the table of topics has no default")
        return route

    def static_routes(self) -> Mapping[Operation, str]:
        return {}

    def close(self) -> None:
        pass


async def topics_in(operation: Operation, request: Request) -> list[str]:
    """The topics that a body names: those of a watch, the two of a router."""
    if operation is Operation.WATCH:
        body = await request.json()
        topics = body.get("topics")
        return list(topics) if isinstance(topics, dict) else []
    if operation is Operation.PUT_ROUTER:
        body = await request.json()
        return [name for key in ("source", "dest") if isinstance(name := body.get(key), str)]
    return []


class TopicRouterFactory:
    """By the topic in the path: the exact name, then the longest prefix, then a default."""

    def initialize(self, context: RouterFactoryContext, config: TopicRouterConfig) -> Tables:
        file = context.file(config.table_file) if config.table_file else None
        return Tables(config, tuple(context.route_names), file)

    def create_router(self, context: RouterFactoryContext, data: Tables) -> TopicRouter:
        return TopicRouter(data)

    def close(self, data: Tables) -> None:
        pass

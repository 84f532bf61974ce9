"""The available routers and filters: the built-in ones, and those of installed packages (entry points)."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from functools import cache
from importlib.metadata import entry_points
from typing import Any, get_type_hints

from gateway.api import Filter, FilterFactory, PluginConfigError, Router, RouterFactory
from gateway.configuration.shapes import Plugins, PluginType
from gateway.filters.api_key import ApiKeyFactory
from gateway.filters.audit import AuditFactory
from gateway.filters.authenticate import AuthenticateFactory
from gateway.filters.deny import DenyFactory
from gateway.filters.node import NodeFactory
from gateway.filters.prefix import PrefixFactory
from gateway.filters.rate_limit import RateLimitFactory
from gateway.routers.duplicate import DuplicateRouterFactory
from gateway.routers.failover import FailoverRouterFactory
from gateway.routers.migrate.router import MigrateRouterFactory
from gateway.routers.splice.router import SpliceRouterFactory
from gateway.routers.static import StaticRouterFactory
from gateway.routers.subject import SubjectRouterFactory
from gateway.routers.topic import TopicRouterFactory
from gateway.routers.union import UnionRouterFactory

GROUPS = {"router": "topics.routers", "filter": "topics.filters"}
OURS: dict[str, dict[str, type]] = {
    "router": {
        "StaticRouter": StaticRouterFactory,
        "DuplicateRouter": DuplicateRouterFactory,
        "FailoverRouter": FailoverRouterFactory,
        "SpliceRouter": SpliceRouterFactory,
        "MigrateRouter": MigrateRouterFactory,
        "SubjectRouter": SubjectRouterFactory,
        "TopicRouter": TopicRouterFactory,
        "UnionRouter": UnionRouterFactory,
    },
    "filter": {
        "ApiKey": ApiKeyFactory,
        "Audit": AuditFactory,
        "Authenticate": AuthenticateFactory,
        "Deny": DenyFactory,
        "Prefix": PrefixFactory,
        "Node": NodeFactory,
        "RateLimit": RateLimitFactory,
    },
}

# What a plugin may leave out: it then has the default of its Protocol.
OF_FACTORIES = ("offers_not", "breaks", "passes_upgrades", "close")
DEFAULTS: dict[type, tuple[str, ...]] = {
    Router: ("static_routes", "close", "still_leads_to", "explain"),
    Filter: ("on_response", "still_allows"),
    RouterFactory: (*OF_FACTORIES, "decides_identifiers"),
    FilterFactory: (*OF_FACTORIES, "places", "once"),
}
FACTORIES: dict[str, type] = {"router": RouterFactory, "filter": FilterFactory}


@cache
def factories(kind: str) -> dict[str, Any]:
    """Returns the factories of a kind (`router`, `filter`) by their `type`. A package cannot replace a built-in name."""
    found = {entry.name: entry.load() for entry in entry_points(group=GROUPS[kind])} | OURS[kind]
    return {name: complete(made(), FACTORIES[kind]) for name, made in found.items()}


def complete(made: Any, protocol: type) -> Any:
    """Returns a plugin's object with the defaults of its Protocol, also if its class does not inherit from the Protocol."""
    for name in DEFAULTS[protocol]:
        if not hasattr(type(made), name):
            setattr(type(made), name, vars(protocol)[name])
    return made


def factory(kind: str, name: str) -> Any:
    """Returns a factory. Raises PluginConfigError."""
    if kind not in GROUPS:
        raise PluginConfigError(f"unknown kind of plugin {kind!r}: expected router or filter")
    if name not in factories(kind):
        raise PluginConfigError(f"{kind} {name!r} does not exist")
    return factories(kind)[name]


def names(kind: str) -> Sequence[str]:
    return sorted(factories(kind))


def config_type(made: Any) -> Any:
    """Returns the type of a plugin's configuration: the annotation of `config` in its `initialize`."""
    hints = get_type_hints(made.initialize)
    if "config" not in hints:
        raise TypeError(f"{type(made).__name__}.initialize needs an annotated parameter `config`")
    return hints["config"]


def installed() -> Plugins:
    """Returns the facts of all plugins that the check of a configuration needs."""
    return Plugins(
        {name: PluginType(config_type(made)) for name, made in factories("router").items()},
        {name: PluginType(config_type(made), made.places, made.once) for name, made in factories("filter").items()},
    )


def summary(made: Any) -> str:
    """Returns the first line of a plugin's docstring."""
    return (inspect.getdoc(type(made)) or "").partition("\n")[0]

"""The available routers and filters: the built-in ones, and those of installed packages (entry points)."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, get_type_hints

import msgspec

from gateway.api import PluginConfigError
from gateway.shapes import EVERYWHERE, Plugins, PluginType

GROUPS = {"router": "topics.routers", "filter": "topics.filters"}
OURS = {
    "router": {
        "StaticRouter": "gateway.routers.static:StaticRouterFactory",
        "DuplicateRouter": "gateway.routers.duplicate:DuplicateRouterFactory",
        "FailoverRouter": "gateway.routers.failover:FailoverRouterFactory",
        "SpliceRouter": "gateway.routers.splice:SpliceRouterFactory",
        "MigrateRouter": "gateway.routers.migrate:MigrateRouterFactory",
        "SubjectRouter": "gateway.routers.subject:SubjectRouterFactory",
        "TopicRouter": "gateway.routers.topic:TopicRouterFactory",
        "UnionRouter": "gateway.routers.union:UnionRouterFactory",
    },
    "filter": {
        "ApiKey": "gateway.filters.api_key:ApiKeyFactory",
        "Audit": "gateway.filters.audit:AuditFactory",
        "Authenticate": "gateway.filters.authenticate:AuthenticateFactory",
        "Deny": "gateway.filters.deny:DenyFactory",
        "Prefix": "gateway.filters.prefix:PrefixFactory",
        "Node": "gateway.filters.node:NodeFactory",
        "RateLimit": "gateway.filters.rate_limit:RateLimitFactory",
    },
}


class NoConfig(msgspec.Struct, forbid_unknown_fields=True):
    """For plugins without configuration."""


@cache
def factories(kind: str) -> dict[str, Any]:
    """Returns the factories of a kind (`router`, `filter`) by their `type`. A package cannot replace a built-in name."""
    found: dict[str, Any] = {}
    for entry in entry_points(group=GROUPS[kind]):
        found[entry.name] = entry.load()()
    for name, where in OURS[kind].items():
        module, _, attribute = where.partition(":")
        found[name] = getattr(import_module(module), attribute)()
    return found


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
        {
            name: PluginType(config_type(made), getattr(made, "places", EVERYWHERE), bool(getattr(made, "once", False)))
            for name, made in factories("filter").items()
        },
    )


def summary(made: Any) -> str:
    """Returns the first line of a plugin's docstring."""
    return (inspect.getdoc(type(made)) or "").partition("\n")[0]

"""SubjectRouter: chooses the route by the subject of the request."""

from __future__ import annotations

import msgspec

from base.errors import Forbidden
from base.patterns import is_pattern, matches
from gateway.api import (
    Operation,
    PluginConfigError,
    Request,
    RouterContext,
    RouterFactoryContext,
    RouterResponse,
    Subject,
)


class SubjectRule(msgspec.Struct, forbid_unknown_fields=True):
    """The subjects of a route."""

    route: str
    """A route."""
    subjects: list[str] = []
    """Names, which may end in `*`. The rule takes a subject with one of them, or with one of the roles."""
    roles: list[str] = []
    """Roles."""

    def takes(self, subject: Subject) -> bool:
        named = subject.name is not None and any(matches(each, subject.name) for each in self.subjects)
        return named or bool(set(self.roles) & set(subject.roles))


class SubjectConfig(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """The routes of subjects."""

    rules: list[SubjectRule]
    """The first rule that takes the subject decides."""
    default_route: str | None = None
    """The route of every other subject. Without it they are 403."""

    def route(self, subject: Subject) -> str | None:
        return next((rule.route for rule in self.rules if rule.takes(subject)), self.default_route)


class SubjectRouter:
    def __init__(self, config: SubjectConfig) -> None:
        self.config = config

    async def on_request(self, operation: Operation, request: Request, context: RouterContext) -> RouterResponse:
        route = self.config.route(context.authenticated_subject)
        if route is None:
            who = context.authenticated_subject.name or "a client without credentials"
            return context.respond_with_error(request, Forbidden(f"No route is open for {who}."))
        node = context.virtual_node or context.any_node(route)
        if node.route != route:
            return context.respond_with_error(request, Forbidden("This node is on another route than yours."))
        return context.respond_with(await context.send_request(node, request))


class SubjectRouterFactory:
    """Routes by subject. The first matching rule decides. Without a match the answer is 403, unless there is a default."""

    passes_upgrades = True
    decides_identifiers = True  # an identifier is valid for a name, whose roles change

    def initialize(self, context: RouterFactoryContext, config: SubjectConfig) -> SubjectConfig:
        context.allow_shared_cluster_targets()  # each subject sees only one route
        named = [*(("rules", rule.route) for rule in config.rules), ("defaultRoute", config.default_route)]
        for key, name in named:
            if name is not None and name not in context.route_names:
                raise PluginConfigError(f"{key}: route {name!r} does not exist in {', '.join(context.route_names)}.")
        for rule in config.rules:
            if not rule.subjects and not rule.roles:
                raise PluginConfigError(f"rules: the rule for {rule.route!r} matches no client: add subjects or roles.")
            for each in rule.subjects:
                if not is_pattern(each):
                    raise PluginConfigError(f"rules: {each!r} has a * in the middle: expected * only at the end.")
        unused = set(context.route_names) - {rule.route for rule in config.rules} - {config.default_route}
        if unused:
            raise PluginConfigError(
                f"rules: no rule uses the routes {', '.join(sorted(unused))}: add a rule, or remove these routes."
            )
        return config

    def create_router(self, context: RouterFactoryContext, data: SubjectConfig) -> SubjectRouter:
        return SubjectRouter(data)

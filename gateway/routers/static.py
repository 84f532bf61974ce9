"""StaticRouter: sends every request unchanged to its only route."""

from __future__ import annotations

from gateway.api import (
    NoConfig,
    Operation,
    PluginConfigError,
    Request,
    RouterContext,
    RouterFactoryContext,
    RouterResponse,
)


class StaticRouter:
    """Sends every operation to one route. Without filters, whole connections pass unparsed."""

    def __init__(self, route: str) -> None:
        self.route = route

    async def on_request(self, operation: Operation, request: Request, context: RouterContext) -> RouterResponse:
        return context.respond_with(await context.send_request(context.any_node(self.route), request))

    def static_routes(self) -> str:
        return self.route


class StaticRouterFactory:
    """Sends every request unchanged to the only route."""

    passes_upgrades = True

    def initialize(self, context: RouterFactoryContext, config: NoConfig) -> str:
        if len(context.route_names) != 1:
            raise PluginConfigError("routes: expected exactly one route for a StaticRouter")
        return context.route_names[0]

    def create_router(self, context: RouterFactoryContext, data: str) -> StaticRouter:
        return StaticRouter(data)

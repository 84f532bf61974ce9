"""Routemaster's bus on topics and routers: events come in over HTTP, and go out in batches to callbacks (docs/push.md)."""

"""Errors of the gateway itself, in the error format of `/v0` (docs/gateway.md, "Errors")."""

from __future__ import annotations

from typing import Any

from base.errors import TopicsError


class RouterFailed(TopicsError):
    """A router or a filter raised an exception. `maybe_written`: a write may have happened on `route`."""

    status, code = 502, "router_failed"

    def __init__(self, router: str, route: str | None, maybe_written: bool) -> None:
        super().__init__(
            f"{router!r} failed on this request: see the gateway's log",
            router=router,
            route=route,
            maybe_written=maybe_written,
        )


class NodeUnreachable(TopicsError):
    """No node of the route answered."""

    status, code, retry_after = 502, "node_unreachable", 1

    def __init__(self, route: str, why: str, maybe_written: bool = False) -> None:
        super().__init__(f"route {route!r} is not reachable: {why}", route=route, maybe_written=maybe_written)


class UpstreamTimeout(TopicsError):
    """The node took longer than its cluster's `answerMs`."""

    status, code, retry_after = 504, "timeout", 1

    def __init__(self, route: str, why: str, maybe_written: bool) -> None:
        super().__init__(f"route {route!r} timed out: {why}", route=route, maybe_written=maybe_written)


class UnknownRoute(TopicsError):
    """No virtual cluster has the host or prefix, or no route takes the request."""

    status, code = 404, "unknown_route"


class NotOffered(TopicsError):
    """The virtual cluster cannot offer this call, for a reason that the message names."""

    status, code = 501, "not_offered"

    def __init__(self, operation: str, why: str) -> None:
        super().__init__(f"{operation} is not available at this address: {why}", operation=operation)


class NotSupported(TopicsError):
    """The topic is in Kafka, which cannot do this. The message names the alternative."""

    status, code = 501, "not_supported"


class RoutesFailed(TopicsError):
    """Some routes of a fan-out failed. `route_errors` holds the error of each."""

    status, code, retry_after = 502, "routes_failed", 1

    def __init__(self, errors: dict[str, Any]) -> None:
        names = ", ".join(sorted(errors))
        super().__init__(
            f"{names} did not answer: send partial=true to get the answers of the other routes", route_errors=errors
        )


class BeingMoved(TopicsError):
    """The call would interfere with the move of a topic to another server."""

    status, code = 409, "being_moved"

    def __init__(self, topic: str) -> None:
        super().__init__(
            f"the topic {topic!r} is being moved to another server: remove the topic from the MigrateRouter's topics first",
            topic=topic,
        )

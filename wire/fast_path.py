"""The event loop's fast path: runs an endpoint's script on the loop's own connections, without a thread or a framework."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

from base.errors import MethodNotAllowed, NotAcceptable
from store.loop import here
from store.script import Script
from wire import metrics
from wire.access.actor import act_for
from wire.answer import Answer
from wire.endpoint import Call, Endpoint

Request = Call[Any, Any]
METHODS = ("GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS")  # in the order of the header Allow
Drive = Callable[[Script[Answer]], Awaitable[Answer]]


async def answer(endpoint: Endpoint, call: Request, arguments: Sequence[str], drive: Drive | None = None) -> Answer:
    """Returns the answer to a request that the app has accepted. `arguments`: the values in its path.

    `drive` runs the script. By default the loop's own connections do.
    """
    try:
        act_for(call.actor)
        script = endpoint.script(call, arguments)
        done = await (here().drive(script) if drive is None else drive(script))
    except Exception as error:
        done = endpoint.api.refusal(error, call.started, call.key)
    metrics.request(endpoint.method, endpoint.route, done.status, time.perf_counter() - call.started)
    return done


def endpoint_of(endpoints: Mapping[str, Endpoint], method: str, accept: str | None) -> Endpoint:
    """Returns the endpoint of a method. `accept`: the negotiated media type. Raises MethodNotAllowed or NotAcceptable."""
    endpoint = endpoints.get("GET" if method == "HEAD" else method)
    if endpoint is None:
        raise not_allowed(endpoints, method)
    if accept is None:
        raise NotAcceptable(f"the answer is {' or '.join(endpoint.media)}: allow it in Accept")
    return endpoint


def not_allowed(endpoints: Mapping[str, Endpoint], method: str) -> MethodNotAllowed:
    """Returns the refusal of a method that the path does not have. It names the methods of the path."""
    others = [endpoint.instead for endpoint in endpoints.values() if endpoint.instead]
    wanted = ", or ".join([f"send {' or '.join(endpoints) or 'GET'}", *others])
    error = MethodNotAllowed(f"this path does not take {method}: {wanted}")
    error.headers = allow(endpoints)
    return error


def options(endpoints: Mapping[str, Endpoint]) -> Answer:
    """Returns the answer to OPTIONS."""
    return Answer(204, b"", allow(endpoints))


def allow(methods: Iterable[str]) -> tuple[tuple[bytes, bytes], ...]:
    """Returns the header Allow of a path with these methods."""
    found = {*methods} or {"GET"}
    found |= {"HEAD", "OPTIONS"} if "GET" in found else {"OPTIONS"}
    return ((b"allow", ", ".join(each for each in METHODS if each in found).encode()),)

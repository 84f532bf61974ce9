"""The event loop's fast path: runs an endpoint's script on the loop's own connections, without a thread or a framework."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from store.loop import here
from wire import metrics
from wire.actor import act_for
from wire.answer import Answer
from wire.endpoint import Call, Endpoint

Request = Call[Any, Any]
ANYTHING = b"*/*"


async def answer(endpoint: Endpoint, call: Request, arguments: Sequence[str]) -> Answer:
    """Returns the answer to a request that the app has accepted. `arguments`: the values in its path."""
    try:
        act_for(call.actor)
        done = await here().drive(endpoint.script(call, arguments))
    except Exception as error:
        done = endpoint.api.refusal(error, call.started, call.key)
    metrics.request(endpoint.method, endpoint.route, done.status, time.perf_counter() - call.started)
    return done


def accepted(endpoint: Endpoint, headers: dict[bytes, bytes]) -> str | None:
    """Returns the media type if the client accepts any, or exactly one that the endpoint has.

    Returns None if a view has to negotiate or refuse.
    """
    wanted = headers.get(b"accept", ANYTHING)
    if wanted == ANYTHING:
        return endpoint.media[0]
    return next((media for media in endpoint.media if media.encode() == wanted), None)

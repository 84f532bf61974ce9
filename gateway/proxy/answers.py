"""Turns errors into answers, in the error format of `/v0` or of the bus."""

from __future__ import annotations

import msgspec

from base.errors import Internal, TopicsError
from gateway.api import Response
from http1 import Refused


def refusal(error: Exception, is_bus: bool = False) -> Response:
    """Returns the answer to a request that failed.

    A TopicsError, or a refusal of the HTTP layer, keeps its message. Other errors become a 500 without details.
    """
    headers: list[tuple[bytes, bytes]] = []
    if isinstance(error, Refused):
        status, body = error.status, error.body()
    else:
        told = error if isinstance(error, TopicsError) else Internal()
        status, body = told.status, told.body()
        headers += told.headers
        if told.retry_after is not None:
            headers.append((b"retry-after", b"%d" % told.retry_after))
    if is_bus:
        return Response(status, [(b"content-type", b"text/plain"), *headers], body["error"]["message"].encode())
    body["performance"] = {"server_total_ms": 0.0}
    return Response(status, [(b"content-type", b"application/json"), *headers], msgspec.json.encode(body))

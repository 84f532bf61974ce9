"""ASGI over http1, for streams: what an application sends is written to the connection at once, and waits for a slow client."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from http1 import Request, Response, Writer

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]
# Keys of the scope, for applications that know this server.
REQUEST, WRITER = "http1.request", "http1.writer"


async def run(application: Application, request: Request, path: str, query: bytes, writer: Writer) -> None:
    """Runs an ASGI application on one request. `path`: the unquoted path."""
    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": request.version,
        "method": request.method,
        "scheme": "http",
        "path": path,
        "raw_path": request.target.partition(b"?")[0],
        "query_string": query,
        "root_path": "",
        "headers": request.headers,
        "client": (request.origin, 0) if request.origin else None,
        "server": None,
        REQUEST: request,
        WRITER: writer,
    }
    is_first = True

    async def receive() -> dict[str, Any]:
        nonlocal is_first
        if is_first:  # whoever wants the body reads it from the request
            is_first = False
            return {"type": "http.request", "body": b"", "more_body": False}
        await writer.gone
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            # The writer frames the body itself. A second framing would make the response invalid.
            named = [(name.lower(), value) for name, value in message["headers"]]
            headers = [header for header in named if header[0] != b"content-length"]
            writer.begin(Response(message["status"], headers))
            return
        await writer.write(message.get("body", b""))
        if not message.get("more_body", False):
            writer.end()

    await application(scope, receive, send)

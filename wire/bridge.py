"""Calls WSGI applications from an event loop. The body is already read, the answer is small, and a thread does the work."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from typing import Any

from django.conf import settings

from http1 import Request
from store.threads import Threads
from wire.answer import Answer

# A page may load nothing from other servers, and may contain no script or style. So markup from a record that a page fails to
# escape cannot run anything. Swagger UI's styles have pictures as `data:`.
POLICY = (
    b"content-security-policy",
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; connect-src 'self'; "
    b"form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
)


class Bridge:
    """A WSGI application and its threads."""

    def __init__(self, application: Callable[..., Any], threads: Threads) -> None:
        self.application = application
        self.threads = threads

    async def call(self, environ: dict[str, Any]) -> Answer:
        return await self.threads.run(self.run, environ)

    def run(self, environ: dict[str, Any]) -> Answer:
        started: list[Any] = []

        def start_response(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> None:
            started[:] = [int(status[:3]), headers]

        result = self.application(environ, start_response)
        try:
            body = b"".join(result)
        finally:
            if hasattr(result, "close"):
                result.close()
        status, headers = started
        told = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers]
        if any(name == b"content-type" and value.startswith(b"text/html") for name, value in told):
            told.append(POLICY)
        return Answer(status, body, tuple(told))


def environ(request: Request, path: str, headers: dict[bytes, bytes], body: bytes) -> dict[str, Any]:
    """Returns the WSGI environment of a request (PEP 3333). Text is latin-1 of the bytes. `path`: unquoted."""
    result = {
        "REQUEST_METHOD": request.method,
        "SCRIPT_NAME": "",
        "PATH_INFO": path.encode().decode("latin-1"),
        "QUERY_STRING": request.target.partition(b"?")[2].decode("latin-1"),
        "SERVER_NAME": settings.HOST,
        "SERVER_PORT": str(settings.PORT),
        "SERVER_PROTOCOL": f"HTTP/{request.version}",
        "REMOTE_ADDR": request.origin,
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": "http",
        "wsgi.input": io.BytesIO(body),
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": True,
        "wsgi.run_once": False,
    }
    for name, value in headers.items():
        if b"_" in name:  # WSGI would confuse this header with the one that has dashes
            continue
        result["HTTP_" + name.decode("latin-1").upper().replace("-", "_")] = value.decode("latin-1")
    said = result.pop("HTTP_CONTENT_TYPE", "")
    # Forms do not use parameters of RFC 2231 (name*=value), and Django fails at an encoding that it does not know.
    result["CONTENT_TYPE"] = said.partition(";")[0] if "*" in said else said
    result["CONTENT_LENGTH"] = str(len(body)) if body else ""
    result.pop("HTTP_CONTENT_ENCODING", None)  # the app has unzipped the body
    result.pop("HTTP_CONTENT_LENGTH", None)
    return result

"""The one front on the one port (design.md section 3): streams to Django's ASGI application, append and diff to
the fast lane, everything else to Django's WSGI handler in a bounded pool of threads.

What concerns every request stands here: the body's limit, gzip both ways, who asks, and how many at once.
"""

from __future__ import annotations

import asyncio
import gc
import gzip
import logging
import os
import re
import time
import zlib
from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "topics_project.settings")

from django.conf import settings
from django.core.asgi import get_asgi_application
from django.core.wsgi import get_wsgi_application

streams = get_asgi_application()
views = get_wsgi_application()

from topics import limits, metrics, pulse, threads, timeouts  # noqa: E402
from topics.api.handler import Answer, refusal  # noqa: E402
from topics.api.lane import Lane  # noqa: E402
from topics.entrance import fresh_keys  # noqa: E402
from topics.errors import InvalidRequest, NotReady, PayloadTooLarge, UnsupportedMediaType  # noqa: E402
from topics.keys import Key, keyring  # noqa: E402
from topics.watch import drain, serve  # noqa: E402
from topics_project import hosts  # noqa: E402
from topics_project.bridge import Bare, Bridge, environ  # noqa: E402

drain.install()
timeouts.serve("web", settings.TOPICS_STATEMENT_TIMEOUT_MS)
threads.watch_connections()
log = logging.getLogger(__name__)
Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]

FAST_LANE, MAX_BODY_BYTES = settings.TOPICS_FAST_LANE, settings.TOPICS_MAX_BODY_BYTES
GZIP_FROM = 1024  # bytes: below, a header costs more than it saves
REFUSES_GZIP = re.compile(rb"gzip\s*;\s*q=0(\.0*)?\s*(,|$)")
OPEN_PATHS = ("/v0/health", "/v0/ready", "/v0/schema", "/v0/docs")
HEALTH_PATHS, READY_PATHS = ("/v0/health", "/healthz"), ("/v0/ready", "/readyz")
READY_SECONDS = 2.0  # for every connection that serves to answer


class Gone(Exception):
    """The client went away in the middle of its request."""


class Front:
    """An ASGI application of one process."""

    def __init__(self) -> None:
        self.threads = threads.Threads(settings.WEB_THREADS, "web")
        self.site = Bridge(views, self.threads)
        self.api = Bridge(Bare(), self.threads)
        self.readiness = Bridge(Bare(), threads.Threads(1, "ready"))
        self.lane: Lane | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.lifespan(receive, send)
        elif scope["type"] == "http" and (error := hosts.refused(scope)) is not None:
            await reply(refusal(error, time.perf_counter()), dict(scope["headers"]), send)
        elif scope["type"] == "http" and (stream := serve.stream_at(scope["path"])) is not None:
            await self.stream(stream, scope, receive, send)
        elif scope["type"] != "http" or is_stream(scope["path"]):
            await streams(scope, receive, send)
        else:
            await self.request(scope, receive, send)

    async def lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                settle()
                pulse.start()
            else:
                if self.lane is not None:
                    await self.lane.close()
                self.threads.close()
                self.readiness.threads.close()
            await send({"type": f"{message['type']}.complete"})
            if message["type"] == "lifespan.shutdown":
                return

    async def stream(self, stream: serve.Served, scope: Scope, receive: Receive, send: Send) -> None:
        started = time.perf_counter()
        try:
            await stream(scope, receive, send)
        except Exception as error:
            await reply(refusal(error, started), dict(scope["headers"]), send)

    async def request(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = time.perf_counter()
        headers: dict[bytes, bytes] = dict(scope["headers"])
        try:
            drain.check()
            if scope["path"] in HEALTH_PATHS + READY_PATHS:
                await reply(await self.probe(scope, headers), headers, send)
                return
            key = None
            if wants_key(scope["path"]):
                await fresh_keys()
                authorization = headers.get(b"authorization")
                key = keyring.authenticate(authorization.decode("latin-1") if authorization else None)
            body = await read_body(headers, receive)
            with limits.under_way(key):
                answer = await self.answer(scope, headers, body, key, started)
        except Gone:
            return
        except Exception as error:
            answer = refusal(error, started)
            metrics.request(scope["method"], "", answer.status)
        await reply(answer, headers, send)

    async def probe(self, scope: Scope, headers: dict[bytes, bytes]) -> Answer:
        """Whether we live, and can serve: told without anything that other requests could use up."""
        if scope["path"] in HEALTH_PATHS:
            return self.readiness.run(environ(scope, headers, b"", None))  # it waits for nothing
        try:
            async with asyncio.timeout(READY_SECONDS):
                if FAST_LANE:
                    await self.open_lane().check()
                return await self.readiness.call(scope, headers, b"", None)
        except TimeoutError as error:
            raise NotReady(f"the connections that serve did not answer within {READY_SECONDS:.0f} s") from error

    def open_lane(self) -> Lane:
        if self.lane is None:
            self.lane = Lane()
        return self.lane

    async def answer(
        self, scope: Scope, headers: dict[bytes, bytes], body: bytes, key: Key | None, started: float
    ) -> Answer:
        if key is not None and FAST_LANE:
            method, path, query = scope["method"], scope["path"], scope["query_string"]
            if (answer := await self.open_lane().handle(method, path, query, headers, body, key, started)) is not None:
                return answer
        bare = scope["path"].startswith("/v0/") or scope["path"] in hosts.PROBES
        bridge = self.api if bare else self.site
        return await bridge.call(scope, headers, body, key)


def settle() -> None:
    """Have all that stays loaded, and out of the garbage collector's sight: its looks at everything took 80 ms each."""
    import_module(settings.ROOT_URLCONF)
    gc.collect()
    gc.freeze()


def wants_key(path: str) -> bool:
    """The admin and the open paths know their visitors themselves."""
    return path.startswith("/v0/") and not path.startswith(OPEN_PATHS)


def is_stream(path: str) -> bool:
    return (
        path.startswith("/v0/watch/")
        or path == "/v0/ws"
        or (path.startswith("/v0/topics/") and path.endswith(("/events", "/work")))
    )


async def read_body(headers: dict[bytes, bytes], receive: Receive) -> bytes:
    """The whole body, unzipped. Raises PayloadTooLarge before it is read whole, and Gone."""
    most = MAX_BODY_BYTES
    if int(headers.get(b"content-length") or 0) > most:
        raise too_large(most)
    message = await receive()
    body = message.get("body", b"")
    if message.get("more_body"):
        parts, size = [body], len(body)
        while message.get("more_body"):
            message = await receive()
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if size > most:
                raise too_large(most)
        body = b"".join(parts)
    if message["type"] == "http.disconnect":
        raise Gone
    encoding = headers.get(b"content-encoding", b"identity").lower()
    if encoding not in (b"identity", b"gzip"):
        raise UnsupportedMediaType("a body may be sent as it is, or with Content-Encoding: gzip")
    return gunzip(body, most) if encoding == b"gzip" else body


def gunzip(body: bytes, most: int) -> bytes:
    unzip = zlib.decompressobj(wbits=31)
    try:
        plain = unzip.decompress(body, most + 1)
    except zlib.error as error:
        raise InvalidRequest(f"the body is not gzip: {error}") from error
    if len(plain) > most:
        raise too_large(most)
    if not unzip.eof:
        raise InvalidRequest("the gzip body is cut off")
    return plain


def too_large(most: int) -> PayloadTooLarge:
    return PayloadTooLarge(f"a body may have {most} bytes at most", max=most)


async def reply(answer: Answer, asked: dict[bytes, bytes], send: Send) -> None:
    body, headers = answer.body, list(answer.headers)
    if not headers or not any(name == b"content-type" for name, _ in headers):
        headers.append((b"content-type", b"application/json"))
    if len(body) >= GZIP_FROM and wants_gzip(asked.get(b"accept-encoding")) and not zipped(headers):
        body = gzip.compress(body, compresslevel=1)
        headers = [header for header in headers if header[0] != b"content-length"]
        headers += [(b"content-encoding", b"gzip"), (b"vary", b"accept-encoding")]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def wants_gzip(accepted: bytes | None) -> bool:
    return accepted is not None and b"gzip" in accepted and not REFUSES_GZIP.search(accepted)


def zipped(headers: list[tuple[bytes, bytes]]) -> bool:
    return any(name == b"content-encoding" for name, _ in headers)


application = Front()

"""The ASGI application of the one port. Streams are plain ASGI, and calls go through the event loop's fast path. Django's WSGI
handler serves everything else in a bounded pool of threads: the admin, and the browsable API for clients that prefer text/html.

The app does the work that every request needs: authentication, routing, caps for bodies and for concurrent requests, gzip in
both directions. All checks happen before it reads a byte of the body.
"""

from __future__ import annotations

import asyncio
import gzip
import logging
import re
import time
from collections.abc import Awaitable, Callable
from functools import lru_cache
from typing import Any, NamedTuple

from django.conf import settings
from django.urls import Resolver404, resolve

from base.errors import NotReady, Unauthorized
from store import script
from store.database import mend
from store.script import Script
from store.threads import pages, quick
from wire import accept, client, fast_path, hosts, limits, metrics, pulse, shutdown, sockets, upload, visitors
from wire.answer import Answer, refusal
from wire.api import V0, Api
from wire.bridge import Bridge
from wire.docs import Nothing
from wire.endpoint import Call
from wire.entrance import who
from wire.keys import OPEN
from wire.routes import LONGEST_PATH, Matched, Routes
from wire.schema import JSON

log = logging.getLogger(__name__)
Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
Stream = Callable[[Scope, Receive, Send], Awaitable[None]]
Chore = Callable[[], Awaitable[None]]

MAX_BODY_BYTES = settings.TOPICS_MAX_BODY_BYTES
GZIP_FROM = 1024  # bytes of the smallest zipped body: a smaller body saves less than its header costs
REFUSES_GZIP = re.compile(rb"gzip\s*;\s*q=0(\.0*)?\s*(,|$)")
OPEN_PATHS = frozenset(("/v0/schema", "/v0/docs"))
ALIASES = {"/healthz": "/v0/health", "/readyz": "/v0/ready"}
READY = "/v0/ready"
READY_SECONDS = 2.0  # within this time every serving connection must answer
TAKES_BODY = ("POST", "PUT")
UNKNOWN = (JSON, accept.HTML)  # the media types of a path that does not exist
JSON_HEADERS = [(b"content-type", b"application/json")]
MOST_PATHS = 2000  # paths whose lookup is cached
# Django accepts at most 1,000 fields in a form. They fit if each has a name and a value of 255 characters.
ADMIN_FORM_BYTES = 512 * 1024


class Target(NamedTuple):
    """The stream or the endpoints of a path. If both are None, Django may know the path."""

    stream: Stream | None
    found: Matched | None


class App:
    """An ASGI application of one process."""

    def __init__(
        self,
        site: Callable[..., Any],
        routes: Routes,
        stream_at: Callable[[str], Stream | None],
        checks: list[Chore],
        closers: list[Chore],
        load_all: Callable[[], None],
    ) -> None:
        """`site`: Django's WSGI application. `routes`: the endpoints. `stream_at`: returns the stream of a path, or None.

        `checks` raise NotReady if a serving connection does not answer. `closers` close these connections. `load_all` is called
        once, before the first request.
        """
        self.site = Bridge(site, pages)
        self.routes, self.stream_at = routes, stream_at
        self.places = lru_cache(MOST_PATHS)(self.look_up)  # most requests are for few paths
        self.checks, self.closers, self.load_all = checks, closers, load_all
        self.tuning: asyncio.Task[None] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.lifespan(receive, send)
        elif scope["type"] != "http":
            await send({"type": "websocket.close"})  # before the handshake, so the client gets 403
        elif (error := hosts.refused(scope)) is not None:
            await reply(refusal(error, time.perf_counter()), dict(scope["headers"]), send)
        else:
            path = scope["path"]
            stream, found = self.places(path) if len(path) <= LONGEST_PATH else self.look_up(path)
            if stream is not None:
                await self.stream(stream, scope, receive, send)
            else:
                await self.request(found, scope, receive, send)

    def look_up(self, path: str) -> Target:
        return Target(self.stream_at(path), self.routes.find(ALIASES.get(path, path)))

    async def lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                self.load_all()
                self.tuning = asyncio.create_task(tune_listeners())
                pulse.start()
            else:
                for close in self.closers:
                    await close()
                pages.close()
                quick.close()
            await send({"type": f"{message['type']}.complete"})
            if message["type"] == "lifespan.shutdown":
                return

    async def stream(self, stream: Stream, scope: Scope, receive: Receive, send: Send) -> None:
        started = time.perf_counter()
        try:
            await stream(scope, receive, send)
        except Exception as error:
            await reply(refusal(error, started), dict(scope["headers"]), send)

    async def request(self, found: Matched | None, scope: Scope, receive: Receive, send: Send) -> None:
        started, path = time.perf_counter(), scope["path"]
        headers: dict[bytes, bytes] = dict(scope["headers"])
        api = found.api if found is not None else V0
        media = accept.choose(headers.get(b"accept", accept.ANYTHING), found.media if found is not None else UNKNOWN)
        try:
            shutdown.check()
            if media == accept.HTML and (found is not None or is_unknown(path)):
                answer = await self.browse(api, scope, headers, receive)
            elif found is None:
                answer = await self.page(scope, headers, receive)
            elif path in hosts.PROBES:
                answer = await self.probe(found, media, scope, headers, started)
            else:
                answer = await self.call(found, media, scope, headers, receive, started)
        except Exception as error:
            answer = api.refusal(error, started)
            metrics.request(scope["method"], found.route if found is not None else "", answer.status, elapsed(started))
        await reply(answer, headers, send)

    async def call(
        self,
        found: Matched,
        media: str | None,
        scope: Scope,
        headers: dict[bytes, bytes],
        receive: Receive,
        started: float,
    ) -> Answer:
        """Answers a call of an API in this event loop. `media`: the negotiated media type of the answer."""
        found.api.check(scope, headers)
        key, origin, method = await who(found.api, scope, headers), address(scope), scope["method"]
        with limits.under_way(key.holder) as held:
            if method == "OPTIONS":
                return fast_path.options(found.endpoints)
            endpoint = fast_path.endpoint_of(found.endpoints, method, media)
            body = b""
            if method in TAKES_BODY or upload.announces(scope, headers):
                most = MAX_BODY_BYTES if method in TAKES_BODY else upload.SMALL
                body = await upload.read(headers, receive, most, held)
            call: fast_path.Request = Call(key, headers, scope["query_string"], body, origin, started, str(media))
            return await fast_path.answer(endpoint, call, found.arguments)

    async def browse(self, api: Api, scope: Scope, headers: dict[bytes, bytes], receive: Receive) -> Answer:
        """Answers with a page of the browsable API (view.py). A stranger's body is not read, and the page says 401."""
        api.check(scope, headers)
        visitor = await self.visitor(api, scope, headers)
        with limits.under_way(visitor or client.address(scope, headers)) as held:
            body = await upload.read(headers, receive, MAX_BODY_BYTES, held) if visitor is not None else b""
            return await self.site.call(scope, {**headers, b"accept": accept.HTML.encode()}, body)

    async def visitor(self, api: Api, scope: Scope, headers: dict[bytes, bytes]) -> str | None:
        """Returns the id of a visitor of the browsable API for the caps: an operator or a key. Returns None for a stranger."""
        if b"authorization" not in headers and b"cookie" in headers:
            user = await pages.run(visitors.staff, headers[b"cookie"].decode("latin-1"))
            if user is not None:
                return f"user:{user.pk}"
        try:
            return (await who(api, scope, headers)).holder
        except Unauthorized:
            return None

    async def page(self, scope: Scope, headers: dict[bytes, bytes], receive: Receive) -> Answer:
        """Answers with a page of Django: the admin, the schema, the docs page, or a static file. Raises NotFound under /v0."""
        path = scope["path"]
        key = await who(V0, scope, headers) if is_unknown(path) else None
        most = await self.most(scope, headers)
        with limits.under_way(key.holder if key is not None else client.address(scope, headers)) as held:
            body = await upload.read(headers, receive, most, held) if most else b""
            return await self.site.call(scope, headers, body)

    async def probe(
        self, found: Matched, media: str | None, scope: Scope, headers: dict[bytes, bytes], started: float
    ) -> Answer:
        """Answers a health or readiness probe, without resources that other requests could exhaust."""
        if scope["method"] == "OPTIONS":
            return fast_path.options(found.endpoints)
        endpoint = fast_path.endpoint_of(found.endpoints, scope["method"], media)
        call: fast_path.Request = Call(OPEN, headers, scope["query_string"], b"", "", started, str(media))
        if endpoint.route != READY:
            return await fast_path.answer(endpoint, call, ())
        try:
            async with asyncio.timeout(READY_SECONDS):
                await asyncio.gather(*(check() for check in self.checks))
                return await fast_path.answer(endpoint, call, (), self.drive_probe)
        except TimeoutError as error:
            raise NotReady(f"the connections that serve did not answer within {READY_SECONDS:.0f} s") from error

    async def drive_probe(self, probing: Script[Answer]) -> Answer:
        """Runs a script in a thread that serves only readiness."""

        def run() -> Answer:
            mend()
            return script.run(probing)

        return await quick.run(run)

    async def most(self, scope: Scope, headers: dict[bytes, bytes]) -> int:
        """Returns how many bytes of a body this page reads. 0: the app ignores the body. Raises NotFound."""
        path = scope["path"]
        if not is_route(path):
            if path.startswith("/v0/") or path == "/v0":
                raise self.routes.missing(path)
            return 0  # a static file, or Django's 404 page
        if path.startswith("/admin/") and scope["method"] in TAKES_BODY and upload.announced(headers) > upload.SMALL:
            cookie = headers.get(b"cookie", b"").decode("latin-1")
            if await pages.run(visitors.may_administer, cookie):
                return ADMIN_FORM_BYTES
        return upload.SMALL


async def tune_listeners() -> None:
    """Tune the listening sockets as soon as this worker listens. A worker listens only after its startup event."""
    for _ in range(1000):
        if sockets.tune_listeners():
            return
        await asyncio.sleep(0.02)
    log.warning("no listening socket was found: clients that do not read hold more of the kernel's memory")


def is_unknown(path: str) -> bool:
    """Returns whether a path is under /v0 and is neither an endpoint nor an open page."""
    return path.startswith("/v0/") and path not in OPEN_PATHS


def elapsed(started: float) -> float:
    return time.perf_counter() - started


def is_route(path: str) -> bool:
    """Returns whether Django's URL patterns have the path."""
    try:
        return getattr(resolve(path).func, "cls", None) is not Nothing
    except Resolver404:
        return False


def address(scope: Scope) -> str:
    """Returns the address of the connection, for the audit log."""
    peer = scope.get("client")
    return str(peer[0]) if peer else ""


async def reply(answer: Answer, call: dict[bytes, bytes], send: Send) -> None:
    body, headers = answer.body, JSON_HEADERS
    if answer.headers or not body or len(body) >= GZIP_FROM:
        body, headers = dressed(answer, call)
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def dressed(answer: Answer, call: dict[bytes, bytes]) -> tuple[bytes, list[tuple[bytes, bytes]]]:
    """Returns the body and the headers to send. The body is zipped if the client accepts it and the body is large enough."""
    body, headers = answer.body, list(answer.headers)
    if body and not says(headers, b"content-type"):
        headers += JSON_HEADERS
    if len(body) >= GZIP_FROM and may_zip(answer.status, headers):
        # The client's Accept-Encoding decides whether this answer is zipped, and caches need to know that.
        headers.append((b"vary", b"accept-encoding"))
        if wants_gzip(call.get(b"accept-encoding")):
            body = gzip.compress(body, compresslevel=1)
            headers = [header for header in headers if header[0] != b"content-length"]
            headers += [(b"content-encoding", b"gzip"), (b"content-length", b"%d" % len(body))]
    return body, headers


def wants_gzip(accepted: bytes | None) -> bool:
    return accepted is not None and b"gzip" in accepted and not REFUSES_GZIP.search(accepted)


def may_zip(status: int, headers: list[tuple[bytes, bytes]]) -> bool:
    """Returns False for a body that is already encoded, and for a part, because Content-Range counts bytes of the plain body."""
    return status != 206 and not says(headers, b"content-encoding")


def says(headers: list[tuple[bytes, bytes]], name: bytes) -> bool:
    return any(header == name for header, _ in headers)

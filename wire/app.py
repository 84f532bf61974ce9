"""The handler of the one port's requests. Calls go from the parser (http1/) through the event loop's fast path, without ASGI
between. Streams and WebSockets write their answers themselves (streams.py). Django's WSGI handler serves everything else in a
bounded pool of threads: the admin, and the browsable API for browsers.

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
from email.utils import formatdate
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec
from django.urls import Resolver404, resolve

from base.descriptors import none_free
from base.errors import MethodNotAllowed, NotFound, NotReady, Throttled, Unauthorized
from contract.paths import decoded
from http1 import Answering, Refused, Request, Response, Writer, WrittenAnswer
from http1.connection import SPARE
from store import script
from store.database import mend
from store.script import Script
from store.threads import pages, quick
from wire import fast_path, limits, metrics
from wire.access import client, hosts, visitors
from wire.access.entrance import who
from wire.access.keys import FRESH_SECONDS, OPEN
from wire.answer import Answer, refusal
from wire.api import V0, Api
from wire.bridge import Bridge, environ
from wire.documents.docs import Nothing
from wire.endpoint import Call
from wire.observers.request_log import Context, identify
from wire.process import shutdown
from wire.request import accept, upload
from wire.routes import LONGEST_PATH, Matched, Routes, misspelt
from wire.schema import JSON
from wire.streams import Opening, StreamCall

log = logging.getLogger(__name__)
Headers = dict[bytes, bytes]
Chore = Callable[[], Awaitable[None]]

GZIP_FROM = 1024  # bytes of the smallest zipped body: a smaller body saves less than its header costs
REFUSES_GZIP = re.compile(rb"gzip\s*;\s*q=0(\.0*)?\s*(,|$)")
OPEN_PATHS = frozenset(("/v0/schema", "/v0/docs"))
READY = "/v0/ready"
READY_SECONDS = 2.0  # within this time every serving connection must answer
TAKES_BODY = ("POST", "PUT")
BUSY = (429, 503)  # refusals that come at once, because they say when to send again
UNKNOWN = (JSON, accept.HTML)  # the media types of a path that does not exist
JSON_HEADERS = [(b"content-type", b"application/json")]
ORIGIN = re.compile(rb"(?i)https?://[^/?]*")  # before the path in a request to a proxy
MOST_PATHS = 2000  # paths whose lookup is cached
# Django accepts at most 1,000 fields in a form. They fit if each has a name and a value of 255 characters.
ADMIN_FORM_BYTES = 512 * 1024


STREAM_ALLOWS = ((b"allow", b"GET, OPTIONS"),)


class Target(NamedTuple):
    """A decoded path, and its stream or WebSocket, or its endpoints. If all are None, Django may know the path."""

    path: str
    opening: Opening | None
    is_socket: bool
    found: Matched | None


class App:
    """The handler of the requests of one process."""

    def __init__(
        self,
        site: Callable[..., Any],
        routes: Routes,
        stream_at: Callable[[str], Opening | None],
        socket_at: Callable[[str], Opening | None],
        checks: list[Chore],
    ) -> None:
        """`site`: Django's WSGI application. `routes`: the calls. `stream_at`: returns the stream of another path, or None.
        `socket_at`: returns the WebSocket of a path, or None.

        `checks` raise NotReady if a serving connection does not answer.
        """
        self.site = Bridge(site, pages)
        self.routes, self.stream_at, self.socket_at, self.checks = routes, stream_at, socket_at, checks
        self.targets = lru_cache(MOST_PATHS)(self.look_up)  # most requests are for few paths

    def __call__(self, request: Request) -> Answering | Awaitable[Answering]:
        if not request.target.startswith(b"/"):
            request.target = ORIGIN.sub(b"", request.target, count=1) or b"/"
        raw, _, query = request.target.partition(b"?")
        headers = request.by_name
        request.added.append((b"date", date(int(time.time()))))
        identify(request)
        try:
            path, opening, is_socket, found = self.targets(raw) if len(raw) <= LONGEST_PATH else self.look_up(raw)
        except NotFound as unknown:
            return self.refuse(request, headers, refusal(unknown, time.perf_counter()))
        if (error := hosts.refused(path, headers.get(b"host", b""))) is not None:
            return self.refuse(request, headers, refusal(error, time.perf_counter()))
        if SPARE in request.state and path not in hosts.PROBES:
            return self.refuse(request, headers, refusal(none_free(), time.perf_counter()))
        if opening is not None and request.method != "GET":
            return self.refuse(request, headers, not_a_stream(request.method))
        if request.is_upgrade and not is_socket and headers.get(b"upgrade", b"").lower() == b"websocket":
            return Response(403)
        if opening is not None:
            return self.opening(opening, request, path, query, headers)
        return self.request(found, request, path, query, headers)

    def look_up(self, raw: bytes) -> Target:
        path = decoded(raw.decode("latin-1"))
        socket = self.socket_at(path)
        return Target(
            path,
            socket or self.routes.stream_at(path) or self.stream_at(path),
            socket is not None,
            self.routes.find(path),
        )

    def opening(self, opening: Opening, request: Request, path: str, query: bytes, headers: Headers) -> WrittenAnswer:
        """Lets a stream or a WebSocket answer. If it raises before its first byte, the client gets the refusal."""

        async def run(writer: Writer) -> None:
            started = time.perf_counter()
            try:
                await opening(StreamCall(request, path, query, headers, writer))
            except Exception as error:
                if writer.has_begun:
                    raise
                writer.send(await self.refused(request, headers, refusal(error, started)))

        return WrittenAnswer(run)

    def refuse(self, request: Request, headers: Headers, answer: Answer) -> Response | Awaitable[Response]:
        """Refuses a request by its head."""
        if upload.can_be_large(request, headers):
            return self.refused(request, headers, answer)
        return sent(request, headers, answer)

    async def refused(self, request: Request, headers: Headers, answer: Answer) -> Response:
        """Returns a refusal, in turn if the request has a large body: otherwise the next such request would come at once."""
        if answer.status not in BUSY:
            known = request.context.holder if request.context is not None else ""
            holder = known or client.address(request.origin, headers)
            try:
                await upload.refused(request, headers, holder)
            except Throttled as error:
                answer = refusal(error, time.perf_counter())
        return sent(request, headers, answer)

    async def request(
        self, found: Matched | None, request: Request, path: str, query: bytes, headers: Headers
    ) -> Response:
        started = time.perf_counter()
        context = request.context = Context("" if found is None else found.route)
        api = found.api if found is not None else V0
        media = accept.negotiated(request.method, headers, found.media if found is not None else UNKNOWN)
        try:
            shutdown.check()
            if media == accept.HTML and (found is not None or is_unknown(path)):
                answer = await self.browse(found, api, request, path, headers)
            elif found is None and media != accept.HTML and (missing := misspelt(path)) is not None:
                raise missing
            elif found is None:
                answer = await self.page(request, path, headers)
            elif path in hosts.PROBES:
                answer = await self.probe(found, media, request, query, headers, started)
            else:
                answer = await self.call(found, media, request, query, headers, started)
        except Exception as error:
            answer = api.refusal(error, started)
            metrics.request(request.method, context.route, answer.status, elapsed(started))
            return await self.refused(request, headers, answer)
        return sent(request, headers, answer)

    async def call(
        self,
        found: Matched,
        media: str | None,
        request: Request,
        query: bytes,
        headers: Headers,
        started: float,
    ) -> Answer:
        """Answers a call of an API in this event loop. `media`: the negotiated media type of the answer."""
        found.api.check(request.target, headers)
        key, method, context = await who(found.api, request.origin, headers), request.method, request.context
        context.holder = key.holder
        with limits.under_way(context.holder) as held:
            if method == "OPTIONS":
                return fast_path.options(found.endpoints)
            endpoint = fast_path.endpoint_of(found.endpoints, method, media)
            body = b""
            if method in TAKES_BODY or request.body.length != 0:
                most = upload.most_bytes(endpoint) if method in TAKES_BODY else upload.SMALL
                if endpoint.scope is not None and upload.can_be_large(request, headers):
                    endpoint.check(key, found.arguments)  # a key without the scope costs no large body
                body = await upload.read(request, headers, most, held)
            context.called = time.perf_counter()
            if (
                context.called - started > FRESH_SECONDS
            ):  # a body can take minutes, and its key can be revoked meanwhile
                key = await who(found.api, request.origin, headers)
            origin = client.origin(request.origin, headers)
            call: fast_path.Request = Call(key, headers, query, body, origin, started, str(media))
            context.call = call
            answer = await fast_path.answer(endpoint, call, found.arguments)
            if endpoint.scope == "read" and elapsed(context.called) > FRESH_SECONDS:
                # A long poll must not show records to a key that was revoked, or that lost the scope or the prefix.
                endpoint.check(await who(found.api, request.origin, headers), found.arguments)
            return answer

    async def browse(self, found: Matched | None, api: Api, request: Request, path: str, headers: Headers) -> Answer:
        """Answers with a page of the browsable API (browsable/view.py). A stranger's body is not read, and the page says 401."""
        api.check(request.target, headers)
        visitor = await self.visitor(api, request, headers)
        endpoint = None if found is None else found.endpoints.get(request.method)
        most = upload.most_bytes(endpoint)
        with limits.under_way(visitor or client.address(request.origin, headers)) as held:
            body = await upload.read(request, headers, most, held) if visitor is not None else b""
            return await self.site.call(environ(request, path, {**headers, b"accept": accept.HTML.encode()}, body))

    async def visitor(self, api: Api, request: Request, headers: Headers) -> str | None:
        """Returns the id of a visitor of the browsable API for the caps: an operator or a key. Returns None for a stranger."""
        if b"authorization" not in headers and b"cookie" in headers:
            user = await pages.run(visitors.staff, headers[b"cookie"].decode("latin-1"))
            if user is not None:
                return f"user:{user.pk}"
        try:
            return (await who(api, request.origin, headers)).holder
        except Unauthorized:
            return None

    async def page(self, request: Request, path: str, headers: Headers) -> Answer:
        """Answers with a page of Django: the admin, the schema, the docs page, or a static file. Raises NotFound under /v0."""
        key = await who(V0, request.origin, headers) if is_unknown(path) else None
        most = await self.most(request, path, headers)
        with limits.under_way(key.holder if key is not None else client.address(request.origin, headers)) as held:
            body = await upload.read(request, headers, most, held) if most else b""
            return await self.site.call(environ(request, path, headers, body))

    async def probe(
        self, found: Matched, media: str | None, request: Request, query: bytes, headers: Headers, started: float
    ) -> Answer:
        """Answers a health or readiness probe, without resources that other requests could exhaust."""
        if request.method == "OPTIONS":
            return fast_path.options(found.endpoints)
        endpoint = fast_path.endpoint_of(found.endpoints, request.method, media)
        call: fast_path.Request = Call(OPEN, headers, query, b"", "", started, str(media))
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

    async def most(self, request: Request, path: str, headers: Headers) -> int:
        """Returns how many bytes of a body this page reads. 0: the app ignores the body. Raises NotFound."""
        if not is_route(path):
            if path.startswith("/v0/") or path == "/v0":
                raise self.routes.missing(path)
            return 0  # a static file, or Django's 404 page
        length = request.body.length or 0
        if path.startswith("/admin/") and request.method in TAKES_BODY and length > upload.SMALL:
            cookie = headers.get(b"cookie", b"").decode("latin-1")
            if await pages.run(visitors.may_administer, cookie):
                return ADMIN_FORM_BYTES
        return upload.SMALL


def not_a_stream(method: str) -> Answer:
    """Returns the answer to another method than GET on the path of a stream or a WebSocket. A stream has no HEAD."""
    if method == "OPTIONS":
        return Answer(204, b"", STREAM_ALLOWS)
    error = MethodNotAllowed(f"this path does not take {method}: send GET for a stream")
    error.headers = STREAM_ALLOWS
    return refusal(error, time.perf_counter())


@lru_cache(4)
def date(now: int) -> bytes:
    """Returns the header Date of this second."""
    return formatdate(now, usegmt=True).encode()


def refused(error: Refused) -> Response:
    """Returns the answer to a request that http1 refuses, in the form of every refusal."""
    body = {**error.body(), "performance": {"server_total_ms": 0.0}}
    return Response(error.status, JSON_HEADERS, msgspec.json.encode(body))


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


def sent(request: Request, headers: Headers, answer: Answer) -> Response:
    """Returns the response to send. The body is zipped if the client accepts it and the body is large enough."""
    body = answer.body
    if not answer.headers and 0 < len(body) < GZIP_FROM:
        return Response(answer.status, JSON_HEADERS, body)
    told = [header for header in answer.headers if header[0] != b"content-length"]
    length = None
    if not body:  # an answer to a HEAD can have the length without the body
        length = next((int(value) for name, value in answer.headers if name == b"content-length"), None)
    elif not says(told, b"content-type"):
        told += JSON_HEADERS
    if len(body) >= GZIP_FROM and may_zip(answer.status, told):
        # The client's Accept-Encoding decides whether this answer is zipped, and caches need to know that.
        told.append((b"vary", b"accept-encoding"))
        if wants_gzip(headers.get(b"accept-encoding")):
            body = gzip.compress(body, compresslevel=1)
            told.append((b"content-encoding", b"gzip"))
    return Response(answer.status, told, body, length=length)


def wants_gzip(accepted: bytes | None) -> bool:
    return accepted is not None and b"gzip" in accepted and not REFUSES_GZIP.search(accepted)


def may_zip(status: int, headers: list[tuple[bytes, bytes]]) -> bool:
    """Returns False for a body that is already encoded, and for a part, because Content-Range counts bytes of the plain body."""
    return status != 206 and not says(headers, b"content-encoding")


def says(headers: list[tuple[bytes, bytes]], name: bytes) -> bool:
    return any(header == name for header, _ in headers)

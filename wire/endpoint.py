"""What all endpoints share: who asks, what a body and a query have to be, how an answer and an error look
(contract.md section 1)."""

from __future__ import annotations

import functools
import logging
import re
import time
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar, get_origin
from urllib.parse import unquote_to_bytes

import msgspec
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from rest_framework import exceptions
from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.parsers import BaseParser
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from base import errors
from base.errors import TopicsError
from store.database import translated
from topics import audit
from watch.longpoll import PENDING
from wire import metrics
from wire.keys import OPEN, Key, keyring
from wire.schema import JSON, Performance

log = logging.getLogger(__name__)
T = TypeVar("T")


class Answer(NamedTuple):
    """A status and a rendered body."""

    status: int
    body: bytes
    headers: tuple[tuple[bytes, bytes], ...] = ()


def is_json(content_type: bytes | None) -> bool:
    return content_type is not None and content_type.partition(b";")[0].strip().lower() == b"application/json"


def parse(body: bytes, shape: type[T]) -> T:
    """The body as a struct, no body as an empty object. Raises InvalidRequest: what is wrong, and where."""
    try:
        if not body.isascii():
            body.decode()
        return msgspec.json.decode(body or b"{}", type=shape)
    except UnicodeDecodeError as error:
        raise errors.InvalidRequest(f"the body is not UTF-8 (byte {error.start})") from error
    except msgspec.MsgspecError as error:
        raise errors.InvalidRequest(lone_surrogate(body) or str(error)) from error
    except RecursionError as error:
        raise errors.InvalidRequest("the JSON is nested too deep") from error


# A backslash may itself be escaped: `\\ud800` is a backslash and five letters.
SURROGATES = re.compile(
    rb"(?P<other>\\[^u]|\\u(?![dD][89a-fA-F]))|(?P<pair>\\u[dD][89abAB]..\\u[dD][c-fC-F]..)|(?P<lone>\\u[dD][89a-fA-F]..)"
)


def lone_surrogate(body: bytes) -> str | None:
    """Where a body escapes half of a UTF-16 pair, which is no character and which many JSON readers refuse, as ours does
    (saying of it what does not help). None: nowhere."""
    for found in SURROGATES.finditer(body):
        if found["lone"]:
            return f"the JSON escapes half a surrogate pair, {found['lone'].decode()} (byte {found.start()})"
    return None


def parse_query(query: QueryDict, raw: str, shape: Any) -> Any:
    """The query as a struct: fields that are lists take every value, the others the last. Raises InvalidRequest."""
    if "%" in raw:
        try:
            unquote_to_bytes(raw).decode()
        except UnicodeDecodeError as error:
            raise errors.InvalidRequest("the query is not UTF-8") from error
    given: dict[str, Any] = {}
    for name, many in query_fields(shape):
        if name in query:
            given[name] = query.getlist(name) if many else query[name]
            if any("\0" in value for value in query.getlist(name)):
                raise errors.InvalidRequest(f"{name} holds a NUL character")
    try:
        return msgspec.convert(given, shape, strict=False)
    except msgspec.ValidationError as error:
        raise errors.InvalidRequest(f"query: {error}") from error


@functools.cache
def query_fields(shape: Any) -> tuple[tuple[str, bool], ...]:
    """The names of a query's fields, and whether each takes several values."""
    return tuple((f.encode_name, get_origin(f.type) is list) for f in msgspec.structs.fields(shape))


def elapsed_ms(started: float) -> float:
    return round((time.perf_counter() - started) * 1000, 3)


def error_answer(error: TopicsError, started: float) -> Answer:
    headers: tuple[tuple[bytes, bytes], ...] = ()
    if error.retry_after:
        headers = ((b"retry-after", str(error.retry_after).encode()),)
    elif isinstance(error, errors.Unauthorized):
        headers = ((b"www-authenticate", b"Bearer"),)
    body = {**error.body(), "performance": {"server_total_ms": elapsed_ms(started)}}
    return Answer(error.status, msgspec.json.encode(body), headers)


class RawJSONParser(BaseParser):
    """Leaves the body as it is: the view parses it into a struct."""

    media_type = JSON

    def parse(self, stream: Any, media_type: str | None = None, parser_context: Any = None) -> bytes:
        return stream.read()


class JSONRenderer(BaseRenderer):
    """Bytes are JSON already."""

    media_type = JSON
    format = "json"
    charset = None

    def render(self, data: Any, accepted_media_type: str | None = None, renderer_context: Any = None) -> bytes:
        return data if isinstance(data, bytes) else msgspec.json.encode(data)


class Negotiation(DefaultContentNegotiation):
    """DRF's, which takes longer than a view where a client names no type, or the one that comes first here."""

    def select_renderer(
        self, request: Request, renderers: Sequence[BaseRenderer], format_suffix: str | None = None
    ) -> tuple[BaseRenderer, str]:
        first = renderers[0]
        if request.META.get("HTTP_ACCEPT", "*/*") in ("*/*", first.media_type):
            return first, str(first.media_type)
        found: tuple[BaseRenderer, str] = super().select_renderer(request, renderers, format_suffix)
        return found


class Endpoint(APIView):
    """A view of /v0: parses, calls one function of the domain, renders. `self.key` says who asks."""

    key = OPEN  # until initial() says who asks
    public = False  # whether nobody needs a key
    authentication_classes = ()
    permission_classes = ()
    parser_classes = (RawJSONParser,)
    renderer_classes: Sequence[type[BaseRenderer]] = (JSONRenderer,)
    content_negotiation_class = Negotiation

    def setup(self, request: HttpRequest, *args: Any, **kwargs: Any) -> None:
        self.started = time.perf_counter()
        super().setup(request, *args, **kwargs)

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        self.key = OPEN if self.public else who(request)

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        with audit.acting(self.actor):
            return super().dispatch(request, *args, **kwargs)

    def actor(self) -> audit.Actor:
        """Whose doing it is, for the audit log."""
        return audit.Actor(self.key.id, self.key.name, audit.origin(self.request))

    def check(self, name: str, *scopes: str) -> None:
        """Raises Forbidden unless the key has the scopes, and the name lies within its prefixes."""
        self.key.check(*scopes)
        self.key.check_name(name)

    def body(self, shape: type[T]) -> T:
        """The request's body. Raises InvalidRequest or UnsupportedMediaType."""
        return parse(self.request.data or b"", shape)

    def query(self, shape: type[T]) -> T:
        """The request's query. Raises InvalidRequest."""
        query: T = parse_query(self.request.query_params, self.request.META["QUERY_STRING"], shape)
        return query

    def performance(self) -> Performance:
        return Performance(elapsed_ms(self.started))

    def answer(self, data: msgspec.Struct | dict[str, Any], status: int = 200) -> Response:
        """A struct says its performance() itself."""
        if isinstance(data, dict):
            data["performance"] = {"server_total_ms": elapsed_ms(self.started), **data.get("performance", {})}
        return Response(data, status=status)

    def options(self, request: Request, *args: Any, **kwargs: Any) -> HttpResponse:
        """What may be done here stands in the Allow header of every answer."""
        return HttpResponse(status=204, content_type=JSON)

    def handle_exception(self, exc: Exception) -> Response:
        if isinstance(exc, TopicsError):
            exc = exc.told_to(self.key.shown)
        answer = refusal(exc, self.started)
        headers = {name.decode(): value.decode() for name, value in answer.headers}
        # Whatever the client said it accepts: an error is JSON.
        self.request.accepted_renderer, self.request.accepted_media_type = JSONRenderer(), JSON
        return Response(answer.body, status=answer.status, headers=headers, content_type=JSON)

    def finalize_response(self, request: Request, response: Response, *args: Any, **kwargs: Any) -> HttpResponse:
        route = request.resolver_match.route if request.resolver_match else ""
        if PENDING not in request.META:  # else it is asked again, and answered then
            metrics.request(str(request.method), f"/{route}", response.status_code)
        return super().finalize_response(request, response, *args, **kwargs)


def who(request: Request) -> Key:
    """The key that the front found, or the header's where there is no front. Raises Unauthorized."""
    key: Key | None = request.META.get("topics.key")
    if key is None:
        if keyring.stale:
            keyring.refresh()
        key = keyring.authenticate(request.META.get("HTTP_AUTHORIZATION"))
    return key


def refusal(error: Exception, started: float) -> Answer:
    """The answer to a request that raised; a fault of ours is logged."""
    known = domain_error(error)
    if known is None:
        log.exception("a request failed", exc_info=error)
        known = TopicsError("something went wrong here, and was logged")
    return error_answer(known, started)


def domain_error(error: Exception) -> TopicsError | None:
    """The domain's error for one of the framework's or the database's; None when it is a fault of ours."""
    match error:
        case TopicsError():
            return error
        case exceptions.MethodNotAllowed():
            return errors.MethodNotAllowed(str(error.detail))
        case exceptions.UnsupportedMediaType():
            return errors.UnsupportedMediaType("send the body as Content-Type: application/json")
        case exceptions.NotAcceptable():
            return errors.NotAcceptable("this endpoint answers with application/json")
        case Http404() | exceptions.NotFound():
            return errors.NotFound("there is nothing at this path")
        case exceptions.APIException() if error.status_code < 500:
            return errors.InvalidRequest(str(error.detail))
    return translated(error)

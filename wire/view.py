"""Views of Django REST framework, made from the declarations of endpoints.

They serve clients that negotiate media types, OPTIONS, HEAD and methods that are not allowed. If TOPICS_FAST_LANE is off, they
serve all of /v0.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from django.http import HttpRequest, HttpResponse
from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.parsers import BaseParser
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from base.errors import MethodNotAllowed
from store.database import mend
from store.script import Script, Suspended, run
from wire import metrics
from wire.actor import acting, origin
from wire.answer import Answer
from wire.api import V0, Api
from wire.endpoint import Call, Endpoint
from wire.keys import OPEN, Key
from wire.schema import JSON

# Keys of a request's environment. MAY_SUSPEND: the caller can wait for the view without a thread (bridge.py).
# SUSPENDED: the suspended request.
MAY_SUSPEND, SUSPENDED = "wire.may_suspend", "wire.suspended"


class RawJSONParser(BaseParser):
    """Returns the body unchanged. The view parses it into a struct."""

    media_type = JSON

    def parse(self, stream: Any, media_type: str | None = None, parser_context: Any = None) -> bytes:
        return stream.read()


class Rendered(BaseRenderer):
    """Returns the handler's bytes unchanged."""

    charset = None

    def render(self, data: Any, accepted_media_type: str | None = None, renderer_context: Any = None) -> bytes:
        return bytes(data)


class JSONRenderer(Rendered):
    media_type, format = JSON, "json"


class TextRenderer(Rendered):
    media_type, format = "text/plain", "text"


RENDERERS: dict[str, type[BaseRenderer]] = {each.media_type: each for each in (JSONRenderer, TextRenderer)}


class Negotiation(DefaultContentNegotiation):
    """DRF's negotiation, with a shortcut for clients that accept any type or exactly the first one.

    DRF's own code takes longer than the view.
    """

    def select_renderer(
        self, request: Request, renderers: Sequence[BaseRenderer], format_suffix: str | None = None
    ) -> tuple[BaseRenderer, str]:
        first = renderers[0]
        if request.META.get("HTTP_ACCEPT", "*/*") in ("*/*", first.media_type):
            return first, str(first.media_type)
        found: tuple[BaseRenderer, str] = super().select_renderer(request, renderers, format_suffix)
        return found


class View(APIView):
    """The base of all views of /v0. view_of() makes the view of a path."""

    endpoints: dict[str, Endpoint] = {}  # by method
    api = V0
    key = OPEN  # until a handler authenticates the request
    authentication_classes = ()
    permission_classes = ()
    parser_classes = (RawJSONParser,)
    renderer_classes: Sequence[type[BaseRenderer]] = (JSONRenderer,)
    content_negotiation_class = Negotiation

    def setup(self, request: HttpRequest, *args: Any, **kwargs: Any) -> None:
        self.started = time.perf_counter()
        super().setup(request, *args, **kwargs)

    def serve(self, request: Request, *_: Any, **arguments: str) -> HttpResponse:
        """Answers any method with the endpoint's script, on this thread's connection."""
        endpoint = self.endpoints["GET" if request.method == "HEAD" else str(request.method)]
        if endpoint.scope is not None:
            self.key = who(request, self.api)
        call: Call[Any, Any] = Call(
            self.key,
            {b"content-type": request.META.get("CONTENT_TYPE", "").encode(), **wanted_headers(request)},
            request.META["QUERY_STRING"].encode("latin-1"),
            request.body,
            origin(request),
            self.started,
            str(request.accepted_renderer.media_type),
        )
        with acting(call.actor):
            script = endpoint.script(call, tuple(arguments.values()))
            try:
                answer = run(script, suspend=MAY_SUSPEND in request.META)
            except Suspended as suspended:
                request.META[SUSPENDED] = Resumable(script, suspended, self.key, endpoint, self.started)
                return HttpResponse(status=204)
        return as_response(answer)

    def http_method_not_allowed(self, request: Request, *args: Any, **kwargs: Any) -> HttpResponse:
        """Raises MethodNotAllowed, with the allowed methods in its message."""
        methods = " or ".join(self.endpoints) or "GET"
        others = [endpoint.instead for endpoint in self.endpoints.values() if endpoint.instead]
        raise MethodNotAllowed(f"{request.method} is not for this path: {'; '.join([f'send {methods}', *others])}")

    def options(self, request: Request, *args: Any, **kwargs: Any) -> HttpResponse:
        """Answers 204. The Allow header of every answer has the allowed methods."""
        return HttpResponse(status=204, content_type=JSON)

    def handle_exception(self, exc: Exception) -> Response:
        # An error is always JSON, even if the client does not accept it.
        self.request.accepted_renderer, self.request.accepted_media_type = JSONRenderer(), JSON
        return as_response(self.api.refusal(exc, self.started, self.key))

    def finalize_response(self, request: Request, response: Response, *args: Any, **kwargs: Any) -> HttpResponse:
        route = request.resolver_match.route if request.resolver_match else ""
        if SUSPENDED not in request.META:  # a suspended request counts when it is answered
            took = time.perf_counter() - self.started
            metrics.request(str(request.method), f"/{route}", response.status_code, took)
        return super().finalize_response(request, response, *args, **kwargs)


class Resumable:
    """A request with a suspended script. The caller of the view resumes it, in any thread."""

    def __init__(
        self, script: Script[Answer], suspended: Suspended, key: Key, endpoint: Endpoint, started: float
    ) -> None:
        self.script, self.pause = script, suspended.pause
        self.key, self.endpoint, self.started = key, endpoint, started

    def resume(self, result: Any) -> Answer | Resumable:
        """Returns the answer, or this object if the script is suspended again. `result`: the result of the pause."""
        mend()  # Django checks a thread's connection when a request begins, but this request began in another thread
        try:
            answer = run(self.script, suspend=True, answer=result)
        except Suspended as suspended:
            self.pause = suspended.pause
            return self
        except Exception as error:
            answer = self.endpoint.api.refusal(error, self.started, self.key)
        took = time.perf_counter() - self.started
        metrics.request(self.endpoint.method, self.endpoint.route, answer.status, took)
        return answer


def view_of(path: str, endpoints: dict[str, Endpoint]) -> Callable[..., Any]:
    """Returns the view of a path with these endpoints."""
    media = dict.fromkeys(media for endpoint in endpoints.values() for media in endpoint.media)
    members: dict[str, Any] = {
        "endpoints": endpoints,
        "api": next(iter(endpoints.values())).api,
        "renderer_classes": tuple(RENDERERS[each] for each in media),
        "__doc__": path,
        **dict.fromkeys(map(str.lower, endpoints), View.serve),
    }
    made: Any = type("View", (View,), members)
    return made.as_view()


def as_response(answer: Answer) -> Response:
    headers = {name.decode(): value.decode() for name, value in answer.headers}
    content_type = headers.pop("content-type", JSON)
    return Response(answer.body, status=answer.status, headers=headers, content_type=content_type)


def wanted_headers(request: Request) -> dict[bytes, bytes]:
    """Returns the headers that handlers read."""
    key = request.META.get("HTTP_IDEMPOTENCY_KEY")
    return {} if key is None else {b"idempotency-key": key.encode("latin-1")}


def who(request: Request, api: Api) -> Key:
    """Returns the key that the app found, or without a front the key of the header. Raises Unauthorized."""
    key: Key | None = request.META.get("topics.key")
    if key is None:
        if api.keys.stale:
            api.keys.refresh()
        key = api.keys.authenticate(request.META.get("HTTP_AUTHORIZATION"))
    return key

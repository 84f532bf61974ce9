"""Views of Django REST framework, made from the declarations of endpoints: the browsable API (docs/wire.md).

The app sends a request here if it comes from a browser (wire/request/accept.py). The fast path (wire/fast_path.py) serves
all other clients.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from django.http import Http404, HttpRequest, HttpResponse
from django.utils.html import format_html_join
from rest_framework import exceptions, renderers
from rest_framework.authentication import SessionAuthentication
from rest_framework.permissions import BasePermission
from rest_framework.request import Request, is_form_media_type
from rest_framework.response import Response
from rest_framework.serializers import Serializer
from rest_framework.views import APIView

from base import errors
from contract.cloudevents import EVENT, EVENTS
from store.script import run
from wire import fast_path, metrics
from wire.access import client
from wire.access.actor import acting, origin
from wire.access.keys import OPEN, Key, open_to
from wire.access.visitors import is_operator, key_of
from wire.answer import Answer
from wire.api import V0, Api
from wire.browsable.forms import body_of, example_of, form_of
from wire.endpoint import Call, Endpoint
from wire.schema import JSON


class RefusedInView(exceptions.APIException):
    """An error of the domain, for code of DRF that handles only its own errors."""

    def __init__(self, error: errors.TopicsError) -> None:
        super().__init__(error.message)
        self.error, self.status_code = error, error.status


def domain_error(error: Exception) -> Exception:
    """Returns the domain's error for an error of DRF. Returns any other error unchanged."""
    match error:
        case RefusedInView():
            return error.error
        case exceptions.NotAcceptable():
            return errors.NotAcceptable(
                "Accept excludes every type of this answer: allow application/json or text/html"
            )
        case exceptions.UnsupportedMediaType():
            return errors.UnsupportedMediaType("unsupported Content-Type: send application/json or a form")
        case exceptions.ValidationError():
            return errors.InvalidRequest("; ".join(f"{name}: {said[0]}" for name, said in error.detail.items()))
        case exceptions.PermissionDenied():
            return errors.Forbidden(str(error.detail))
        case exceptions.NotAuthenticated():
            return errors.Unauthorized(str(error.detail))
        case Http404():
            return errors.NotFound("unknown path")
        case exceptions.APIException() if error.status_code < 500:
            return errors.InvalidRequest(str(error.detail))
    return error


class Authentication(SessionAuthentication):
    """A logged-in operator, or the key of an Authorization header. `request.auth` is the key, see visitors.key_of()."""

    def authenticate(self, request: Request) -> tuple[Any, Any] | None:
        authorization, user = request.META.get("HTTP_AUTHORIZATION"), request._request.user
        api = request.parser_context["view"].api
        by_session = authorization is None and api is V0 and is_operator(user)
        key = key_of(user) if by_session else self.key(request, api, authorization)
        if not (authorization or "").lower().startswith("bearer "):
            # A browser adds a session's cookie or a password of HTTP Basic to the forms of every site, and a server without keys
            # takes every form. Only a secret that a program adds itself proves that the form is ours.
            self.enforce_csrf(request)
        return user, key

    def key(self, request: Request, api: Api, authorization: str | None) -> Key:
        try:
            if api.keys.stale:
                api.keys.refresh()
            key = api.keys.authenticate(authorization)
        except errors.TopicsError as error:
            raise RefusedInView(error) from error
        meta = request.META
        address = client.told(meta.get("REMOTE_ADDR", ""), meta.get("HTTP_X_FORWARDED_FOR", ""))
        return open_to(address) if key is OPEN else key


class Permission(BasePermission):
    """The scopes and the prefixes of the key."""

    def has_permission(self, request: Request, view: View) -> bool:
        endpoint = view.endpoint(request)
        if request.auth is None:
            return False
        try:
            if endpoint is not None:
                endpoint.check(request.auth, tuple(view.kwargs.values()))
        except errors.TopicsError as error:
            raise RefusedInView(error) from error
        return True


class JSONRenderer(renderers.JSONRenderer):
    """Returns the handler's bytes. DRF's own class would change the spelling of numbers and lose repeated names."""

    charset = None

    def render(self, data: Any, accepted_media_type: str | None = None, renderer_context: Any = None) -> bytes:
        try:
            return msgspec.json.format(data, indent=4) if (renderer_context or {}).get("indent") else bytes(data)
        except msgspec.DecodeError:  # a sentence of the bus, or no body
            return bytes(data)


class TextRenderer(JSONRenderer):
    media_type, format = "text/plain", "text"


class Page(renderers.BrowsableAPIRenderer):
    """The page of an endpoint: its answer, and forms for the calls that the visitor may make."""

    def get_context(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        # The policy (wire/bridge.py) allows no style inside a page. An answer to OPTIONS has nothing to show.
        return super().get_context(*args, **kwargs) | {"code_style": "", "options_form": None}

    def get_name(self, view: View) -> str:
        return view.name or view.request.path

    def get_raw_data_form(self, data: Any, view: View, method: str, request: Request) -> Any:
        form = super().get_raw_data_form(data, view, method, request)
        if form:
            example = msgspec.json.encode(example_of(view.endpoints[method]))
            form.fields["_content"].initial = msgspec.json.format(example, indent=2).decode()
        return form

    def get_breadcrumbs(self, request: Request) -> list[tuple[str, str]]:
        return [(url, url) for name, url in super().get_breadcrumbs(request) if name]


class EventRenderer(JSONRenderer):
    media_type, format = EVENT, "event"


class EventsRenderer(JSONRenderer):
    media_type, format = EVENTS, "events"


RENDERERS: dict[str, type[renderers.BaseRenderer]] = {
    each.media_type: each for each in (JSONRenderer, TextRenderer, EventRenderer, EventsRenderer)
}


class View(APIView):
    """The base of all views of /v0. view_of() makes the view of a path."""

    endpoints: dict[str, Endpoint] = {}  # by method
    api = V0
    name = ""
    authentication_classes: Sequence[type[Any]] = (Authentication,)
    permission_classes: Sequence[type[Any]] = (Permission,)
    renderer_classes: Sequence[type[renderers.BaseRenderer]] = (JSONRenderer, Page)
    form: Serializer | None = None  # the form that was posted

    def setup(self, request: HttpRequest, *args: Any, **kwargs: Any) -> None:
        self.started = time.perf_counter()
        super().setup(request, *args, **kwargs)

    def endpoint(self, request: Request) -> Endpoint | None:
        return self.endpoints.get("GET" if request.method == "HEAD" else str(request.method))

    def serve(self, request: Request, *_: Any, **arguments: str) -> HttpResponse:
        """Answers any method with the endpoint's script, on this thread's connection. The script does not wait at a pause."""
        endpoint = self.endpoint(request)
        assert endpoint is not None
        content_type, body = self.body(request, endpoint)
        accepted = request.accepted_renderer.media_type
        call: Call[Any, Any] = Call(
            request.auth or OPEN,
            {b"content-type": content_type, **wanted_headers(request)},
            request.META["QUERY_STRING"].encode("latin-1"),
            body,
            origin(request),
            self.started,
            accepted if accepted in endpoint.media else endpoint.media[0],
        )
        with acting(call.actor):
            return self.response(run(endpoint.script(call, tuple(arguments.values()))))

    def body(self, request: Request, endpoint: Endpoint) -> tuple[bytes, bytes]:
        """Returns the media type and the bytes of the body. A form becomes JSON. Raises ValidationError."""
        if not is_form_media_type(request.content_type):
            return request.META.get("CONTENT_TYPE", "").encode(), request.body
        self.form = form_of(endpoint)(data=request.data)
        return JSON.encode(), body_of(self.form)

    def get_serializer(self, **_: Any) -> Serializer:
        """Returns the form of a method, for Page. The posted form keeps its values and shows its errors."""
        method = str(self.request.method)
        is_posted = self.form is not None and method == self.request._request.method
        return self.form if is_posted else form_of(self.endpoints[method])()

    def get_view_name(self) -> str:
        return self.name

    def get_view_description(self, html: bool = False) -> str:
        """Returns the calls of this path, each with its first sentence and the fields of its query."""
        calls = [self.endpoints[method] for method in fast_path.METHODS if method in self.endpoints]
        told = ((each.method, each.summary.partition("\n")[0], query_of(each)) for each in calls)
        return format_html_join("", "<p><b>{}</b> {} {}</p>", told)

    def http_method_not_allowed(self, request: Request, *args: Any, **kwargs: Any) -> HttpResponse:
        raise fast_path.not_allowed(self.endpoints, str(request.method))

    def options(self, request: Request, *args: Any, **kwargs: Any) -> HttpResponse:
        return self.response(fast_path.options(self.endpoints))

    def handle_exception(self, exc: Exception) -> HttpResponse:
        key = getattr(self.request, "_auth", None)  # `auth` would authenticate again
        return self.response(self.api.refusal(domain_error(exc), self.started, key or OPEN))

    def response(self, answer: Answer) -> HttpResponse:
        headers = {name.decode(): value.decode() for name, value in answer.headers}
        content_type = headers.pop("content-type", JSON)
        if isinstance(getattr(self.request, "accepted_renderer", None), Page):
            return Response(answer.body, answer.status, headers=headers)
        return HttpResponse(answer.body, status=answer.status, headers=headers, content_type=content_type)

    def finalize_response(self, request: Request, response: HttpResponse, *args: Any, **kwargs: Any) -> HttpResponse:
        route = request.resolver_match.route if request.resolver_match else ""
        metrics.request(str(request.method), f"/{route}", response.status_code, time.perf_counter() - self.started)
        return super().finalize_response(request, response, *args, **kwargs)


def view_of(path: str, endpoints: dict[str, Endpoint]) -> Callable[..., Any]:
    """Returns the view of a path with these endpoints."""
    first = next(iter(endpoints.values()))
    members: dict[str, Any] = {
        "endpoints": endpoints,
        "api": first.api,
        "name": f"/{path}".replace("<str:", ":").replace(">", ""),
        "renderer_classes": (*(RENDERERS[each] for each in first.media), Page),
        **dict.fromkeys(map(str.lower, endpoints), View.serve),
    }
    if first.scope is None:
        members |= {"authentication_classes": (), "permission_classes": ()}
    made: Any = type("View", (View,), members)
    return made.as_view()


def query_of(endpoint: Endpoint) -> str:
    """Returns the fields of an endpoint's query in words."""
    fields = [field.encode_name for field in msgspec.structs.fields(endpoint.query)] if endpoint.query else []
    return f"Query: {', '.join(fields)}." if fields else ""


def wanted_headers(request: Request) -> dict[bytes, bytes]:
    """Returns the headers that handlers read: the idempotency key, and the attributes of an event."""
    return {
        name[len("HTTP_") :].replace("_", "-").lower().encode("latin-1"): value.encode("latin-1")
        for name, value in request.META.items()
        if name == "HTTP_IDEMPOTENCY_KEY" or name.startswith("HTTP_CE_")
    }

"""The schema, a page to try the API, and the answers of paths that do not exist (docs/wire.md)."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Sequence
from typing import Any, Literal

from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.views import defaults
from rest_framework.renderers import BaseRenderer, TemplateHTMLRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from base.errors import Internal, InvalidRequest, TopicsError
from store.database import translated
from wire.answer import error_answer
from wire.browsable.view import JSONRenderer, View
from wire.documents import asyncapi
from wire.documents.openapi import API, schema
from wire.request import parse
from wire.request.parse import STRICT, NoFields, parse_query
from wire.routes import Routes
from wire.schema import JSON

log = logging.getLogger(__name__)


class Open(View):
    """A page that needs no key. `query`: the shape of its query."""

    query: type[Any] = NoFields
    authentication_classes = permission_classes = ()
    renderer_classes: Sequence[type[BaseRenderer]] = (JSONRenderer,)

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        if STRICT or self.query is not NoFields:
            self.wanted = parse_query(request.META["QUERY_STRING"].encode("latin-1"), self.query)


class SchemaQuery(parse.Request):
    """The format of the schema."""

    format: Literal["openapi", "asyncapi"] = "openapi"
    """`openapi`: the calls, as OpenAPI 3.1. `asyncapi`: the streams and the WebSocket, as AsyncAPI 3."""


class Schema(Open):
    """GET /v0/schema."""

    query = SchemaQuery
    wanted: SchemaQuery
    described = API("", {}, {}, ())
    streams: Any = None

    def get(self, request: Request) -> Response:
        of_streams = self.wanted.format == "asyncapi"
        return Response(asyncapi.schema(self.streams) if of_streams else schema(self.described))


class Docs(Open):
    """GET /v0/docs: a page to try the API. It loads nothing from other servers."""

    renderer_classes = (TemplateHTMLRenderer,)

    def get(self, request: Request) -> Response:
        return Response(template_name="docs.html")


class Nothing(View):
    """Any other path under /v0."""

    schema = None
    routes = Routes(())

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        raise self.routes.missing(request.path)


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """The answer to a request with an invalid Host header, which Django refuses before a view is called."""
    if not request.path.startswith("/v0/"):
        return defaults.bad_request(request, exception)
    return plain(InvalidRequest(str(exception) or "the request is malformed"))


def failed(request: HttpRequest) -> HttpResponse:
    """The answer to an error that no view or middleware caught: 503 if PostgreSQL is away or its disk is full, else 500.

    Django logs a 500 with its traceback.
    """
    raised = sys.exc_info()[1]
    # A page's own query may have raised the domain's error already.
    error = raised if isinstance(raised, TopicsError) else translated(raised) if raised is not None else None
    is_call = request.path.startswith("/v0/")
    if error is None or error.status != 503:
        return plain(Internal()) if is_call else defaults.server_error(request)
    log.warning("%s %s was answered with 503: %s", request.method, request.path, error.message)
    answer = plain(error) if is_call else unavailable(error)
    answer._has_been_logged = True  # otherwise Django logs a bug, with a traceback
    return answer


def unavailable(error: TopicsError) -> HttpResponse:
    """Returns the 503 page for a page that needs PostgreSQL. The 503 page sends no query."""
    answer = HttpResponse(render_to_string("503.html", {"message": error.message}), status=503)
    answer["Retry-After"] = str(error.retry_after)
    answer["Cache-Control"] = "no-store"
    return answer


def plain(error: TopicsError) -> HttpResponse:
    answer = error_answer(error, time.perf_counter())
    headers = {name.decode(): value.decode() for name, value in answer.headers}
    return HttpResponse(answer.body, status=answer.status, content_type=JSON, headers=headers)

"""GET /: links to the server's pages for newcomers. As JSON for clients that accept JSON.

The page needs no login and no key, so it contains only information that /v0/health and /v0/ready give to everyone. No query runs,
so the page works while PostgreSQL is unavailable.
"""

from __future__ import annotations

from typing import NamedTuple

from django.conf import settings
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_safe
from django.views.decorators.vary import vary_on_headers

from base.clock import now_ms
from console.health import heartbeat

HTML, JSON = "text/html", "application/json"


class Signpost(NamedTuple):
    """A link to `path`. `name` is its name in JSON."""

    name: str
    path: str
    title: str
    says: str


SIGNPOSTS = (
    Signpost("docs", "/v0/docs", "API", "every call of /v0, with examples that the page can send"),
    Signpost("guide", "/docs/", "Docs", "concepts, tutorials, guides and reference, for this version"),
    Signpost("schema", "/v0/schema", "Schema", "the API as OpenAPI, to generate a client"),
    Signpost("admin", "/admin/", "Console", "topics, routers, keys and problems. Needs a login"),
    Signpost("health", "/v0/health", "Health", "whether this process runs"),
    Signpost("ready", "/v0/ready", "Readiness", "whether this process can serve, and the problems"),
    Signpost("metrics", "/v0/metrics", "Metrics", "metrics for Prometheus. Needs a key if keys are configured"),
)


@csrf_exempt  # a POST gets 405 instead of an error about a token
@require_safe
@never_cache
@vary_on_headers("Accept")
def signposts(request: HttpRequest) -> HttpResponse:
    """Returns the page as JSON or HTML. Clients that accept neither get HTML."""
    running = heartbeat.running(now_ms())
    if request.get_preferred_type([HTML, JSON]) == JSON:
        links = {each.name: each.path for each in SIGNPOSTS}
        return JsonResponse({"name": "topics", "version": settings.VERSION, "links": links, "running": running})
    context = {"signposts": SIGNPOSTS, "version": settings.VERSION, "running": running}
    return render(request, "console/signposts.html", context)

"""All URLs: the endpoints of /v0 and of the bus, and the WSGI pages of Django."""

from django.contrib import admin
from django.urls import path, re_path
from django.views.generic import RedirectView

from console.documents import document
from console.signposts import signposts
from groups.api import endpoints as groups_endpoints
from groups.api import streams as groups_streams
from mirrors.api import endpoints as mirrors_endpoints
from push.api.urls import endpoints as push_endpoints
from queues.api.urls import endpoints as queues_endpoints
from queues.api.urls import streams as queues_streams
from routers.api.urls import endpoints as routers_endpoints
from topics.api import health
from topics.api.urls import endpoints as topics_endpoints
from topics_project.description import ABOUT, NAMES, TAGS
from watch import eventstream
from watch.api import endpoints as watch_endpoints
from watch.api import streams as watch_streams
from wire import docs
from wire.api import V0
from wire.openapi import API
from wire.routes import Routes
from wire.view import view_of

ROUTES = Routes(
    (
        *topics_endpoints,
        *watch_endpoints,
        *queues_endpoints,
        *groups_endpoints,
        *mirrors_endpoints,
        *routers_endpoints,
        *push_endpoints,
    ),
    others=(
        "v0/topics/<str:topic>/events",
        "v0/topics/<str:topic>/groups/<str:group>/stream",
        "v0/topics/<str:topic>/work",
        "v0/watch/<str:wid>",
        "v0/ws",
        "v0/schema",
        "v0/docs",
    ),
)
DESCRIBED = API(
    ABOUT,
    TAGS,
    NAMES,
    (
        *(each for _, found in ROUTES for each in found.values() if each.api is V0),
        *watch_streams,
        *groups_streams,
        *queues_streams,
    ),
)

urlpatterns = [
    path("", signposts),
    path("docs", RedirectView.as_view(url="/docs/")),
    path("docs/", document),
    path("docs/<path:path>", document),
    path("admin/", admin.site.urls),
    *(path(route, view_of(route, endpoints)) for route, endpoints in ROUTES),
    path("v0/topics/<str:topic>/events", eventstream.events),
    path("v0/schema", docs.Schema.as_view(described=DESCRIBED)),
    path("v0/docs", docs.Docs.as_view()),
    path("healthz", view_of("healthz", {"GET": health.health})),
    path("readyz", view_of("readyz", {"GET": health.ready})),
    re_path("^v0(/|$)", docs.Nothing.as_view(routes=ROUTES)),
]
handler400 = "wire.docs.bad_request"
handler500 = "wire.docs.failed"

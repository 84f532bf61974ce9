"""All URLs: the endpoints of /v0 and of the bus, and the WSGI pages of Django."""

from django.contrib import admin
from django.urls import path, re_path
from django.views.generic import RedirectView

from console.documents import document
from console.signposts import signposts
from groups.api import endpoints as groups_endpoints
from groups.serve import streams as groups_streams
from mirrors.api import endpoints as mirrors_endpoints
from push.api.urls import endpoints as push_endpoints
from queues.api.urls import endpoints as queues_endpoints
from queues.serve import streams as queues_streams
from routers.api.urls import endpoints as routers_endpoints
from sockets.schema import SOCKET
from topics.api.urls import endpoints as topics_endpoints
from topics_project.description import ABOUT, ABOUT_STREAMS, NAMES, TAGS
from watch.api import endpoints as watch_endpoints
from watch.serve import streams as watch_streams
from wire.api import V0
from wire.browsable.view import view_of
from wire.documents import docs
from wire.documents.asyncapi import Streams
from wire.documents.openapi import API
from wire.routes import Routes

STREAMS = (*watch_streams, *groups_streams, *queues_streams)
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
    STREAMS,
    others=("v0/ws", "v0/schema", "v0/docs"),
)
DESCRIBED = API(
    ABOUT,
    TAGS,
    NAMES,
    (*(each for each in ROUTES.endpoints if each.api is V0), *STREAMS),
)
FOLLOWED = Streams(ABOUT_STREAMS, NAMES, STREAMS, SOCKET)

urlpatterns = [
    path("", signposts),
    path("docs", RedirectView.as_view(url="/docs/")),
    path("docs/", document),
    path("docs/<path:path>", document),
    path("admin/", admin.site.urls),
    *(path(route, view_of(route, endpoints)) for route, endpoints in ROUTES),
    path("v0/schema", docs.Schema.as_view(described=DESCRIBED, streams=FOLLOWED)),
    path("v0/docs", docs.Docs.as_view()),
    re_path("^v0(/|$)", docs.Nothing.as_view(routes=ROUTES)),
]
handler400 = "wire.documents.docs.bad_request"
handler500 = "wire.documents.docs.failed"

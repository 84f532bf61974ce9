"""Table of contents of everything served over WSGI: the admin and the /v0 API."""

from django.contrib import admin
from django.urls import include, path, re_path

from topics.api import health
from wire import docs

urlpatterns = [
    path("admin/", admin.site.urls),
    path("v0/", include("topics.api.urls")),
    path("v0/", include("routers.api.urls")),
    path("healthz", health.Health.as_view(schema=None)),
    path("readyz", health.Ready.as_view(schema=None)),
    re_path("^v0(/|$)", docs.Nothing.as_view()),
]
handler400 = "wire.docs.bad_request"
handler500 = "wire.docs.failed"

"""Table of contents of /v0/routers."""

from django.urls import path

from routers.api.routers import RouterEndpoint, RouterList

urlpatterns = [
    path("routers", RouterList.as_view()),
    path("routers/<str:router>", RouterEndpoint.as_view()),
]

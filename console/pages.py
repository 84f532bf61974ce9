"""The console's pages: routes, views and permissions. The first page of the admin is the overview."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, path

from base.clock import now_ms
from console import graph, groups, limits, live_page, overview, queue, router, schedules, series, topic, work
from console.site import Console

# Route, view (takes the site and the request), permission, name.
PAGES = (
    ("topic/<str:name>/", topic.page, "topics.view_topic", "console_topic"),
    ("topic/<str:name>/records/", topic.records, "topics.view_topic", "console_records"),
    ("topic/<str:name>/records/<int:seq>/", topic.record, "topics.view_topic", "console_record"),
    ("topic/<str:name>/groups/", groups.page, "topics.view_topic", "console_groups"),
    ("topic/<str:name>/queue/", queue.page, "topics.view_topic", "console_queue"),
    ("topic/<str:name>/schedules/", schedules.page, "topics.view_topic", "console_schedules"),
    ("topic/<str:name>/schedules/<str:schedule>/", schedules.one, "topics.view_topic", "console_schedule"),
    ("topic/<str:name>/append/", topic.append, "console.append_record", "console_append"),
    ("router/<str:name>/", router.page, "routers.view_router", "console_router"),
    ("router/<str:name>/pause/", router.pause, "routers.change_router", "console_pause"),
    ("router/<str:name>/move/", router.move, "console.move_router", "console_move"),
    ("graph/", graph.page, "routers.view_router", "console_graph"),
    ("live/", live_page.page, "topics.view_topic", "console_live"),
    ("limits/", limits.page, "topics.view_topic", "console_limits"),
    ("jobs/", work.page, "console.view_task", "console_jobs"),
    ("complete/", topic.complete, "topics.view_topic", "console_complete"),
)


class Site(Console):
    """The admin's site with the console's pages."""

    def index(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Returns the overview. A user without the permission to see topics gets Django's list of models."""
        if not request.user.has_perm("topics.view_topic"):
            return super().index(request, extra_context)
        request.current_app = self.name
        chosen = request.GET.get("range", overview.DEFAULT)
        chosen = chosen if chosen in series.RANGES else overview.DEFAULT
        shown = overview.overview(chosen, now_ms())
        return self.page(request, "console/overview.html", title="Overview", ranges=series.RANGES, **shown)

    def get_urls(self) -> list[URLPattern]:
        def guarded(view: Any, permission: str) -> Any:
            def allowed(request: HttpRequest, **arguments: Any) -> HttpResponse:
                if not request.user.has_perm(permission):
                    raise PermissionDenied
                return view(self, request, **arguments)

            return self.admin_view(allowed)

        ours = [path(route, guarded(view, permission), name=name) for route, view, permission, name in PAGES]
        return [*ours, path("all/", self.admin_view(super().index), name="all"), *super().get_urls()]

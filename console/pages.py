"""The console's pages: routes, views and permissions. The first page of the admin is the overview."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, path

from base.clock import now_ms
from console import limits, overview, work
from console.graph import graph, panel
from console.health import silence
from console.history import series
from console.lists import find, lists
from console.lists.kinds import KINDS
from console.live import live_page
from console.objects import groups, queue, router, schedules, subscribers, topic, webhook_actions, webhooks
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
    ("webhook/<str:name>/", webhooks.page, "push.view_webhook", "console_webhook"),
    ("webhook/<str:name>/<slug:action>/", webhook_actions.page, "push.view_webhook", "console_webhook_action"),
    ("graph/", graph.page, "routers.view_router", "console_graph"),
    ("graph/router/<str:name>/", panel.of_router, "routers.view_router", "console_router_panel"),
    ("graph/topic/<str:name>/", panel.of_topic, "topics.view_topic", "console_topic_panel"),
    ("subscriber/<int:id>/", subscribers.page, "push.view_subscriber", "console_subscriber"),
    ("subscriber/<int:id>/pause/", subscribers.pause, "push.change_subscriber", "console_subscriber_pause"),
    ("live/", live_page.page, "topics.view_topic", "console_live"),
    ("limits/", limits.page, "topics.view_topic", "console_limits"),
    *((f"list/{kind.path}/", lists.page_of(kind), kind.permission, f"console_list_{kind.path}") for kind in KINDS),
    ("signals/<int:id>/silence/", silence.page, "console.silence_signal", "console_silence"),
    ("tasks/", work.page, "console.view_task", "console_tasks"),
    ("find/", find.page, "topics.view_topic", "console_find"),
    ("complete/", topic.complete, "topics.view_topic", "console_complete"),
)


class ConsoleSite(Console):
    """The admin's site with the console's pages."""

    def index(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Returns the overview. A user without the permission to see topics gets Django's list of models."""
        if not request.user.has_perm("topics.view_topic"):
            return super().index(request, extra_context)
        request.current_app = self.name
        shown = overview.overview(series.chosen(request.GET.get("range", "")), now_ms())
        return self.page(request, "console/overview.html", title="Overview", wall="wall" in request.GET, **shown)

    def get_urls(self) -> list[URLPattern]:
        def guarded(view: Any, permission: str) -> Any:
            def allowed(request: HttpRequest, **arguments: Any) -> HttpResponse:
                if not request.user.has_perm(permission):
                    raise PermissionDenied
                return view(self, request, **arguments)

            return self.admin_view(allowed)

        ours = [path(route, guarded(view, permission), name=name) for route, view, permission, name in PAGES]
        return [*ours, path("all/", self.admin_view(super().index), name="all"), *super().get_urls()]

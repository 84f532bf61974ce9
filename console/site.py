"""The frame of every admin page: navigation, guards, and the context of templates. pages.py adds the pages."""

from __future__ import annotations

from functools import wraps
from http import HTTPStatus
from typing import Any

from django.conf import settings
from django.contrib.admin import AdminSite
from django.core.exceptions import BadRequest
from django.http import Http404, HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.functional import SimpleLazyObject

from base.errors import TopicsError

# Title, URL name, permission, and the path below the admin's root of further pages that belong to the entry.
NAV: tuple[tuple[str, str, str, str | None], ...] = (
    ("Overview", "admin:index", "topics.view_topic", None),
    ("Topics", "admin:topics_topic_changelist", "topics.view_topic", "topic/"),
    ("Routers", "admin:routers_router_changelist", "routers.view_router", "router/"),
    ("Graph", "admin:console_graph", "routers.view_router", None),
    ("Live", "admin:console_live", "topics.view_topic", None),
    ("Cursors", "admin:topics_cursor_changelist", "topics.view_cursor", None),
    ("Push", "admin:push_subscriber_changelist", "push.view_subscriber", "push/"),
    ("Pipeline", "admin:pipeline_run_changelist", "pipeline.view_run", "pipeline/"),
    ("Keys", "admin:topics_apikey_changelist", "topics.view_apikey", None),
    ("Limits", "admin:console_limits", "topics.view_topic", None),
    ("Jobs", "admin:console_jobs", "console.view_task", None),
    ("Audit", "admin:topics_auditentry_changelist", "topics.view_auditentry", None),
)


def lies_below(path: str, url: str, below: str | None) -> bool:
    """Returns True if a page belongs to this entry of the navigation. Every path begins with the root's, so the root must
    match exactly."""
    root = reverse("admin:index")
    return (
        path == url or (url != root and path.startswith(url)) or (below is not None and path.startswith(root + below))
    )


def whole(text: str) -> int | None:
    """Returns the whole number of a form or an address, or None for another text."""
    return int(text) if text.isdecimal() and len(text) < 19 else None


class Console(AdminSite):
    """Django's admin site with one navigation for Django's pages and the console's pages."""

    def each_context(self, request: HttpRequest) -> dict[str, Any]:
        context = super().each_context(request)
        shown = [
            (title, reverse(url), below) for title, url, permission, below in NAV if request.user.has_perm(permission)
        ]
        return {
            **context,
            "version": settings.VERSION,
            "nav": [(title, url) for title, url, _ in shown],
            "nav_here": next((url for _, url, below in shown if lies_below(request.path, url, below)), None),
        }

    def get_app_list(self, request: HttpRequest, app_label: str | None = None) -> Any:
        """Returns Django's list of models, computed on first use. Django passes it to every page for a sidebar that is
        switched off."""
        return SimpleLazyObject(lambda: super(Console, self).get_app_list(request, app_label))

    def page(self, request: HttpRequest, template: str, **context: Any) -> HttpResponse:
        """Returns a page of the console."""
        return TemplateResponse(request, template, {**self.each_context(request), **context})

    def admin_view(self, view: Any, cacheable: bool = False) -> Any:
        """Guards Django's pages and our pages. A NUL character in an address gets 400, because PostgreSQL would reject it. An
        object that is deleted while its page is made gets 404."""

        @wraps(view)
        def checked(request: HttpRequest, *places: Any, **arguments: Any) -> HttpResponse:
            given = (*arguments.values(), *(value for _, values in request.GET.lists() for value in values))
            if any("\0" in str(value) for value in given):
                raise BadRequest("invalid name: it contains a NUL character")
            try:
                return view(request, *places, **arguments)
            except TopicsError as error:
                if error.status != HTTPStatus.NOT_FOUND:
                    raise
                raise Http404(error.message) from error

        return super().admin_view(checked, cacheable)

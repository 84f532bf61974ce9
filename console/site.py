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

# By group: title, URL name, permission, and the paths below the admin's root of further pages that belong to the entry.
Entry = tuple[str, str, str, tuple[str, ...]]
NAV: dict[str, tuple[Entry, ...]] = {
    "Watch": (
        ("Overview", "admin:index", "topics.view_topic", ()),
        ("Graph", "admin:console_graph", "routers.view_router", ()),
        ("Live", "admin:console_live", "topics.view_topic", ()),
    ),
    "Data": (
        ("Topics", "admin:console_list_topics", "topics.view_topic", ("topic/", "topics/topic/")),
        ("Routers", "admin:console_list_routers", "routers.view_router", ("router/", "routers/router/")),
        ("Groups", "admin:console_list_groups", "topics.view_topic", ()),
        ("Queues", "admin:console_list_queues", "topics.view_topic", ()),
        ("Readers", "admin:console_list_readers", "topics.view_cursor", ("topics/cursor/",)),
    ),
    "Delivery": (
        ("Webhooks", "admin:console_list_webhooks", "push.view_webhook", ("webhook/",)),
        ("Bus", "admin:console_list_subscribers", "push.view_subscriber", ("subscriber/", "push/")),
    ),
    "Pipeline": (("Runs", "admin:pipeline_run_changelist", "pipeline.view_run", ("pipeline/",)),),
    "Server": (
        ("Keys", "admin:topics_apikey_changelist", "topics.view_apikey", ()),
        ("Limits", "admin:console_limits", "topics.view_topic", ()),
        ("Tasks", "admin:console_tasks", "console.view_task", ()),
        ("Audit", "admin:topics_auditentry_changelist", "topics.view_auditentry", ()),
    ),
}


def lies_below(path: str, url: str, below: tuple[str, ...]) -> bool:
    """Returns True if a page belongs to this entry of the navigation. Every path begins with the root's, so the root must
    match exactly."""
    root = reverse("admin:index")
    return (
        path == url or (url != root and path.startswith(url)) or path.startswith(tuple(root + each for each in below))
    )


MOST_WHOLE = 10**18 - 1


def whole(text: str) -> int | None:
    """Returns the whole number of a form or an address, up to MOST_WHOLE, or None for another text."""
    return int(text) if text.isdecimal() and len(text) < 19 else None


class Console(AdminSite):
    """Django's admin site with one navigation for Django's pages and the console's pages."""

    def each_context(self, request: HttpRequest) -> dict[str, Any]:
        context, has = super().each_context(request), request.user.has_perm
        nav = {
            group: [(title, reverse(url), below) for title, url, permission, below in entries if has(permission)]
            for group, entries in NAV.items()
        }
        here = (url for entries in nav.values() for _, url, below in entries if lies_below(request.path, url, below))
        return {
            **context,
            "version": settings.VERSION,
            "nav": [(group, entries) for group, entries in nav.items() if entries],
            "nav_here": next(here, None),
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

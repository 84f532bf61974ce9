"""The page of handlers in the admin of this project: their lag, their last error, and whether a process runs them."""

from __future__ import annotations

from typing import Any, NamedTuple

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest
from django.template.response import TemplateResponse
from django.urls import URLPattern, path

from topics_client.django.handlers import Handler, handlers
from topics_client.django.lag import Lag, lags
from topics_client.django.models import HandlerState
from topics_client.django.states import is_running


class Row(NamedTuple):
    handler: Handler
    lag: Lag
    state: HandlerState | None
    is_running: bool


def rows() -> list[Row]:
    """Returns a row for each handler of the code, also for one that never ran."""
    known = sorted(handlers.values(), key=lambda handler: handler.name)
    states = HandlerState.objects.in_bulk([handler.name for handler in known])
    return [
        Row(handler, lag, state := states.get(handler.name), is_running(state))
        for handler, lag in zip(known, lags(known), strict=True)
    ]


@admin.register(HandlerState)
class HandlerAdmin(admin.ModelAdmin):
    """One page, which changes nothing."""

    def get_urls(self) -> list[URLPattern]:
        name = f"{self.opts.app_label}_{self.opts.model_name}_changelist"
        return [path("", self.admin_site.admin_view(self.changelist_view), name=name)]

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> TemplateResponse:
        if not self.has_view_permission(request):
            raise PermissionDenied
        context = {**self.admin_site.each_context(request), "title": "Handlers", "opts": self.opts, "rows": rows()}
        return TemplateResponse(request, "topics_client/handlers.html", context | (extra_context or {}))

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: HandlerState | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: HandlerState | None = None) -> bool:
        return False

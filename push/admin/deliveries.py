"""The delivery log: each attempt of the last PUSH_LOG_DAYS. The log is read-only."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from base.units import amount, moment, size
from push.models import Delivery
from topics.admin.pages import ReadOnlyAdmin


class Outcome(admin.SimpleListFilter):
    title, parameter_name = "outcome", "outcome"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("acknowledged", "acknowledged"), ("failed", "failed")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Delivery]) -> QuerySet[Delivery]:
        return queryset if self.value() is None else queryset.filter(error__isnull=self.value() == "acknowledged")


@admin.register(Delivery)
class DeliveryAdmin(ReadOnlyAdmin):
    nothing_yet = "No deliveries yet, or the entries are older than PUSH_LOG_DAYS."
    list_display = ("when", "to", "outcome", "status", "attempt", "events_sent", "sent", "took", "batch_id")
    list_display_links = ("when",)
    list_filter = (Outcome,)
    list_select_related = ("subscriber__client",)
    ordering = ("-id",)
    search_fields = ("batch_id__exact", "subscriber__client__name__startswith")
    search_help_text = "Search for a batch's id, or for the start of a subscriber's name."
    fields = ("when", "to", "batch_id", "attempt", "outcome", "status", "events_sent", "sent", "took")
    readonly_fields = fields

    @admin.display(ordering="id")
    def when(self, delivery: Delivery) -> str | None:
        return moment(delivery.ts)

    @admin.display(description="subscriber")
    def to(self, delivery: Delivery) -> str:
        return str(delivery.subscriber)

    @admin.display
    def outcome(self, delivery: Delivery) -> str:
        return "acknowledged" if delivery.error is None else delivery.error

    @admin.display(description="events")
    def events_sent(self, delivery: Delivery) -> str:
        return amount(delivery.events)

    @admin.display(description="size")
    def sent(self, delivery: Delivery) -> str:
        return size(delivery.bytes)

    @admin.display(description="took")
    def took(self, delivery: Delivery) -> str:
        return f"{delivery.duration_ms:.1f} ms"

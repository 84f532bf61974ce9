"""Subscribers in the admin: their state, and operators' actions. Each page needs one query, and no page shows a secret."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.db.models.expressions import RawSQL
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html
from django.utils.safestring import mark_safe

from base.clock import now_ms
from base.errors import TopicsError
from base.units import amount, duration, moment, size
from push.models import Subscriber
from push.operate import drop_queue, redeliver, send_test, set_paused
from push.subscriptions import shown_callback, unsubscribe
from store.script import run
from topics.admin.pages import DomainAdmin


def of_queue(column: str) -> RawSQL:
    return RawSQL(f"(SELECT q.{column} FROM push_queues q WHERE q.client_id = push_subscriber.client_id)", ())


class RedeliverForm(forms.Form):
    seq = forms.IntegerField(
        required=False, min_value=1, label="From seq", help_text="A seq of the queue. Its event is delivered, too."
    )
    time = forms.DateTimeField(
        required=False,
        label="Or from a time",
        help_text="Redeliver events queued at this time or later. UTC, as 2026-01-31 09:30.",
    )

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        if not self.errors and (cleaned.get("seq") is None) == (cleaned.get("time") is None):
            self.add_error(None, "Enter a seq or a time.")
        return cleaned


@admin.register(Subscriber)
class SubscriberAdmin(DomainAdmin):
    nothing_yet = mark_safe(
        "No subscribers yet. A client of the push bus subscribes with <code>POST /subscription</code>"
    )
    columns = ("state", "health", "queued", "oldest", "last_delivery", "last_error")
    list_display = ("client", *columns)
    list_select_related = ("client",)
    list_filter = ("paused",)
    ordering = ("client__name", "client_id")
    search_fields = ("client__name__startswith",)
    search_help_text = "Search for the start of a name."
    actions = ("pause", "resume", "unsubscribe")
    fieldsets = (
        (
            "Now",
            {
                "fields": (
                    "client",
                    *columns,
                    "size_queued",
                    "under_way",
                    "sent",
                    "dropped_events",
                    "unreadable",
                    "passed_over",
                )
            },
        ),
        ("Subscription", {"fields": ("topics", "shown_callback", "timeout_ms", "max_events", "queue_topic", "since")}),
    )

    # -- Display ------------------------------------------------------------------------------------------------------

    @admin.display
    def state(self, subscriber: Subscriber) -> str:
        if subscriber.paused:
            return "paused"
        if subscriber.unsubscribed_ts is not None:
            return "unsubscribed"
        return "failing" if subscriber.last_error else "well"

    @admin.display(ordering="queued_records")
    def queued(self, subscriber: Subscriber) -> str:
        return amount(subscriber.queued_records)

    @admin.display(description="queued bytes")
    def size_queued(self, subscriber: Subscriber) -> str:
        return size(subscriber.queued_bytes)

    @admin.display(ordering="oldest_ts")
    def oldest(self, subscriber: Subscriber) -> str:
        oldest = subscriber.oldest_ts
        return "nothing" if oldest is None else duration(now_ms() - oldest)

    @admin.display(ordering="last_delivery_ts")
    def last_delivery(self, subscriber: Subscriber) -> str:
        return moment(subscriber.last_delivery_ts) or "never"

    @admin.display(description="under way")
    def under_way(self, subscriber: Subscriber) -> str:
        if subscriber.batch_id is None:
            return "nothing"
        return f"batch {subscriber.batch_id}, attempt {subscriber.batch_attempts}"

    @admin.display(description="sent")
    def sent(self, subscriber: Subscriber) -> str:
        return amount(subscriber.sent_total)

    @admin.display(description="dropped by autodrop")
    def dropped_events(self, subscriber: Subscriber) -> str:
        return amount(subscriber.dropped_total)

    @admin.display(description="unreadable, set aside")
    def unreadable(self, subscriber: Subscriber) -> str:
        return amount(subscriber.unreadable_total)

    @admin.display(description="skipped, not events")
    def passed_over(self, subscriber: Subscriber) -> str:
        return amount(subscriber.passed_total)

    @admin.display
    def topics(self, subscriber: Subscriber) -> str:
        return subscriber.topic_names or "none"

    @admin.display(description="callback")
    def shown_callback(self, subscriber: Subscriber) -> str:
        return shown_callback(subscriber.callback)

    @admin.display(description="queue")
    def queue_topic(self, subscriber: Subscriber) -> str:
        url = reverse("admin:topics_topic_changelist")
        return format_html('<a href="{}?q={}">{}</a>', url, subscriber.queue, subscriber.queue)

    @admin.display
    def since(self, subscriber: Subscriber) -> str | None:
        return moment(subscriber.created_ts)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Subscriber]:
        names = RawSQL(
            "(SELECT string_agg(substr(source.name, 5), ', ' ORDER BY source.name) FROM routers_router r"
            " JOIN topics_topic source ON source.id = r.source_id JOIN topics_topic dest ON dest.id = r.dest_id"
            " WHERE dest.name = push_subscriber.queue AND source.name ^@ 'bus:')",
            (),
        )
        return (
            super()
            .get_queryset(request)
            .annotate(
                queued_records=of_queue("records"),
                queued_bytes=of_queue("bytes"),
                oldest_ts=of_queue("oldest_ts"),
                topic_names=names,
            )
        )

    def get_readonly_fields(self, request: HttpRequest, obj: Subscriber | None = None) -> list[str]:
        return [name for _, options in self.fieldsets for name in options["fields"]]

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Subscriber | None = None) -> bool:
        return False  # the delivery log keeps its deliveries. An action ends its subscription

    # -- Actions ------------------------------------------------------------------------------------------------------

    @admin.action(description="Pause deliveries to selected subscribers", permissions=["change"])
    def pause(self, request: HttpRequest, queryset: QuerySet[Subscriber]) -> None:
        self.set_paused(request, queryset, True)

    @admin.action(description="Resume deliveries to selected subscribers", permissions=["change"])
    def resume(self, request: HttpRequest, queryset: QuerySet[Subscriber]) -> None:
        self.set_paused(request, queryset, False)

    @admin.action(description="Unsubscribe selected subscribers from all topics", permissions=["change"])
    def unsubscribe(self, request: HttpRequest, queryset: QuerySet[Subscriber]) -> None:
        """Unsubscribes clients that are no longer used. Queued events are still delivered."""
        ids = list(queryset.filter(unsubscribed_ts__isnull=True).values_list("pk", flat=True))
        for id in ids:
            run(unsubscribe(id, None, now_ms()))
        messages.success(request, f"{len(ids)} unsubscribed.")

    def set_paused(self, request: HttpRequest, queryset: QuerySet[Subscriber], paused: bool) -> None:
        ids = list(queryset.values_list("pk", flat=True))
        for id in ids:
            run(set_paused(id, paused))
        messages.success(request, f"{len(ids)} {'paused' if paused else 'resumed'}.")

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view
        return [
            path("<int:id>/redeliver/", view(self.redeliver_view), name="push_subscriber_redeliver"),
            path("<int:id>/drop/", view(self.drop_view), name="push_subscriber_drop"),
            path("<int:id>/test/", view(self.test_view), name="push_subscriber_test"),
            *super().get_urls(),
        ]

    def found(self, request: HttpRequest, id: int) -> Subscriber:
        """Returns the subscriber, if the user may change it. Raises Http404 or PermissionDenied."""
        subscriber: Subscriber | None = self.get_object(request, str(id))
        if subscriber is None:
            raise Http404
        if not self.has_change_permission(request, subscriber):
            raise PermissionDenied
        return subscriber

    def page(self, request: HttpRequest, subscriber: Subscriber, template: str, **context: Any) -> HttpResponse:
        shared = {**self.admin_site.each_context(request), "opts": self.opts, "original": subscriber}
        return TemplateResponse(request, f"admin/push/subscriber/{template}.html", {**shared, **context})

    def back(self, request: HttpRequest, subscriber: Subscriber, done: str) -> HttpResponse:
        self.log_change(request, subscriber, done)
        messages.success(request, done)
        return HttpResponseRedirect(reverse("admin:push_subscriber_change", args=[subscriber.pk]))

    def redeliver_view(self, request: HttpRequest, id: int) -> HttpResponse:
        """Shows a form for a seq or a time. After a valid POST, delivery continues from there."""
        subscriber = self.found(request, id)
        form = RedeliverForm(request.POST or None)
        if request.method == "POST" and form.is_valid():
            time = form.cleaned_data["time"]
            ts = None if time is None else int(time.timestamp() * 1000)
            try:
                place = run(redeliver(subscriber.pk, subscriber.queue, form.cleaned_data["seq"], ts, now_ms()))
            except TopicsError as error:
                form.add_error(None, error.message)
            else:
                return self.back(
                    request, subscriber, f"Delivery continues at seq {amount(place.seq + 1)} of the queue."
                )
        return self.page(request, subscriber, "redeliver", title="Redeliver", form=form)

    def drop_view(self, request: HttpRequest, id: int) -> HttpResponse:
        """Shows the number of events that would be dropped. A POST drops them."""
        subscriber = self.found(request, id)
        if request.method == "POST":
            try:
                gone = run(drop_queue(subscriber.pk, subscriber.queue, now_ms()))
            except TopicsError as error:
                messages.error(request, error.message)
                return HttpResponseRedirect(request.path)
            return self.back(request, subscriber, f"{amount(gone)} queued events will not be delivered.")
        return self.page(request, subscriber, "drop", title="Drop the queue", queued=self.queued(subscriber))

    def test_view(self, request: HttpRequest, id: int) -> HttpResponse:
        """Describes the test event. A POST sends the event."""
        subscriber = self.found(request, id)
        if request.method == "POST":
            try:
                run(send_test(subscriber.queue, now_ms()))
            except TopicsError as error:
                messages.error(request, error.message)
                return HttpResponseRedirect(request.path)
            return self.back(request, subscriber, "A test event is queued.")
        return self.page(request, subscriber, "test", title="Send a test event")

"""Subscribers in the admin: their state, and operators' actions. Each page needs one query, and no page shows a secret."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db.models import JSONField, QuerySet
from django.db.models.expressions import RawSQL
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html
from django.utils.safestring import mark_safe

from base.clock import now_ms
from base.errors import TopicsError
from base.units import amount, counted, duration, moment, sentence, size
from push.bus.operate import current_batch, drop_queue, events_of, redeliver, redelivery, send_test, set_paused, skip
from push.bus.subscriptions import shown_callback, unsubscribe
from push.models import Subscriber
from store.script import run
from topics.admin.pages import DomainAdmin, refused

# Every figure of a queue is read at once, because the view computes all of them.
QUEUE = """
(SELECT jsonb_build_object('records', q.records, 'bytes', q.bytes, 'oldest_ts', q.oldest_ts) FROM push_queues q
  WHERE q.client_id = push_subscriber.client_id)
"""
TOPICS = """
(SELECT string_agg(substr(source.name, 5), ', ' ORDER BY source.name) FROM routers_router r
   JOIN topics_topic source ON source.id = r.source_id JOIN topics_topic dest ON dest.id = r.dest_id
  WHERE dest.name = push_subscriber.queue AND source.name ^@ 'bus:')
"""


MOST_CHARACTERS = 500  # of an event on the page that skips it


class RedeliverForm(forms.Form):
    seq = forms.IntegerField(
        required=False,
        min_value=1,
        max_value=2**63 - 1,
        label="From seq",
        help_text="A seq of the queue. Its event is delivered, too.",
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


class SkipForm(forms.Form):
    batch = forms.CharField(widget=forms.HiddenInput)
    upto = forms.IntegerField(label="Skip up to seq", help_text="Events after it are delivered, in a new batch.")


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
                    "next_attempt",
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

    @admin.display(ordering="queue_now__records")
    def queued(self, subscriber: Subscriber) -> str:
        return amount(subscriber.queue_now["records"])

    @admin.display(description="queued bytes")
    def size_queued(self, subscriber: Subscriber) -> str:
        return size(subscriber.queue_now["bytes"])

    @admin.display(ordering="queue_now__oldest_ts")
    def oldest(self, subscriber: Subscriber) -> str:
        oldest = subscriber.queue_now["oldest_ts"]
        return "nothing" if oldest is None else duration(now_ms() - oldest)

    @admin.display(ordering="last_delivery_ts")
    def last_delivery(self, subscriber: Subscriber) -> str:
        return moment(subscriber.last_delivery_ts) or "never"

    @admin.display(description="under way")
    def under_way(self, subscriber: Subscriber) -> str:
        if subscriber.batch_id is None:
            return "nothing"
        return f"batch {subscriber.batch_id}, attempt {subscriber.batch_attempts}"

    @admin.display(description="next attempt")
    def next_attempt(self, subscriber: Subscriber) -> str:
        waits = subscriber.retry_ts - now_ms()
        return f"in {duration(waits)}" if waits > 0 and not subscriber.paused else "-"

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
        with_topics = Subscriber.objects.annotate(topic_names=RawSQL(TOPICS, ())).filter(pk=subscriber.pk)
        return with_topics.values_list("topic_names", flat=True)[0] or "none"

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
        return super().get_queryset(request).annotate(queue_now=RawSQL(QUEUE, (), output_field=JSONField()))

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
            path("<int:id>/skip/", view(self.skip_view), name="push_subscriber_skip"),
            path("<int:id>/drop/", view(self.drop_view), name="push_subscriber_drop"),
            path("<int:id>/test/", view(self.test_view), name="push_subscriber_test"),
            *super().get_urls(),
        ]

    def page_of(
        self, subscriber: Subscriber, request: HttpRequest, name: str, title: str, **context: Any
    ) -> HttpResponse:
        return self.page(request, f"push/subscriber/{name}", title, original=subscriber, **context)

    def back(self, request: HttpRequest, subscriber: Subscriber, done: str) -> HttpResponse:
        self.log_change(request, subscriber, done)
        messages.success(request, done)
        return HttpResponseRedirect(reverse("admin:push_subscriber_change", args=[subscriber.pk]))

    def redeliver_view(self, request: HttpRequest, id: int) -> HttpResponse:
        """Shows a form for a seq or a time. A valid POST counts the events, and a confirmed one delivers them again."""
        subscriber = self.found(request, id, self.has_change_permission)
        form = RedeliverForm(request.POST or None, initial={"seq": request.GET.get("seq", "")})
        shown: dict[str, Any] = {}
        if request.method == "POST" and form.is_valid():
            time = form.cleaned_data["time"]
            wanted = form.cleaned_data["seq"], None if time is None else int(time.timestamp() * 1000), now_ms()
            try:
                if "confirmed" in request.POST:
                    again = run(redeliver(subscriber.pk, subscriber.queue, *wanted))
                    done = (
                        f"{amount(again.events)} events will be delivered again, from seq {again.seq + 1} of the queue."
                    )
                    return self.back(request, subscriber, done)
                again = run(redelivery(subscriber.queue, *wanted))
                shown = {"again": again, "counted": amount(again.events)}
            except TopicsError as error:
                form.add_error(None, sentence(error.message))
        return self.page_of(subscriber, request, "redeliver", "Redeliver", form=form, **shown)

    def skip_view(self, request: HttpRequest, id: int) -> HttpResponse:
        """Shows the events of the batch that fails. A POST skips them, or the first of them."""
        subscriber = self.found(request, id, self.has_change_permission)
        form = SkipForm(request.POST or None)
        if request.method == "POST" and form.is_valid():
            try:
                gone = run(skip(subscriber.pk, form.cleaned_data["batch"], form.cleaned_data["upto"], now_ms()))
            except TopicsError as error:
                form.add_error(None, sentence(error.message))
            else:
                return self.back(request, subscriber, f"Skipped {counted(gone, 'event')}. Delivery continues after it.")
        batch = run(current_batch(subscriber.pk))
        events = run(events_of(subscriber.queue, batch, now_ms())) if batch else []
        if batch and not form.is_bound:
            form.initial = {"batch": batch.id, "upto": batch.last_seq}
        shown = [(each.seq, each.excerpt(MOST_CHARACTERS)) for each in events]
        return self.page_of(subscriber, request, "skip", "Skip events", form=form, batch=batch, events=shown)

    def drop_view(self, request: HttpRequest, id: int) -> HttpResponse:
        """Shows the number of events that would be dropped. A POST drops them."""
        subscriber = self.found(request, id, self.has_change_permission)
        if request.method == "POST":
            try:
                gone = run(drop_queue(subscriber.pk, subscriber.queue, now_ms()))
            except TopicsError as error:
                return refused(request, error)
            return self.back(request, subscriber, f"{amount(gone)} queued events will not be delivered.")
        return self.page_of(subscriber, request, "drop", "Drop the queue", queued=self.queued(subscriber))

    def test_view(self, request: HttpRequest, id: int) -> HttpResponse:
        """Describes the test event. A POST sends the event."""
        subscriber = self.found(request, id, self.has_change_permission)
        if request.method == "POST":
            try:
                run(send_test(subscriber.queue, now_ms()))
            except TopicsError as error:
                return refused(request, error)
            return self.back(request, subscriber, "A test event is queued.")
        return self.page_of(subscriber, request, "test", "Send a test event")

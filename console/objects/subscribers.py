"""The page of a subscriber of the bus: its figures, the batch that waits, and its calls (docs/push.md)."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.html import format_html

from base.clock import now_ms
from base.errors import NotFound
from base.units import amount, counted, duration, waits
from console.history import charts, series
from console.live.live import part
from console.objects.calls import MOST_ROWS, CallsForm, ShownCall
from console.site import Console, whole
from push import figures
from push.bus.operate import current_batch, events_of, set_paused
from push.bus.subscriptions import shown_callback
from push.figures import ListedSubscriber, LoggedAttempt
from push.models import Subscriber
from store.script import run

CHANGE = "push.change_subscriber"
OUTCOMES = ("delivered", "failed")
MOST_CHARACTERS = 2_000  # of an event of the batch that waits


def found(id: int) -> tuple[Subscriber, ListedSubscriber]:
    """Returns the subscriber, and its figures. Raises NotFound."""
    subscriber = Subscriber.objects.select_related("client").filter(pk=id).first()
    listed = run(figures.named([subscriber.queue])) if subscriber else []
    if subscriber is None or not listed:
        raise NotFound("this subscriber does not exist")
    return subscriber, listed[0]


def in_words(subscriber: Subscriber, listed: ListedSubscriber, now: int) -> str:
    """Returns the state of a subscriber as a sentence."""
    if subscriber.paused:
        return f"Paused. {waits(listed.records, 'event')}."
    if subscriber.batch_attempts and subscriber.last_error:
        rest = f" The next attempt comes in {duration(subscriber.retry_ts - now)}." if subscriber.retry_ts > now else ""
        return f"{counted(subscriber.batch_attempts, 'attempt')} of its batch failed. {waits(listed.records, 'event')}.{rest}"
    return f"{waits(listed.records, 'event')}." if listed.records else "All events are delivered."


def state(id: int, chosen: str, now: int) -> dict[str, Any]:
    """Returns the part of the context that changes while the page is open. Raises NotFound."""
    subscriber, listed = found(id)
    shown = series.window(chosen, now)
    own = series.read("topic", [listed.queue_id or 0], shown)[listed.queue_id or 0]
    batch = run(current_batch(id)) if listed.queue_id else None
    events = run(events_of(subscriber.queue, batch, now)) if batch else []
    return {
        "subscriber": subscriber,
        "listed": listed,
        "words": in_words(subscriber, listed, now),
        "age_ms": None if listed.oldest_ts is None else now - listed.oldest_ts,
        "last": run(figures.last_calls(id)),
        "batch": batch,
        "events": [(each.seq, each.excerpt(MOST_CHARACTERS)) for each in events],
        "rate_chart": charts.chart(
            "Events queued per second",
            shown.times,
            [charts.ChartLine("events", "one", own.rates("head_seq"))],
            charts.per_second,
        ),
        "queued_chart": charts.chart(
            "Queued events", shown.times, [charts.ChartLine("events", "two", own.values("lag"))]
        ),
    }


def shown_call(each: LoggedAttempt, subscriber: Subscriber) -> ShownCall:
    """Returns a row of the page. A batch that failed is tried again by itself, so only a delivered one can be sent again."""
    events, again_url = counted(each.events, "event"), ""
    sent = format_html("{}", events)
    if each.first_seq is not None:
        record = reverse("admin:console_record", args=[subscriber.queue, each.first_seq])
        sent = format_html('<a href="{}">{} from {}</a>', record, events, amount(each.first_seq))
        if each.error is None:
            again_url = f"{reverse('admin:push_subscriber_redeliver', args=[subscriber.pk])}?seq={each.first_seq}"
    return ShownCall(
        each.id,
        each.ts,
        "failed" if each.error else "delivered",
        sent,
        each.attempt,
        each.status,
        each.ms,
        None,
        each.error,
        None,
        again_url,
    )


def page(site: Console, request: HttpRequest, id: int) -> HttpResponse:
    """Returns the page with its calls, the newest first. `before`: the last call of the page before."""
    chosen = series.chosen(request.GET.get("range", ""))
    context = state(id, chosen, now_ms())
    subscriber, form = context["subscriber"], CallsForm(request.GET, OUTCOMES)
    given = form.cleaned_data if form.is_valid() else {}
    outcome, since = given.get("outcome") or "", given.get("since") or 0
    before = whole(request.GET.get("before", "")) or 2**62
    rows = run(figures.page_of_attempts(id, outcome, since, before, MOST_ROWS + 1))
    context |= {
        "calls": [shown_call(each, subscriber) for each in rows[:MOST_ROWS]],
        "following": rows[MOST_ROWS - 1].id if len(rows) > MOST_ROWS else None,
        "is_filtered": bool(outcome or since),
        "form": form,
        "may_send": request.user.has_perm(CHANGE),
        "callback": shown_callback(subscriber.callback),
    }
    title = subscriber.client.name
    return site.page(request, "console/subscriber.html", title=title, name=title, **series.choices(chosen), **context)


def pause(site: Console, request: HttpRequest, id: int) -> HttpResponse:
    """Pauses or resumes deliveries, or lets the next attempt come at once. Takes a POST. Raises NotFound or PermissionDenied."""
    if not request.user.has_perm(CHANGE):
        raise PermissionDenied
    if request.method == "POST":
        subscriber, _ = found(id)
        paused = request.POST.get("paused") == "1"
        run(set_paused(id, paused))
        done = "paused" if paused else "running again" if subscriber.paused else "tried again now"
        messages.success(request, f"{subscriber.client.name} is {done}.")
    return HttpResponseRedirect(reverse("admin:console_subscriber", args=[id]))


@part("subscriber", "push.view_subscriber")
def live(subject: str) -> str:
    """Returns the part of the page as HTML. Raises NotFound."""
    chosen, _, id = subject.partition("/")
    context = state(whole(id) or 0, series.chosen(chosen), now_ms())
    return render_to_string("console/subscriber_part.html", context)

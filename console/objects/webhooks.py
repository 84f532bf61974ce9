"""Pages of webhooks: a list, and a page for each with its figures and its calls (docs/webhooks.md)."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

import msgspec
from django import forms
from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import mark_safe

from base.clock import now_ms
from base.units import amount, counted, duration, waits
from console.history import charts, series
from console.live.live import part
from console.objects.calls import MOST_ROWS, CallsForm, ShownCall
from console.site import Console, whole
from console.templatetags.console import topic
from push.webhooks import deliveries, figures, webhooks
from push.webhooks.config import DEAD
from push.webhooks.deliveries import LogFilter, LoggedCall
from push.webhooks.sources import JoinedTopic, topics_of
from push.webhooks.webhooks import Stored, WaitingCount
from store.script import run

OUTCOMES = ("delivered", "failed", "dead", "skipped", "lost")


def in_words(webhook: Stored, waiting: WaitingCount, now: int) -> str:
    """Returns what the webhook does now, for people."""
    if webhook.paused:
        return f"Paused: {webhook.pause_reason or 'an operator paused it'}. Records wait in their topics."
    if webhook.state == "failing":
        rest = f" The next call comes in {duration(webhook.retry_ts - now)}." if webhook.retry_ts > now else ""
        return f"The last {counted(webhook.failures, 'call')} failed, so the endpoint gets one call at a time.{rest}"
    if waiting.records:
        left = (waiting.next_ts or 0) - now
        due = f", the first for {duration(left)}" if left > 0 else ""
        return f"{waits(waiting.records, 'record')} for another call{due}."
    return "All records that it has read are delivered, or their attempts are over."


def named_topics(webhook: Stored) -> list[JoinedTopic]:
    """Returns the topics that the config names, those furthest behind first. Those of a prefix can be many."""
    names = [each for each in webhook.settings.topics if not each.endswith("*")]
    settings = msgspec.structs.replace(webhook.settings, topics=names)
    found = run(topics_of(webhook.name, settings, webhook.prefixes))
    return sorted(found, key=lambda each: (1 if each.lag is None else -each.lag, each.name))


def state(webhook: Stored, chosen: str, now: int) -> dict[str, Any]:
    """Returns the part of the context that changes while the page is open."""
    waiting = run(webhooks.waiting([webhook.id])).get(webhook.id, WaitingCount())
    shown = series.window(chosen, now)
    own = series.read("hook", [webhook.id], shown)[webhook.id]
    calls, failed, spent = own.rates("records"), own.rates("errors"), own.rates("bytes")
    means = [None if not number or ms is None else ms / number for number, ms in zip(calls, spent, strict=True)]
    return {
        "webhook": webhook,
        "words": in_words(webhook, waiting, now),
        "waiting": waiting,
        "last": run(figures.last_calls(webhook.id)),
        "topics": named_topics(webhook),
        "patterns": [each for each in webhook.settings.topics if each.endswith("*")],
        "rate_chart": charts.chart(
            "Per second",
            shown.times,
            [
                charts.ChartLine("records delivered", "three", own.rates("head_seq")),
                charts.ChartLine("calls", "one", calls),
                charts.ChartLine("failed calls", "two", failed),
                *series.beside("hook", webhook.id, shown)(lambda past: past.rates("head_seq")),
            ],
            charts.per_second,
        ),
        "time_chart": charts.chart(
            "Mean time of a call", shown.times, [charts.ChartLine("time", "one", means)], lambda ms: f"{ms:.0f} ms"
        ),
        "waiting_chart": charts.chart(
            "Records that wait for another call",
            shown.times,
            [charts.ChartLine("records", "two", own.values("lag"))],
        ),
    }


class WebhookCallsForm(CallsForm):
    """Which calls the page shows, also by the records that they sent."""

    topic = forms.CharField(required=False, label="Topic")
    seq = forms.IntegerField(required=False, min_value=1, max_value=2**63 - 1, label="Seq")
    field_order = ("outcome", "topic", "seq", "since")

    def clean(self) -> dict[str, Any]:
        given: dict[str, Any] = self.cleaned_data
        if given.get("seq") is not None and not given.get("topic"):
            self.add_error("topic", "A seq belongs to a topic: enter the topic, too.")
        return given

    def conditions(self) -> LogFilter:
        given = self.cleaned_data
        return LogFilter(given["topic"] or None, given["seq"], given["outcome"] or None, given["since"], None)


def shown_call(each: LoggedCall, name: str) -> ShownCall:
    """Returns a row of the page. A line about records that were lost or skipped is no call."""
    is_test, again_url = each.topic == deliveries.TEST_TOPIC, ""
    record = reverse("admin:console_record", args=[each.topic, each.first_seq])
    last = f" to {amount(each.last_seq)}" if each.last_seq != each.first_seq else ""
    sent = format_html('{} <a href="{}">{}</a>{}', topic(each.topic), record, amount(each.first_seq), last)
    if each.message and not is_test:
        query = urlencode({"topic": each.topic, "from": each.first_seq, "to": each.last_seq})
        again_url = f"{reverse('admin:console_webhook_action', args=[name, 'replay'])}?{query}"
    return ShownCall(
        each.id,
        each.ts,
        each.state,
        mark_safe("a test") if is_test else sent,
        each.attempt,
        each.status,
        each.ms if each.message else None,
        each.next_ts,
        each.error,
        each.answer,
        again_url,
    )


def page(site: Console, request: HttpRequest, name: str) -> HttpResponse:
    """Returns the page of a webhook with its calls, the newest first. `before`: the last call of the page before."""
    webhook, chosen = run(webhooks.find(name)), series.chosen(request.GET.get("range", ""))
    form = WebhookCallsForm(request.GET, OUTCOMES)
    conditions = form.conditions() if form.is_valid() else LogFilter()
    before = whole(request.GET.get("before", "")) or 2**62
    rows = run(deliveries.page_of_deliveries(webhook.id, conditions, before, MOST_ROWS + 1))
    context = {
        **state(webhook, chosen, now_ms()),
        "calls": [shown_call(each, name) for each in rows[:MOST_ROWS]],
        "following": rows[MOST_ROWS - 1].id if len(rows) > MOST_ROWS else None,
        "is_filtered": any(value is not None for value in conditions),
        "form": form,
        "settings": webhooks.hidden(webhook.settings),
        "attempts": len(webhook.settings.retry.schedule_ms) + 1,
        "dead": f"{DEAD}{name}",
        "may_send": request.user.has_perm("push.change_webhook"),
    }
    return site.page(request, "console/webhook.html", title=name, name=name, **series.choices(chosen), **context)


@part("webhook", "push.view_webhook")
def live(subject: str) -> str:
    """Returns the part of the page as HTML. Raises NotFound."""
    chosen, _, name = subject.partition("/")
    context = state(run(webhooks.find(name)), series.chosen(chosen), now_ms())
    return render_to_string("console/webhook_part.html", context)

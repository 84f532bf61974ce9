"""The format of numbers, times and states on all pages of the console."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Literal
from urllib.parse import quote

from django import template
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from base import units
from base.clock import now_ms

register = template.Library()
MIDDLE = 48  # characters of a name; a longer name shows both ends


@register.filter
def amount(number: int | Literal[""] | None) -> str:
    """Returns a number with separators. Templates pass "" for a field of None, which also means unknown."""
    return "–" if number is None or number == "" else units.amount(number)


@register.filter
def size(count: int | None) -> SafeString | str:
    """Returns bytes in a readable unit, with the exact number as a tooltip."""
    return (
        "–"
        if count is None
        else format_html('<span title="{} bytes">{}</span>', units.amount(count), units.size(count))
    )


@register.filter
def duration(ms: float | None) -> str:
    return "–" if ms is None else units.duration(int(ms))


@register.filter
def rate(value: float | None) -> str:
    """Returns a rate per second."""
    if value is None:
        return "–"
    return f"{value:,.0f}/s" if value >= 10 else f"{value:.1f}/s"


@register.filter
def when(ts: int | None) -> SafeString | str:
    """Returns a time, and its age or the time until then."""
    if not ts:
        return "never"
    exact = f"{datetime.fromtimestamp(ts / 1000, UTC):%Y-%m-%d %H:%M:%S}"
    age = now_ms() - ts
    apart = f"{units.duration(age)} ago" if age >= 0 else f"in {units.duration(-age)}"
    return format_html(
        '<time datetime="{}Z">{} <span class="quiet">{}</span></time>', exact.replace(" ", "T"), exact, apart
    )


@register.filter
def since(ts: int) -> str:
    """Returns the time from `ts` until now."""
    return units.duration(now_ms() - ts)


@register.filter
def name(text: str) -> SafeString:
    """Returns a name of any length: a long name shows both ends, with all of it as a tooltip. <bdi> isolates its text
    direction."""
    shown = text if len(text) <= MIDDLE else f"{text[: MIDDLE // 2]}…{text[-MIDDLE // 2 + 1 :]}"
    return format_html('<bdi title="{}">{}</bdi>', text, shown)


@register.filter
def topic(name_of: str) -> SafeString:
    """Returns a topic's name as a link to its page."""
    return format_html('<a href="{}">{}</a>', topic_url(name_of), name(name_of))


@register.filter
def router(name_of: str) -> SafeString:
    return format_html('<a href="{}">{}</a>', router_url(name_of), name(name_of))


@register.filter
def state(value: str) -> SafeString:
    """Returns a state as a coloured mark: running, paused, blocked, stalled, ok, silent."""
    return format_html('<span class="state {}">{}</span>', value, value)


def topic_url(name_of: str) -> str:
    return reverse("admin:console_topic", args=[name_of])


def schedules_url(name_of: str) -> str:
    return reverse("admin:console_schedules", args=[name_of])


def router_url(name_of: str) -> str:
    return reverse("admin:console_router", args=[name_of])


def webhook_url(name_of: str) -> str:
    return reverse("admin:console_webhook", args=[name_of])


@register.simple_tag(takes_context=True)
def with_query(context: Any, **changes: Any) -> str:
    """Returns this page's query with some parameters changed. A change to None removes the parameter."""
    query = context["request"].GET.copy()
    for key, value in changes.items():
        query.pop(key, None)
        if value is not None:
            query[key] = value
    return f"?{query.urlencode()}" if query else "."


@register.filter
def quoted(text: str) -> str:
    return quote(text, safe="")

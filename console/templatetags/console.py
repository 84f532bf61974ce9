"""How the console's pages write numbers, times and states: the same everywhere."""

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
MIDDLE = 48  # characters of a name that is shown whole; of a longer one both ends


@register.filter
def amount(number: int | Literal[""] | None) -> str:
    """A number with separators. A template has "" for what is behind nothing: that is not known either."""
    return "–" if number is None or number == "" else units.amount(number)


@register.filter
def size(count: int | None) -> SafeString | str:
    """Bytes in a readable unit; hovering tells all of them."""
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
    """So many a second."""
    if value is None:
        return "–"
    return f"{value:,.0f}/s" if value >= 10 else f"{value:.1f}/s"


@register.filter
def when(ts: int | None) -> SafeString | str:
    """A time: how long ago, and when exactly."""
    if not ts:
        return "never"
    exact = f"{datetime.fromtimestamp(ts / 1000, UTC):%Y-%m-%d %H:%M:%S}"
    ago = units.duration(now_ms() - ts)
    return format_html(
        '<time datetime="{}Z">{} <span class="quiet">{} ago</span></time>', exact.replace(" ", "T"), exact, ago
    )


@register.filter
def since(ts: int) -> str:
    """The time from then until now."""
    return units.duration(now_ms() - ts)


@register.filter
def name(text: str) -> SafeString:
    """A name of any length: both ends of a long one, and all of it on hovering. Its direction is its own affair."""
    shown = text if len(text) <= MIDDLE else f"{text[: MIDDLE // 2]}…{text[-MIDDLE // 2 + 1 :]}"
    return format_html('<bdi title="{}">{}</bdi>', text, shown)


@register.filter
def topic(name_of: str) -> SafeString:
    """A topic as a link to its page."""
    return format_html('<a href="{}">{}</a>', topic_url(name_of), name(name_of))


@register.filter
def router(name_of: str) -> SafeString:
    return format_html('<a href="{}">{}</a>', router_url(name_of), name(name_of))


@register.filter
def state(value: str) -> SafeString:
    """A state as a mark in its colour: running, paused, blocked, stalled; ok, silent."""
    return format_html('<span class="state {}">{}</span>', value, value)


def topic_url(name_of: str) -> str:
    return reverse("admin:console_topic", args=[name_of])


def router_url(name_of: str) -> str:
    return reverse("admin:console_router", args=[name_of])


@register.simple_tag(takes_context=True)
def with_query(context: Any, **changes: Any) -> str:
    """The query of this page with some parameters changed, or, where a change is None, without them."""
    query = context["request"].GET.copy()
    for key, value in changes.items():
        query.pop(key, None)
        if value is not None:
            query[key] = value
    return f"?{query.urlencode()}" if query else "."


@register.filter
def quoted(text: str) -> str:
    return quote(text, safe="")

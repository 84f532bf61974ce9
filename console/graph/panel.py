"""The panel beside the graph: a router or a topic with its figures, its last three hours, and what an operator can do with it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse

from base.clock import now_ms
from base.units import amount
from console.history import charts, series
from console.history.series import Series
from console.objects import router, topic
from console.site import Console
from console.templatetags.console import duration, rate, router_url, size, topic_url, when
from routers.lag import Lagging, lagging
from routers.reposition import place
from store.script import run

Action = tuple[str, str, str]  # what it is called, the page that explains it, and the permission that the page needs


def allowed(request: HttpRequest, actions: Iterable[Action]) -> list[tuple[str, str]]:
    return [(title, url) for title, url, permission in actions if request.user.has_perm(permission)]


def history(kind: str, id: int, now: int) -> Series:
    return series.read(kind, [id], series.window(series.DEFAULT, now))[id]


def of_router(site: Console, request: HttpRequest, name: str) -> HttpResponse:
    """Returns the panel of a router. `site` is not used: a panel has no frame."""
    found, now = router.found(name), now_ms()
    lag, at = run(lagging([found.id], now)).get(found.id, Lagging(0, None, False)), run(place(found))
    state = lag.shown(found.state)
    past = history("router", found.id, now)
    rates = past.rates("head_seq")
    actions: list[Action] = [
        (
            "Resume" if found.state == "paused" else "Pause",
            reverse("admin:console_pause", args=[name]),
            "routers.change_router",
        ),
        ("Skip or move", reverse("admin:console_move", args=[name]), "console.move_router"),
        ("Open the router", router_url(name), "routers.view_router"),
    ]
    if at.next_seq is not None:
        url = reverse("admin:console_record", args=[found.source, at.next_seq])
        actions.insert(0, (f"Next record, seq {amount(at.next_seq)}", url, "topics.view_topic"))
    context: dict[str, Any] = {
        "name": name,
        "state": state,
        "words": router.in_words(found, lag, state),
        "error": found.last_error,
        "figures": [
            ("Rate", rate(charts.last(rates))),
            ("Lag", amount(lag.lag)),
            ("Oldest waits", duration(lag.oldest_unread_ms)),
        ],
        "sparks": [
            ("Forwarded per second", charts.sparkline(rates, "records per second")),
            ("Lag", charts.sparkline(past.values("lag"), "records behind")),
        ],
        "actions": allowed(request, actions),
    }
    return render(request, "console/panel.html", context)


def of_topic(site: Console, request: HttpRequest, name: str) -> HttpResponse:
    """Returns the panel of a topic. `site` is not used: a panel has no frame."""
    found, now = topic.found(name), now_ms()
    past = history("topic", found.state.id, now)
    rates = past.rates("head_seq")
    query = urlencode({"topic": name})
    actions: list[Action] = [
        ("Records", reverse("admin:console_records", args=[name]), "topics.view_topic"),
        ("Live", f"{reverse('admin:console_live')}?{query}", "topics.view_topic"),
        ("Append a record", reverse("admin:console_append", args=[name]), "console.append_record"),
        ("Trim", reverse("admin:topics_topic_trim", args=[found.state.id]), "topics.delete_topic"),
        ("Around it", f"{reverse('admin:console_graph')}?{urlencode({'focus': name})}", "routers.view_router"),
        ("Open the topic", topic_url(name), "topics.view_topic"),
    ]
    if found.jobs is not None:
        actions.insert(0, ("Jobs", reverse("admin:console_queue", args=[name]), "topics.view_topic"))
    context: dict[str, Any] = {
        "name": name,
        "figures": [
            ("Rate", rate(charts.last(rates))),
            ("Head", amount(found.state.head_seq)),
            ("Records", amount(found.state.records)),
            ("Payload", size(found.state.bytes)),
            ("Last write", when(found.state.last_write_ts)),
        ],
        "sparks": [
            ("Records per second", charts.sparkline(rates, "records per second")),
            ("Lag of the slowest cursor", charts.sparkline(past.values("lag"), "records behind")),
        ],
        "actions": allowed(request, actions),
    }
    return render(request, "console/panel.html", context)

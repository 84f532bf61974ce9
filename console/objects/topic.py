"""A topic's pages: its state, writers and readers, its records, and a form for a test record."""

from __future__ import annotations

import json
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.template.loader import render_to_string
from django.urls import reverse

from base.clock import now_ms
from base.errors import InvalidRequest, TopicNotFound, TopicsError
from console.history import charts, rollups, series
from console.lists.find import names
from console.live.live import part
from console.objects import reading
from console.records import browse, listing
from console.records.record_form import RecordForm
from console.site import Console
from mirrors import sites
from routers.models import Router
from store.script import run
from topics import audit, wake
from topics.append.appending import append as append_records
from topics.append.records import Append, check_rows
from topics.models import Topic
from topics.read.describe import Held, held
from topics.read.lineage import TracedRecord, elsewhere
from topics.read.lineage import record as find_record

MOST_COMPLETED = 20
MOST_DESTS = 20  # of a record that its page names


def found(name: str) -> Held:
    """Returns the topic. Raises Http404."""
    try:
        return run(held(name, now_ms()))
    except (TopicNotFound, InvalidRequest) as error:  # also for a name that no topic can have
        raise Http404(error.message) from error


def around(topic: Held, here: str) -> dict[str, Any]:
    """Returns the context of all pages of a topic: its name and its tabs."""
    name = topic.state.name
    return {"name": name, "title": name, "tab": here, "is_queue": topic.jobs is not None}


def state(topic: Held, chosen: str, now: int) -> dict[str, Any]:
    """Returns the part of the context that changes while the page is open."""
    shown = series.window(chosen, now)
    own = series.read("topic", [topic.state.id], shown)[topic.state.id]
    rates, ago = own.rates("head_seq"), series.beside("topic", topic.state.id, shown)
    routers, cursors = reading.routers(topic.state.id, now), reading.cursors(topic.state.id, topic.state.head_seq)
    sessions = reading.sessions(topic.state.name, topic.state.head_seq)
    return {
        "name": topic.state.name,
        "state": topic.state,
        "rate": charts.last(rates),
        "stored": reading.stored(topic.state.id),
        "pinned": reading.pinned(topic.state.id),
        "rate_chart": charts.chart(
            "Records per second",
            shown.times,
            [
                charts.ChartLine("in", "one", rates),
                *ago(lambda past: past.rates("head_seq")),
            ],
            charts.per_second,
            series.changes("topic", topic.state.name, shown),
        ),
        "lag_chart": charts.chart(
            "Lag of the slowest cursor",
            shown.times,
            [
                charts.ChartLine("records", "two", own.values("lag")),
                *ago(lambda past: past.values("lag")),
            ],
            charts.short,
        ),
        "volume_chart": rollups.volume(topic.state.id, shown),
        "routers": routers[: reading.MOST_ROWS],
        "more_routers": len(routers) > reading.MOST_ROWS,
        "mirror": run(sites.state(topic.state.name)),
        "readers": [*cursors[: reading.MOST_ROWS], *sessions[: reading.MOST_SESSIONS]],
        "more_cursors": len(cursors) > reading.MOST_ROWS,
        "more_sessions": len(sessions) > reading.MOST_SESSIONS,
    }


def page(site: Console, request: HttpRequest, name: str) -> HttpResponse:
    topic = found(name)
    chosen = series.chosen(request.GET.get("range", ""))
    config = {name: json.dumps(getattr(topic.config, name)) for name in topic.config.__struct_fields__}
    context = {**around(topic, "now"), **state(topic, chosen, now_ms()), "config": config}
    return site.page(request, "console/topic.html", **series.choices(chosen), **context)


@part("topic", "topics.view_topic")
def live(subject: str) -> str:
    """Returns the part of the page as HTML. Raises TopicNotFound."""
    chosen, _, name = subject.partition("/")
    topic = run(held(name, now_ms()))
    return render_to_string("console/topic_part.html", state(topic, series.chosen(chosen), now_ms()))


def records(site: Console, request: HttpRequest, name: str) -> HttpResponse:
    """Returns a page of the record browser."""
    topic = found(name)
    form = browse.JumpForm(request.GET)
    try:
        shown = browse.browse(topic, form)
    except TopicsError as error:
        form.add_error(None, error.message)
        shown = browse.nothing(topic)
    page, bars = shown["page"], listing.draw_bars(shown["slices"], shown["page"], request.GET)
    rows = listing.draw_rows(name, page.rows, shown.get("goal"), request.GET)
    drawn = {"rows": rows, "bars": bars, "forwarded": listing.any_forwarded(page.rows)}
    context = {**around(topic, "records"), "state": topic.state, "form": form, **drawn, **shown}
    return site.page(request, "console/records.html", downloads=may_download(request), **context)


def record(site: Console, request: HttpRequest, name: str, seq: int) -> HttpResponse:
    """Returns a page with one record and the routers that forwarded it. Raises Http404, TopicNotFound or NotFound."""
    topic = found(name)
    if seq > browse.LONGEST_SEQ:
        raise Http404(f"record {seq} does not exist")
    one = run(find_record(name, seq, now_ms()))
    dests = dict(Router.objects.filter(name__in=one.routers).values_list("name", "dest__name"))
    stops = [(router, dests.get(router)) for router in one.routers]
    context = {**around(topic, "records"), "state": topic.state, "seq": seq, "one": one, "stops": stops}
    others = went(one, name)
    context |= {"went": others[:MOST_DESTS], "more_dests": len(others) > MOST_DESTS}
    context |= {"neighbours": browse.neighbours(topic, seq)}
    lines, raw = browse.excerpt(browse.indented(one.record)), browse.excerpt(one.record)
    drawn = {"raw": raw, "shown": lines, "size": len(one.record.encode()), "downloads": may_download(request)}
    return site.page(request, "console/record.html", stamps=browse.stamps(one.record), **drawn, **context)


def went(one: TracedRecord, name: str) -> list[tuple[str, int]]:
    """Returns where else a record is: its dests, beside the topic of the page and its home, which the path shows. At least one
    more than MOST_DESTS, if there are so many."""
    return [each for each in run(elsewhere(one.home, one.home_seq, MOST_DESTS + 2)) if each[0] != name]


def may_download(request: HttpRequest) -> bool:
    """Returns True if the page offers downloads."""
    return settings.TOPICS_CONSOLE_DOWNLOADS and request.user.has_perm("console.export_records")


def append(site: Console, request: HttpRequest, name: str) -> HttpResponse:
    """Returns a form for one test record, or appends the record."""
    topic = found(name)
    form = RecordForm(request.POST or None, initial={"data": '{"test": true}'})
    if request.method == "POST" and form.is_valid():
        try:
            wanted = Append([form.record()], create=False)
            with transaction.atomic():
                done = run(append_records(name, wanted, check_rows(wanted), now_ms()))
                run(audit.note("create", "records", name, after={"seq": done.first_seq, "by": "a form of the console"}))
                # A follower that the append itself woke may have read before our commit. So we wake followers again after the
                # commit.
                transaction.on_commit(lambda: wake.announce(topic.state.id, done.last_seq, routed=True))
        except TopicsError as error:
            form.add_error(None, error.message)
        else:
            messages.success(request, f"Appended as seq {done.first_seq:,}.")
            return HttpResponseRedirect(reverse("admin:console_record", args=[name, done.first_seq]))
    context = {**around(topic, "append"), "state": topic.state, "form": form}
    return site.page(request, "console/append.html", **context)


def complete(site: Console, request: HttpRequest) -> HttpResponse:
    """Returns topics whose names contain the typed text, for fields with completion. Names that begin with the text come
    first."""
    found = names(Topic, request.GET.get("q", "")[:255], MOST_COMPLETED)
    return JsonResponse({"found": [{"name": name} for name in found]})

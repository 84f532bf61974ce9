"""A queue's page: figures, jobs in flight, dead letters, and a form that sends dead letters back."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect

from base.clock import now_ms
from base.errors import TopicNotFound, TopicsError
from base.units import counted
from console.site import Console
from console.templatetags.console import jobs_url
from console.topic import around, found
from queues.dead import DELIVERIES, ERROR, SEQ
from queues.in_flight import in_flight
from queues.letters import Choice, Letter, choose
from queues.redrive import Redriven, redrive, redrive_chosen
from store.script import run
from topics import audit, wake
from wire.keys import OPEN

MOST_JOBS, MOST_LETTERS = 50, 20
PERMISSION = "console.append_record"


class LetterRow(NamedTuple):
    """A dead letter: the seq in the dead letter topic, the seq in the queue, deliveries, and the last error."""

    seq: int
    src_seq: int | None
    deliveries: int | None
    error: str | None


def page(site: Console, request: HttpRequest, name: str) -> HttpResponse:
    """Returns the page. A POST sends the counted dead letters back. Raises Http404 for a log."""
    topic, now = found(name), now_ms()
    if topic.jobs is None:
        raise Http404(f"{name} is a log")
    dead = topic.config.dead_letter or None
    if request.method == "POST":
        if not request.user.has_perm(PERMISSION):
            raise PermissionDenied
        send_back(request, name, dead, now)
        return HttpResponseRedirect(jobs_url(name))
    context = {
        **around(topic, "jobs"),
        "state": topic.state,
        "config": topic.config,
        "jobs": topic.jobs,
        "flying": run(in_flight(topic.state.id, MOST_JOBS)),
        **letters(name, dead, now),
    }
    return site.page(request, "console/queue.html", **context)


def letters(name: str, dead: str | None, now: int) -> dict[str, Any]:
    """Returns the dead letters of the queue, and how many of them a redrive would move."""
    if dead is None:
        return {"letters": []}
    try:
        chosen = run(choose(dead, Choice(queue=name), now))
        preview = run(redrive_chosen(dead, chosen, OPEN, now, is_dry=True))
    except TopicNotFound:  # no job was moved so far
        return {"letters": []}
    except TopicsError as error:
        return {"letters": [], "trouble": error.message}
    rows = [row(each) for each in chosen.letters[:MOST_LETTERS]]
    return {
        "letters": rows,
        "found": len(chosen.letters),
        "movable": sum(preview.moved.values()),
        "whole": preview.caught_up,
    }


def row(letter: Letter) -> LetterRow:
    meta = msgspec.json.decode(letter.meta, type=dict[str, Any])
    return LetterRow(letter.seq, meta.get(SEQ), meta.get(DELIVERIES), meta.get(ERROR))


def send_back(request: HttpRequest, name: str, dead: str | None, now: int) -> None:
    """Moves up to 1,000 dead letters to the queue, and tells the user the outcome. The audit log keeps the number of letters."""
    if dead is None:
        return
    try:
        with transaction.atomic():
            done = run(redrive(dead, Choice(queue=name), OPEN, now))
            moved = sum(done.moved.values())
            run(audit.note("redrive", "records", dead, after={"queue": name, "moved": moved}))
            transaction.on_commit(
                lambda: announce(name)
            )  # a worker that the redrive woke may have looked before our commit
    except TopicsError as error:
        messages.error(request, error.message)
        return
    messages.success(request, outcome(done, moved))
    for each in done.skipped:
        messages.error(request, f"{counted(len(each.seqs), 'dead letter')} cannot go back: {each.error.message}")


def announce(name: str) -> None:
    """Wakes the workers and readers of the queue."""
    state = found(name).state
    wake.announce(state.id, state.head_seq, routed=True)


def outcome(done: Redriven, moved: int) -> str:
    more = "" if done.caught_up else " Other dead letters are left: send these back, too."
    return f"Sent {counted(moved, 'dead letter')} back to the queue.{more}"

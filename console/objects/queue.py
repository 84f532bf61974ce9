"""A queue's page: figures, jobs in flight, and dead letters (letters.py)."""

from __future__ import annotations

from typing import Any

from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.loader import render_to_string

from base.clock import now_ms
from console.live.live import part
from console.objects import letters
from console.objects.topic import around, found
from console.site import Console
from queues.in_flight import in_flight
from store.script import run
from topics.read.describe import Held, held

MOST_JOBS = 50


def queue(name: str) -> Held:
    """Returns the queue. Raises Http404 for a log."""
    topic = found(name)
    if topic.jobs is None:
        raise Http404(f"{name} is a log")
    return topic


def state(topic: Held) -> dict[str, Any]:
    """Returns the part of the context that changes while the page is open."""
    flying = run(in_flight(topic.state.id, MOST_JOBS))
    return {"name": topic.state.name, "config": topic.config, "jobs": topic.jobs, "flying": flying}


def page(site: Console, request: HttpRequest, name: str) -> HttpResponse:
    """Returns the page. A POST handles the counted dead letters. Raises Http404 for a log."""
    topic = queue(name)
    dead = topic.config.dead_letter or None
    if request.method == "POST":
        letters.handle(request, name, dead)
        return HttpResponseRedirect(request.get_full_path())
    shown = {
        **around(topic, "jobs"),
        "state": topic.state,
        **state(topic),
        **letters.preview(request, name, dead, now_ms()),
    }
    return site.page(request, "console/queue.html", **shown)


@part("queue", "topics.view_topic")
def live(name: str) -> str:
    """Returns the part of the page as HTML. Raises TopicNotFound."""
    return render_to_string("console/queue_part.html", state(run(held(name, now_ms()))))

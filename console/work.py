"""The Tasks page: Celery's queue, workers, beat's schedule, and failed tasks."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string

from base.clock import now_ms
from console import jobs
from console.health import heartbeat, processes
from console.live.live import part
from console.models import Failure, Task
from console.site import Console

MOST_FAILURES = 50


def state(now: int) -> dict[str, Any]:
    """Returns the part of the context that changes while the page is open."""
    scheduled = jobs.schedule()
    known = {each.task for each in scheduled}
    return {
        "queue": heartbeat.waiting_tasks(),
        "processes": [each for each in processes.living(now, 0.0) if each.kind in (*heartbeat.NEEDED, "push", "Redis")],
        "scheduled": scheduled,
        "others": [task for task in Task.objects.order_by("name") if task.name not in known],
        "failures": Failure.objects.order_by("-id")[:MOST_FAILURES],
    }


def page(site: Console, request: HttpRequest) -> HttpResponse:
    return site.page(request, "console/jobs.html", title="Tasks", **state(now_ms()))


@part("jobs", "console.view_task")
def live(_: str) -> str:
    return render_to_string("console/jobs_part.html", state(now_ms()))

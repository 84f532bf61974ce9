"""The Live page: an operator picks topics and a node, and sees new records. tail.py serves the stream."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse

from console.site import Console
from console.tail import MOST_TOPICS
from topics.models import Topic


def page(site: Console, request: HttpRequest) -> HttpResponse:
    chosen = [name for name in request.GET.getlist("topic") if name][:MOST_TOPICS]
    known = set(Topic.objects.filter(name__in=chosen).values_list("name", flat=True))
    recent = Topic.objects.order_by("-head__last_ts", "name").values_list("name", flat=True)[:10] if not chosen else []
    return site.page(
        request,
        "console/live.html",
        title="Live",
        chosen=chosen,
        absent=[name for name in chosen if name not in known],
        recent=recent,
        node=request.GET.get("node", ""),
        tag=request.GET.get("tag", ""),
    )

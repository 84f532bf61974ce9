"""The Live page: an operator picks topics and a node, and sees new records. tail.py serves the stream."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse

from console.live.tail import MOST_TOPICS
from console.site import Console
from store.database import prepared
from topics.models import Topic

# Topics that were written lately are unsettled. Others have a sample from when they changed, so few rows are read.
RECENT = """
WITH found AS MATERIALIZED (
    (SELECT topic_id FROM unsettled_heads() ORDER BY last_ts DESC LIMIT 10)
     UNION (SELECT object_id FROM (SELECT * FROM console_sample ORDER BY ts DESC LIMIT 200) newest WHERE kind = 'topic'
             GROUP BY object_id ORDER BY max(ts) DESC, object_id LIMIT 10))
SELECT t.name FROM found
 CROSS JOIN LATERAL (SELECT name FROM topics_topic WHERE id = found.topic_id LIMIT 1) t
 CROSS JOIN LATERAL (SELECT last_ts FROM topic_heads WHERE topic_id = found.topic_id LIMIT 1) h
 ORDER BY h.last_ts DESC, t.name LIMIT 10
"""


def page(site: Console, request: HttpRequest) -> HttpResponse:
    chosen = [name for name in request.GET.getlist("topic") if name][:MOST_TOPICS]
    known = set(Topic.objects.filter(name__in=chosen).values_list("name", flat=True))
    recent = [name for (name,) in prepared(RECENT, ())] if not chosen else []
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

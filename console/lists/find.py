"""The search on every page: it finds topics, routers, webhooks, groups and pages by a part of their names."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlencode

from django.http import HttpRequest, JsonResponse
from django.urls import reverse

from console.site import NAV, Console
from console.templatetags.console import router_url, topic_url, webhook_url
from push.models import Webhook
from routers.models import Router
from store.database import prepared
from topics.models import Topic

MOST = 8  # of each kind
Place = tuple[str, str]  # what it is called, and the address of its page
# Sorts by the id, too, so that no index has all columns (groups/figures.py).
GROUPS = """
SELECT g.name, t.name
  FROM (SELECT id, topic_id, name FROM groups_group WHERE name ^@ %(typed)s ORDER BY name, topic_id LIMIT %(most)s) g
 CROSS JOIN LATERAL (SELECT name FROM topics_topic WHERE id = g.topic_id LIMIT 1) t
 ORDER BY g.name, t.name, g.id
"""


def page(site: Console, request: HttpRequest) -> JsonResponse:
    """Returns what matches: names, and the addresses of their pages. Topics come first, and names that begin with the text."""
    typed = request.GET.get("q", "").strip()[:255]
    search = urlencode({"q": typed})
    topics = [(name, topic_url(name)) for name in names(Topic, typed, MOST + 1)]
    places = shown(topics, typed, "topics", f"{reverse('admin:topics_topic_changelist')}?{search}")
    if request.user.has_perm("routers.view_router"):
        routers = [(f"{name} (router)", router_url(name)) for name in names(Router, typed, MOST + 1)]
        places += shown(routers, typed, "routers", f"{reverse('admin:routers_router_changelist')}?{search}")
    if request.user.has_perm("push.view_webhook"):
        webhooks = [(f"{name} (webhook)", webhook_url(name)) for name in names(Webhook, typed, MOST + 1)]
        places += shown(webhooks, typed, "webhooks", reverse("admin:console_list_webhooks"))
    groups = [
        (f"{name} of {topic} (group)", reverse("admin:console_groups", args=[topic]))
        for name, topic in prepared(GROUPS, {"typed": typed, "most": MOST + 1})
    ]
    places += shown(groups, typed, "groups", reverse("admin:console_list_groups"))
    for entries in NAV.values():
        for title, url, permission, _ in entries:
            if typed.lower() in title.lower() and request.user.has_perm(permission):
                places.append((f"{title} (page)", reverse(url)))
    return JsonResponse({"found": [{"name": name, "url": url} for name, url in places]})


def shown(places: list[Place], typed: str, kind: str, url: str) -> list[Place]:
    """Returns the first MOST places of a kind. If there are others, the last one leads to the list of all."""
    return [*places[:MOST], (f"{typed} (more {kind})".strip(), url)] if len(places) > MOST else places


def names(model: type[Topic | Router | Webhook], typed: str, most: int) -> Iterator[str]:
    """Yields names that contain the text: first those that begin with it."""
    begins = model.objects.filter(name__startswith=typed).order_by("name").values_list("name", flat=True)[:most]
    yield from begins
    if typed and len(begins) < most:
        others = model.objects.filter(name__contains=typed).exclude(name__startswith=typed).order_by("name")
        yield from others.values_list("name", flat=True)[: most - len(begins)]

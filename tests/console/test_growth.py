"""Every page of the console, and GET /v0/metrics, read as much as they show, however many topics and samples there are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.contrib.admin import site
from django.db import connection
from django.db.models import Model
from django.test import Client
from django.urls import URLPattern, URLResolver, reverse

from base.clock import now_ms
from console.health.signals import judge
from console.history.samples import MINUTE_MS
from tests.plans import run

pytestmark = pytest.mark.deep(53)


FEW, MANY = 3_000, 9_000
# Pages of tables, their indexes and long values, since the transaction began.
PAGES = """
SELECT sum(pg_stat_get_xact_blocks_fetched(oid))::bigint FROM pg_class
 WHERE relnamespace IN ('public'::regnamespace, 'pg_toast'::regnamespace)
"""
FILL = (Path(__file__).parent / "growth.sql").read_text()
OUTSIDE = ("login", "logout", "view_on_site")  # of the registered pages: they show nothing, or redirect to another site
LISTS = [
    f"/admin/list/{kind}/?{query}"
    for kind in ("topics", "routers", "queues", "groups", "readers", "webhooks", "subscribers")
    for query in ("prefix=t1.", "state=trouble", "after=t1.~", "state=paused")
]
OTHERS = ("/v0/metrics", "/v0/topics", "/v0/routers", "/admin/graph/?prefix=t1", "/admin/?range=24h", *LISTS)
NAMED = {
    "router/": "SELECT min(name) FROM routers_router",
    "groups/": "SELECT min(name) FROM topics_topic WHERE id IN (SELECT topic_id FROM groups_group)",
    "queue/": "SELECT min(name) FROM topics_topic WHERE type = 'queue'",
    "schedules/": "SELECT min(name) FROM topics_topic WHERE id IN (SELECT topic_id FROM queues_schedule)",
    "webhook/": "SELECT min(name) FROM push_webhook",
    "": "SELECT min(name) FROM topics_topic WHERE name ^@ 't1.'",
}


def fill(first: int, last: int, *, whole: bool) -> None:
    """Makes topics (growth.sql), and tells the planner about them."""
    now = now_ms()
    minute = now // MINUTE_MS * MINUTE_MS
    with connection.cursor() as cursor:
        cursor.execute(FILL, {"first": first, "last": last, "whole": whole, "now": now, "minute": minute})
        cursor.execute("ANALYZE")


def addresses() -> Iterator[str]:
    """Yields the address of each page that is registered with the console."""

    def patterns(found: list[URLPattern | URLResolver]) -> Iterator[URLPattern]:
        for each in found:
            if isinstance(each, URLResolver):
                yield from patterns(each.url_patterns)
            elif each.name:
                yield each

    for page in patterns(site.get_urls()):
        if page.name not in OUTSIDE:
            yield reverse(f"admin:{page.name}", kwargs=parts_of(page))


def parts_of(page: URLPattern) -> dict[str, Any]:
    """Returns a value for each part of a page's address, of an object that exists."""
    if page.name == "app_list":
        return {"app_label": "topics"}
    known: dict[str, Any] = {"seq": 3, "schedule": "nightly", "action": "replay"}
    route = str(page.pattern)
    for part in page.pattern.converters:
        if part == "name":
            ((known[part],),) = run(next(name_of for place, name_of in NAMED.items() if place in route))
        elif part in ("object_id", "id"):
            known[part] = model_of(str(page.name)).objects.order_by("pk").values_list("pk", flat=True).first() or 1
    return {part: known[part] for part in page.pattern.converters}


def model_of(page: str) -> type[Model]:
    if page == "console_silence":
        return apps.get_model("console", "Signal")
    if page.startswith("console_subscriber"):
        return apps.get_model("push", "Subscriber")
    return next(each for each in site._registry if page.startswith(f"{each._meta.app_label}_{each._meta.model_name}_"))


def read_by_each(browser: Client, few: Mapping[str, int] | None = None) -> dict[str, int]:
    """Returns the pages that each address reads, with plans for these values and with plans for all values.

    `few`: what it read of few topics. Then an address is asked once, and again only if it seems to read more.
    """
    judgements = apps.get_model("console", "Judgement").objects
    found: dict[str, int] = {}
    while not judge([], now_ms())[1]:  # it opens the signals of every part, whose objects lists show first
        pass
    for plans in ("force_custom_plan", "force_generic_plan"):
        with connection.cursor() as cursor:
            cursor.execute(f"SET LOCAL plan_cache_mode = {plans}")
        for address in (*dict.fromkeys(addresses()), *OTHERS):
            judgements.all().delete()  # each address judges the same parts
            name = f"{address} {plans}"
            found[name] = read_by(browser, address)
            # The first time, PostgreSQL plans and the process fills its caches.
            if few is None or found[name] > bound(few[name]):
                found[name] = read_by(browser, address)
    return found


def read_by(browser: Client, address: str) -> int:
    ((before,),) = run(PAGES)
    assert browser.get(address).status_code in (200, 302, 403), address
    ((after,),) = run(PAGES)
    return int(after - before)


def bound(few: int) -> float:
    """Returns how many pages an address may read of many topics."""
    return 1.1 * few + 30


def test_pages_do_not_grow_with_the_topics(browser: Client) -> None:
    with connection.cursor() as cursor:  # dead rows of other tests would fill pages of theirs
        cursor.execute("TRUNCATE topics_topic, console_sample, topics_auditentry CASCADE")
    fill(1, FEW, whole=True)
    few = read_by_each(browser)
    fill(FEW + 1, MANY, whole=False)
    many = read_by_each(browser, few)
    assert len(few) > 200
    assert {page: (few[page], read) for page, read in many.items() if read > bound(few[page])} == {}

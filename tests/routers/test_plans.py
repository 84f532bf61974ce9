"""What the routers run finds its rows by index and touches no more than it forwards or shows, whatever the planner believes
(tests/plans.py): with much in the source, many spans in the dest, and many other routers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from django.contrib.admin import site

from routers import advance, graph, metrics
from routers.lag import lagging, lags_of_all
from routers.models import Router
from routers.stored import page_of_routers
from store import script
from tests import scripts
from tests.plans import (
    FILL_DEST,
    FILL_HOME,
    NOW,
    RECORDS,
    believing,
    check_planned,
    make,
    rolled_back,
    route,
    run,
    topics,
)
from tests.scripts import record
from wire.access.keys import OPEN

__all__ = ["rolled_back", "topics"]
pytestmark = [pytest.mark.deep, pytest.mark.usefixtures("rolled_back")]
OTHERS = 3_200  # routers, at the most
AHEAD = 10  # records that the home has and the dests have not
LATER = NOW + 2 * RECORDS


def fill() -> dict[str, int]:
    """A topic of own records; two that show them through spans of 1 and of 10,000, and lead on; and one with a hundred dests."""
    home = make("home", FILL_HOME, records=RECORDS + AHEAD)
    ids = {
        "home": home,
        "short": make("short", FILL_DEST, home=home, length=1, stamp="home>short"),
        "long": make("long", FILL_DEST, home=home, length=10_000),
        "fan": make("fan", FILL_HOME, records=20_000),
        **{name: make(name) for name in ("after-short", "after-long", *(f"leaf{n}" for n in range(100)))},
    }
    route(
        [
            ("home", "short"),
            ("short", "after-short"),
            ("long", "after-long"),
            *(("fan", f"leaf{n}") for n in range(100)),
        ]
    )
    return ids


class Case(NamedTuple):
    most: int  # rows it may touch
    work: Callable[[dict[str, int]], Any]
    given: str = ""  # what is changed before


def back(router: str, seq: int, **fields: str) -> str:
    """The router stands there, and is such a one."""
    moved = f"UPDATE topics_cursor SET seq = {seq} WHERE name = '{router}';"
    changed = "".join(
        f"UPDATE routers_router SET {name} = {value} WHERE name = '{router}';" for name, value in fields.items()
    )
    return moved + changed


def step(source: int, moved: int) -> None:
    assert len([move for move in advance.advance(source, LATER) if move.moved]) == moved


def forward(router: str, limit: int, forwarded: int) -> None:
    found = "SELECT f.forwarded FROM routers_router r, router_forward(r.id, %s, %s, 8) f WHERE r.name = %s"
    assert run(found, limit, LATER, router) == [(forwarded,)]


def caught_up(topic: int, moved: int) -> None:
    assert len(scripts.catch_up(topic, LATER)) == moved


def due(router: str) -> None:
    assert run("SELECT router_due(r, %s) FROM routers_router r WHERE name = %s", LATER, router) == [(True,)]


def lineage(topic: str) -> None:
    assert record(topic, 50_500, LATER).home == "home"


TAIL = back("home>short", RECORDS - 10)
MIDDLE = back("home>short", 50_000)
REJECT = f"UPDATE topics_topic SET discard = 'reject', cap_records = {RECORDS + 5} WHERE name = 'short';"
EVICT = f"UPDATE topics_topic SET cap_records = {RECORDS + 5} WHERE name = 'short';"
LOSSES = """
UPDATE topics_span SET home_id = NULL, shown = false
 WHERE topic_id = (SELECT id FROM topics_topic WHERE name = 'short') AND last_seq BETWEEN 50001 AND 50010;
"""
CASES = {
    "one router": Case(80, lambda t: step(t["home"], 1), TAIL),
    "a hundred alike": Case(
        1_800, lambda t: step(t["fan"], 100), "UPDATE topics_cursor SET seq = 19990 WHERE name ^@ 'fan>'"
    ),
    "one of a hundred": Case(320, lambda t: step(t["fan"], 1), back("fan>leaf7", 19_990)),
    "no router has anything to do": Case(220, lambda t: step(t["fan"], 0)),
    "filter": Case(
        2_100,
        lambda t: forward("home>short", 2_000, 1),
        back("home>short", 50_000, filter_op="'Eq'", filter_tag="'rare:52000'"),
    ),
    "filter by prefix": Case(
        2_100,
        lambda t: forward("home>short", 2_000, 1),
        back("home>short", 50_000, filter_op="'Glob'", filter_tag="'rare'"),
    ),
    "cyclic": Case(200, lambda t: forward("home>short", 20, 10), back("home>short", RECORDS - 10, cyclic="true")),
    "exactly once": Case(
        200, lambda t: forward("home>short", 20, 10), back("home>short", RECORDS - 10, guarantee="'exactly_once'")
    ),
    "reject": Case(200, lambda t: forward("home>short", 20, 5), REJECT + TAIL),
    "evict": Case(500, lambda t: forward("home>short", 20, 20), EVICT + TAIL),
    "from short spans": Case(300, lambda t: forward("short>after-short", 20, 20), back("short>after-short", 50_000)),
    "from long spans": Case(100, lambda t: forward("long>after-long", 20, 20), back("long>after-long", 50_000)),
    "losses": Case(200, lambda t: forward("short>after-short", 20, 10), LOSSES + back("short>after-short", 50_000)),
    "filter from short spans": Case(
        3_000,
        lambda t: forward("short>after-short", 1_000, 1),
        back("short>after-short", 51_500, filter_op="'Eq'", filter_tag="'rare:52000'"),
    ),
    "filter from long spans": Case(
        3_000,
        lambda t: forward("long>after-long", 1_000, 1),
        back("long>after-long", 51_500, filter_op="'Eq'", filter_tag="'rare:52000'"),
    ),
    "upstream": Case(20, lambda t: caught_up(t["short"], 0)),
    "upstream that lags": Case(120, lambda t: caught_up(t["short"], 1), TAIL),
    "upstream of two hops": Case(200, lambda t: caught_up(t["after-short"], 2), TAIL),
    "sources behind, of one": Case(15, lambda t: advance.behind(LATER, t["home"]), TAIL),
    "due": Case(5, lambda t: due("home>short")),
    "due, blocked": Case(
        10,
        lambda t: due("home>short"),
        back("home>short", 1, state="'blocked'", retry_ts=str(2 * LATER), retry_bytes="1"),
    ),
    "lag of one": Case(15, lambda t: script.run(lagging([router("home>short")], LATER)), TAIL),
    "a page of the routers of a source": Case(150, lambda t: listed(10, source="other60")),
    "a page of the routers of a dest": Case(15, lambda t: listed(1, dest="other61")),
    "whether a router closes a cycle": Case(15, lambda t: script.run(graph.check_no_cycle(t["leaf7"], t["short"]))),
    "lineage of an own record": Case(15, lambda t: lineage("home")),
    "lineage in short spans": Case(15, lambda t: lineage("short")),
    "lineage in long spans": Case(15, lambda t: lineage("long")),
}
# Of all routers at once: each is looked at, so that reading whole tables of them is right.
OF_ALL = {
    "sources behind": Case(5 * OTHERS, lambda t: advance.behind(LATER), TAIL),
    "lag": Case(5 * OTHERS, lambda t: script.run(lags_of_all(LATER)), TAIL),
    "metrics": Case(7 * OTHERS, lambda t: script.run(metrics.collect(OPEN)), TAIL),
    "a page of the admin": Case(
        7 * OTHERS, lambda t: list(site.get_model_admin(Router).get_queryset(None)[:100]), TAIL
    ),
}


def router(name: str) -> int:
    return Router.objects.only("pk").get(name=name).pk


def listed(count: int, source: str | None = None, dest: str | None = None) -> None:
    assert len(script.run(page_of_routers("", source, dest, "", 10, OPEN))) == count


def planned(case: Case, topics: dict[str, int], *, whole: bool = False) -> None:
    check_planned(case.most, lambda: case.work(topics), given=case.given, whole=whole)


@pytest.mark.parametrize("what", CASES)
@believing("never", "of one record a topic", "of one topic", "good")
def test_it_goes_by_index(topics: dict[str, int], what: str) -> None:
    planned(CASES[what], topics)


@pytest.mark.parametrize("what", OF_ALL)
@believing("never", "of one record a topic", "of one topic", "good")
def test_all_routers_are_looked_at_once(topics: dict[str, int], what: str) -> None:
    planned(OF_ALL[what], topics, whole=True)

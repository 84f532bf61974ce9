"""The graph at a past minute, from the samples (history/samples.py) and the audit log.

Its topics and routers are those of today.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from console.graph.network import Edge, Network, TopicNode
from console.history.samples import HOUR_MS, MINUTE_MS
from console.history.series import Point, TimeRange, read
from routers.lag import STALLED_MS
from routers.models import Router
from topics.models import AuditEntry

LENGTH_MS = 3 * HOUR_MS  # the last hours that the graph replays
ERRORS_MS = 10 * MINUTE_MS  # a blocked router is retried at least once in this time
NOTHING = Point(0, 0, 0, 0, 0, 0, 0, 0)  # before the first sample of an object


class Slider(NamedTuple):
    """The minutes that a page can show: from `first` to `last`. `at`: the chosen one, or `last`, which is now."""

    first: int
    last: int
    at: int

    @property
    def is_past(self) -> bool:
        return self.at < self.last

    @property
    def steps(self) -> list[tuple[str, int]]:
        """Returns links to minutes beside the chosen one."""
        beside = [
            (f"{minutes:+d} min".replace("-", "−"), self.at + minutes * MINUTE_MS) for minutes in (-30, -5, 5, 30)
        ]
        return [(title, at) for title, at in beside if self.first <= at < self.last]


def slider(at: int, now: int) -> Slider:
    """Returns the slider of a page that asks for a time. A time that is not in the last hours counts as now."""
    last = now // MINUTE_MS * MINUTE_MS
    first, minute = last - LENGTH_MS, at // MINUTE_MS * MINUTE_MS
    return Slider(first, last, minute if first <= minute < last else last)


def replayed(shown: Network, at: int) -> Network:
    """Returns the network with the numbers and states of a minute."""
    times = TimeRange([at - ERRORS_MS, at - MINUTE_MS, at], {0, 1, 2})
    routers, topics = read("router", [each.id for each in shown.edges], times), read("topic", shown.topics, times)
    paused = paused_at([each.name for each in shown.edges], at)
    edges = [
        edge_at(
            each,
            paused.get(each.name, each.state == Router.State.PAUSED),
            *(p or NOTHING for p in routers[each.id].points),
        )
        for each in shown.edges
    ]
    return shown._replace(
        edges=edges, topics={id: topic_at(node, topics[id].points[-1]) for id, node in shown.topics.items()}
    )


def edge_at(edge: Edge, is_paused: bool, earlier: Point, before: Point, then: Point) -> Edge:
    """Returns a router at a minute. A router that stood still is blocked if it failed lately."""
    still = then.lag > 0 and then.head_seq == before.head_seq and then.oldest_ms >= STALLED_MS
    state = (
        "paused" if is_paused else "running" if not still else "blocked" if then.errors > earlier.errors else "stalled"
    )
    rate = max(then.head_seq - before.head_seq, 0) * 1000 / MINUTE_MS
    return edge._replace(
        state=state, error=None, rate=rate, lag=then.lag, oldest_ms=then.oldest_ms if then.lag else None
    )


def topic_at(node: TopicNode, then: Point | None) -> TopicNode:
    then = then or NOTHING
    return node._replace(head_seq=then.head_seq, records=then.records, bytes=then.bytes)


def paused_at(names: list[str], at: int) -> dict[str, bool]:
    """Returns for each router that was paused or resumed since a time whether it was paused then. Its first change says so."""
    found: dict[str, bool] = {}
    changes: Any = AuditEntry.objects.filter(
        kind="router", name__in=names, ts__gt=at, before__has_key="paused"
    ).order_by("ts", "id")
    for name, before in changes.values_list("name", "before"):
        found.setdefault(name, before["paused"])
    return found

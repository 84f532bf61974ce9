"""The leaves of the topics of the graph: readers, consumer groups, webhooks, dead letters and streams."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from urllib.parse import urlencode

from django.urls import reverse

from base.units import amount, counted
from console.graph.network import TopicNode
from console.graph.picture import NetworkPicture, PictureEdge, PictureNode
from console.templatetags.console import topic_url, webhook_url
from groups import figures as groups
from push.webhooks import figures as webhooks
from queues.figures import QueueFigures
from store.database import prepared
from store.script import run

MOST_READERS = 4  # cursors of one topic that are drawn separately
MOST_READ = 20  # cursors of one topic, and webhooks, that a look reads: a topic can have 10,000 of each
MOST_TROUBLED = 1_000  # webhooks in trouble that one look reads

# The lag of a group is that of its shares, which are no cursors. Of each topic it reads the first cursors of the kinds that sort
# before `router`, and of those that sort behind it, in the order of the unique index (topic_id, name, kind). Such a condition is
# checked in the index, so the cursors of the many routers of a fan-out are passed without a look at their rows.
READERS = """
SELECT topic.id, c.kind, c.name, greatest(head.head_seq - c.seq, 0)
  FROM unnest(%(ids)s::bigint[]) topic (id)
 CROSS JOIN LATERAL (SELECT head_seq FROM topic_heads WHERE topic_id = topic.id LIMIT 1) head
 CROSS JOIN LATERAL (
    (SELECT kind, name, seq FROM topic_cursors WHERE topic_id = topic.id AND kind < 'router' ORDER BY name LIMIT %(most)s)
     UNION ALL
    (SELECT kind, name, seq FROM topic_cursors WHERE topic_id = topic.id AND kind > 'router' ORDER BY name LIMIT %(most)s)) c
 ORDER BY topic.id, c.name
"""
# Each open session's topics. The positions of a session are [topic id, seq, …] by name.
WATCHERS = """
SELECT (spot.value ->> 0)::bigint AS topic_id, count(*)
  FROM (SELECT spots FROM topics_watchsession WHERE open LIMIT 2000) open, json_each(open.spots::json) spot
 WHERE (spot.value ->> 0)::bigint = ANY (%(ids)s::bigint[]) GROUP BY 1 ORDER BY 1
"""
Leaf = tuple[int, PictureNode]  # the id of its topic, and its node


def leaves(topics: dict[int, TopicNode], queues: Sequence[QueueFigures], now: int) -> NetworkPicture:
    """Returns the leaves of these topics, and the edges to them. `queues`: those of the topics that are queues."""
    ids, by_name = sorted(topics), {node.name: node for node in topics.values()}
    found: list[Leaf] = []
    readers = prepared(READERS, {"ids": ids, "most": MOST_READ + 1})
    hooked = any(kind == "webhook" for _, kind, _, _ in readers)
    states = {each.name: each.state for each in run(webhooks.troubled(MOST_TROUBLED))} if hooked else {}
    for topic_id, rows in groupby(readers, lambda row: row[0]):
        found += cursors(topics[topic_id], [tuple(row[1:]) for row in rows], states)
    for group in run(groups.of_topics(ids, now)):
        node = by_name[group.topic]
        found.append((node.id, group_leaf(node, group)))
    for topic, count in prepared(WATCHERS, {"ids": ids}):
        url = f"{reverse('admin:console_live')}?{urlencode({'topic': topics[topic].name})}"
        found.append((topic, reader(f"w{topic}", "watching", counted(count, "stream"), url)))
    edges = []
    for queue in queues:
        node, dead = by_name[queue.name], by_name.get(queue.dead_letter or "")
        if dead:
            edges.append(PictureEdge(f"dead-{node.id}", f"n{node.id}", f"n{dead.id}"))
        elif queue.letters and queue.dead_letter:
            letters, url = counted(queue.letters, "dead letter"), reverse("admin:console_queue", args=[queue.name])
            found.append((node.id, reader(f"l{node.id}", queue.dead_letter, letters, url, "unsure")))
    edges += [PictureEdge(f"to-{leaf.id}", f"n{topic}", leaf.id) for topic, leaf in found]
    return NetworkPicture([leaf for _, leaf in found], edges)


def reader(id: str, name: str, figure: str, url: str, look: str = "") -> PictureNode:
    return PictureNode(id, name, figure, f"{name}, {figure}", url, "reader", look)


def cursors(topic: TopicNode, rows: list[tuple[str, str, int]], states: dict[str, str]) -> list[Leaf]:
    """Returns a leaf for each webhook and each cursor of a topic, or one for all its cursors if they are many. `rows`: kind, name
    and lag of each, up to one more than MOST_READ. `states`: of the webhooks in trouble, by name."""
    hooks = [(name, lag) for kind, name, lag in rows if kind == "webhook"]
    found = []
    for name, lag in hooks[:MOST_READ]:
        state = states.get(name)
        figure, look = f"{amount(lag)} behind", {"failing": "bad", "paused": "unsure"}.get(state or "", "")
        figure = f"{state}, {figure}" if state else figure
        found.append((topic.id, reader(f"h{topic.id}.{name}", name, figure, webhook_url(name), look)))
    if len(hooks) > MOST_READ:
        url = reverse("admin:console_list_webhooks")
        found.append((topic.id, reader(f"h{topic.id}", "more webhooks", "in their list", url)))
    named = [(name, lag) for kind, name, lag in rows if kind != "webhook"]
    if len(named) > MOST_READERS:
        words, figure = f"{len(named)} cursors", f"up to {amount(max(lag for _, lag in named))} behind"
        if len(named) > MOST_READ:  # any of the others can be further behind
            words, figure = f"over {MOST_READ} cursors", "lags on its page"
        named = []
        found.append((topic.id, reader(f"c{topic.id}", words, figure, topic_url(topic.name))))
    for name, lag in named:
        found.append((topic.id, reader(f"c{topic.id}.{name}", name, f"{amount(lag)} behind", topic_url(topic.name))))
    return found


def group_leaf(topic: TopicNode, group: groups.GroupFigures) -> PictureNode:
    figure = f"{counted(group.members, 'member')}, {amount(group.lag)} behind"
    look = "bad" if group.lag and not group.members else ""
    return reader(
        f"g{topic.id}.{group.name}", group.name, figure, reverse("admin:console_groups", args=[topic.name]), look
    )

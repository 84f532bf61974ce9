"""The kinds of objects that have a list (lists.py): topics, routers, queues, groups, readers, webhooks and subscribers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from console.health.behind import held_up
from console.health.signals import StoredSignal
from console.lists.objects import ObjectKey, ObjectKind
from console.lists.rows import (
    following_readers,
    following_routers,
    following_topics,
    rows_of_groups,
    rows_of_queues,
    rows_of_readers,
    rows_of_routers,
    rows_of_subscribers,
    rows_of_topics,
    rows_of_webhooks,
)
from groups import figures as groups
from push import figures as subscribers
from push.webhooks import figures as webhooks
from queues import figures as queues
from store.script import Script, run

MOST_TROUBLED = 50  # objects in trouble that one page shows first. `troubled` returns one more, if there are more


def names_of(signals: Iterable[StoredSignal], object: str) -> list[str]:
    """Returns the names of the objects of one kind that have an open signal."""
    return [name for kind, _, name in (each.object.partition(" ") for each in signals) if kind == object]


def pairs_of(signals: Iterable[StoredSignal], object: str) -> list[ObjectKey]:
    """As names_of, of objects that belong to a topic."""
    return [
        ObjectKey(name, topic) for name, _, topic in (each.rpartition(" of ") for each in names_of(signals, object))
    ]


def following(
    script: Callable[[str, str, str, int], Script[list[str]]],
) -> Callable[[ObjectKey, str, str, int], list[ObjectKey]]:
    """Returns `following` of a script that returns names."""
    return lambda after, upto, state, most: [ObjectKey(name) for name in run(script(after.name, upto, state, most))]


def named_topics(signals: Sequence[StoredSignal], prefix: str, now: int) -> list[ObjectKey]:
    """Returns the topics, queues and queues of subscribers with an open signal."""
    return [ObjectKey(name) for name in names_of(signals, "topic")]


KINDS = (
    ObjectKind(
        "topics",
        "Topics",
        "topics.view_topic",
        "topic",
        ("Records", "Payload"),
        "Lag of the slowest",
        "Last write",
        following_topics,
        rows_of_topics,
        named_topics,
        """No topic yet. The first append creates one:
        <code>curl …/v0/topics/orders --json '{"records": [{"data": 1}]}'</code>""",
        consumers="Cursors",
        sample="topic",
        all_of_it="admin:topics_topic_changelist",
    ),
    ObjectKind(
        "routers",
        "Routers",
        "routers.view_router",
        "router",
        ("Source", "Dest"),
        "Lag",
        "Last moved",
        following_routers,
        rows_of_routers,
        lambda signals, prefix, now: [ObjectKey(each.name) for each in held_up(now, MOST_TROUBLED + 1, prefix=prefix)],
        """No router yet. <a href="/admin/routers/router/add/">Add a router</a>:
        it forwards the records of one topic to another.""",
        states=("blocked", "paused"),
        sample="router",
        all_of_it="admin:routers_router_changelist",
    ),
    ObjectKind(
        "groups",
        "Groups",
        "topics.view_topic",
        "group",
        ("Topic", "Shares"),
        "Lag",
        "Last commit",
        lambda after, upto, state, most: [
            ObjectKey(*each) for each in run(groups.following(after.topic, after.name, upto, most))
        ],
        rows_of_groups,
        lambda signals, prefix, now: pairs_of(signals, "group"),
        """No consumer group reads a topic. A group is created when its first member joins:
        <code>GET /v0/topics/orders/groups/mine/stream</code>""",
        consumers="Members",
    ),
    ObjectKind(
        "queues",
        "Queues",
        "topics.view_topic",
        "topic",
        ("In flight", "Delayed", "Dead letters"),
        "Ready",
        "Last call on its jobs",
        following(lambda after, upto, state, most: queues.following(after, upto, most)),
        rows_of_queues,
        named_topics,
        """No queue yet. Create one: <code>curl -X PUT …/v0/topics/jobs --json '{"type": "queue"}'</code>""",
        sample="topic",
        rate_words="jobs a second",
    ),
    ObjectKind(
        "readers",
        "Readers",
        "topics.view_cursor",
        "cursor",
        ("Topic", "At seq"),
        "Lag",
        "Last moved",
        following_readers,
        rows_of_readers,
        lambda signals, prefix, now: pairs_of(signals, "cursor"),
        "No reader yet. A reader creates a cursor: <code>PUT /v0/topics/…/cursors/…</code>",
        sample="topic",
        rate_words="records a second in its topic",
        all_of_it="admin:topics_cursor_changelist",
        folds=False,
    ),
    ObjectKind(
        "webhooks",
        "Webhooks",
        "push.view_webhook",
        "webhook",
        ("Topics", "Failed calls", "No attempt left", "Last error"),
        "Wait",
        "Last success",
        following(webhooks.following),
        rows_of_webhooks,
        lambda signals, prefix, now: [
            ObjectKey(each.name) for each in run(webhooks.troubled(MOST_TROUBLED + 1, prefix))
        ],
        """No webhook yet. A webhook sends each record of a topic to a URL: <code>curl -X PUT …/v0/webhooks/shop --json
        '{"url": "https://example.com/hooks", "topics": ["orders"]}'</code>""",
        states=("failing", "paused", "running"),
        sample="hook",
        rate_words="records delivered a second",
    ),
    ObjectKind(
        "subscribers",
        "Bus",
        "push.view_subscriber",
        "topic",
        ("Client", "Health", "Sent", "Last error"),
        "Queued",
        "Last delivery",
        following(subscribers.following),
        rows_of_subscribers,
        named_topics,
        "No subscriber yet. A client of the push bus subscribes with <code>POST /subscription</code>",
        states=("failing", "paused", "unsubscribed", "running"),
        sample="topic",
        rate_words="events queued a second",
        all_of_it="admin:push_subscriber_changelist",
    ),
)

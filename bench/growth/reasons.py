"""The operations that may read the whole store, or all objects of one kind, each with the reason."""

from __future__ import annotations

REASONS = {
    "it reads each router, cursor, queue and group, and their heads": (
        "GET metrics",
        "background: console.sample",
        "background: console.judge",
        "page: index",
        "live: overview",
    ),
    "it reads the ends of each router": (
        "page: console_graph",
        "live: graph",
        "page: console_list_routers",
        "page: graph of a prefix",
        "page: graph around a topic",
        "create a router that may close a cycle",
    ),
    "it counts routers and watch sessions, which have a cap": ("page: console_limits", "topics routers put"),
    "it reads each watch session, 45 a page": ("background: topics.sweep_watch_sessions",),
    "it reads each group, 45 a page": (
        "background: groups.sweep",
        "page: console_list_groups",
        "page: console_find",
    ),
    "it looks at the next 10,000 objects that have samples": ("background: console.thin",),
    "it reads all cursors of a topic": (
        "a key's page of cursors",
        "page: console_topic",
        "page: console_list_topics",
        "live: topic",
    ),
    "it reads the routers of the topics written lately": ("sources with lagging routers, of those written lately",),
    "it reads the rows of each subscriber": (
        "bus: subscriptions",
        "bus: pulse/scaling",
        "subscribers that are overdue",
        "deliveries that are due",
        "bytes of all queues",
        "autodrop: the subscriber with the oldest event",
    ),
    "it reads rows that earlier operations made": (
        "background: push.tidy",
        "GET webhooks",
        "bus: bus_topics",
        "page: console_list_webhooks",
        "topics webhooks list",
    ),
    "a tenth of a small store does not fill the page": ("page: records by a tag", "page: records by their data"),
    "in a small store it reads whole tables, which have fewer pages": ("page: list of routers",),
    "it finds a seq by its time, with a look-up for each step": ("page: console_groups",),
    "it looks for a text within all names": ("page: topics with a part of a name",),
    "an operator asks for it, and waits": ("topics usage", "topics redrive"),
    "it looks at each topic": ("start: prepare the database",),
    "it corrects sums by a count": ("the hourly sum of all topics",),
    "it reads the pages that changed since the last one": (
        "vacuum the heads, nothing to do",
        "vacuum the records, nothing to do",
    ),
    "it copies all records": ("topics backup", "topics restore"),
}


def reason_of(operation: str) -> str:
    """Returns why an operation may read the whole store, or an empty string."""
    return next((reason for reason, names in REASONS.items() if operation in names), "")


def unknown(operations: set[str]) -> list[str]:
    """Returns a line for each operation with a reason that does not exist."""
    names = {name for names in REASONS.values() for name in names} - set(REASONS["it copies all records"])
    return [f"{name}: no operation has this name, so remove it from reasons.py" for name in sorted(names - operations)]

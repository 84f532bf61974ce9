"""The Limits page: each cap of the instance, and how much of it is used."""

from __future__ import annotations

from typing import Any, NamedTuple

from django.conf import settings
from django.http import HttpRequest, HttpResponse

from base.clock import now_ms
from base.units import amount, size
from console.site import Console
from store.database import prepared

NEAR = 0.8  # part of a cap that is shown as near

USED = """
SELECT held.topics, (SELECT count(*) FROM routers_router), (SELECT count(*) FROM push_webhook),
       (SELECT count(*) FROM queues_schedule), (SELECT count(*) FROM groups_group),
       (SELECT coalesce(max(of_key), 0) FROM (SELECT count(*) AS of_key FROM groups_group GROUP BY key_id) k),
       (SELECT count(*) FROM topics_watchsession),
       (SELECT coalesce(max(of_key), 0) FROM (SELECT count(*) AS of_key FROM topics_watchsession GROUP BY key_id) k),
       coalesce((SELECT sum(count) FROM topics_streamcount WHERE seen_ts > %(fresh)s), 0)::bigint,
       coalesce((SELECT max(of_key) FROM (SELECT sum(count) AS of_key FROM topics_streamcount
                                           WHERE seen_ts > %(fresh)s GROUP BY key_id) k), 0)::bigint,
       held.bytes, (SELECT greatest(reltuples, 0)::bigint FROM pg_class WHERE oid = 'console_sample'::regclass)
  FROM topic_totals() held
"""
OTHERS = (  # limits of a request, a process or a topic, so the instance has no usage
    ("TOPICS_MAX_RECORDS_PER_APPEND", "records per append"),
    ("TOPICS_MAX_RECORD_BYTES", "bytes of data and meta per record"),
    ("TOPICS_MAX_BODY_BYTES", "bytes of the body of an append, a copy, a handover or an event"),
    ("TOPICS_MAX_CALL_BYTES", "bytes of the body of any other request"),
    ("TOPICS_MAX_META_BYTES", "bytes of meta per record"),
    ("TOPICS_MAX_META_KEYS", "keys of meta per record"),
    ("TOPICS_MAX_TAG_BYTES", "a tag"),
    ("TOPICS_MAX_NODE_BYTES", "a node"),
    ("TOPICS_DIFF_MAX_LIMIT", "records per read"),
    ("TOPICS_DIFF_BYTES", "bytes per read"),
    ("TOPICS_MAX_NODES", "nodes that a read can leave out"),
    ("TOPICS_MAX_IN_FLIGHT_PER_KEY", "simultaneous requests of a key in a web process"),
    ("TOPICS_MAX_BODIES_BYTES", "bytes of simultaneous bodies in a web process"),
    ("TOPICS_MAX_STALLED_BYTES", "bytes for streams with slow clients in a web process"),
    ("TOPICS_MAX_CURSORS_PER_TOPIC", "named cursors of a topic"),
    ("TOPICS_MAX_ROUTER_HOPS", "routers on the path of a record in a cycle"),
)


class Limit(NamedTuple):
    """A cap, and how much of it is used."""

    setting: str
    what: str
    used: str
    most: str
    percent: int | None  # None: the cap is off
    level: str


def limit(setting: str, what: str, used: int) -> Limit:
    most: int = getattr(settings, setting)
    write = size if "BYTES" in setting else amount
    if not most:
        return Limit(setting, what, write(used), "off", None, "")
    level = "reached" if used >= most else "near" if used >= NEAR * most else ""
    return Limit(setting, what, write(used), write(most), min(100 * used // most, 100), level)


def limits(now: int) -> list[Limit]:
    (row,) = prepared(USED, {"fresh": now - 10_000})
    (
        topics,
        routers,
        webhooks,
        schedules,
        groups,
        groups_of_key,
        sessions,
        of_key,
        streams,
        streams_of_key,
        bytes,
        samples,
    ) = row
    return [
        limit("TOPICS_MAX_TOPICS", "topics", topics),
        limit("TOPICS_MAX_ROUTERS", "routers", routers),
        limit("TOPICS_MAX_WEBHOOKS", "webhooks", webhooks),
        limit("TOPICS_MAX_SCHEDULES", "schedules of queues", schedules),
        limit("TOPICS_MAX_GROUPS", "consumer groups", groups),
        limit("TOPICS_MAX_GROUPS_PER_KEY", "consumer groups of the key or address with the most", groups_of_key),
        limit("TOPICS_MAX_WATCH_SESSIONS", "watch sessions", sessions),
        limit("TOPICS_MAX_WATCH_SESSIONS_PER_KEY", "watch sessions of the key or address with the most", of_key),
        limit("TOPICS_MAX_STREAMS", "open streams", streams),
        limit("TOPICS_MAX_STREAMS_PER_KEY", "open streams of the key or address with the most", streams_of_key),
        limit("TOPICS_MAX_TOTAL_BYTES", "payload of all topics", bytes),
        limit("TOPICS_HISTORY_MAX_SAMPLES", "samples of this console, as PostgreSQL estimates", samples),
    ]


def page(site: Console, request: HttpRequest) -> HttpResponse:
    others: list[tuple[str, str, Any]] = [
        (setting, what, (size if "BYTES" in setting else amount)(getattr(settings, setting)))
        for setting, what in OTHERS
    ]
    return site.page(request, "console/limits.html", title="Limits", limits=limits(now_ms()), others=others)

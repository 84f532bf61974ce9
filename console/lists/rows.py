"""The objects of each kind that follow a name, and what a row of its list shows."""

from __future__ import annotations

from django.urls import reverse

from base.units import amount, first
from console.lists.objects import ObjectKey, ObjectRow
from console.templatetags import console as shown
from groups import figures as groups
from push import figures as subscribers
from push.webhooks import figures as webhooks
from queues import figures as queues
from routers.lag import LAG, STALLED_MS, lag_of
from store.database import prepared
from store.script import run

MOST_NAMED = 3  # topics of a webhook
NEXT_TOPICS = "SELECT name FROM topics_topic WHERE name > %(after)s AND name < %(upto)s ORDER BY name LIMIT %(most)s"
NEXT_ROUTERS = """
SELECT name FROM routers_router WHERE name > %(after)s AND name < %(upto)s AND (%(state)s = '' OR state = %(state)s)
 ORDER BY name LIMIT %(most)s
"""
# In the order of the index on cursors. A topic without a reader costs nothing.
NEXT_READERS = """
SELECT c.name, t.name
  FROM (SELECT topic_id, name FROM topic_cursors
         WHERE (topic_id, name) > (coalesce((SELECT id FROM topics_topic WHERE name = %(topic)s), 0), %(after)s COLLATE "C")
           AND kind = 'named' ORDER BY topic_id, name LIMIT %(most)s) c
 CROSS JOIN LATERAL (SELECT name FROM topics_topic WHERE id = c.topic_id LIMIT 1) t
 ORDER BY c.topic_id, c.name
"""
TOPICS = """
SELECT t.name, t.id, t.sealed, h.count, h.bytes, h.last_ts, reader.cursors, reader.lag,
       CASE WHEN reader.lag > 0 THEN %(now)s::bigint - topic_next_ts(t.id, h.head_seq - reader.lag) END
  FROM unnest(%(names)s::text[]) wanted (name)
 CROSS JOIN LATERAL (SELECT id, name, sealed FROM topics_topic WHERE name = wanted.name LIMIT 1) t
 CROSS JOIN LATERAL (SELECT head_seq, floor_seq, count, bytes, last_ts FROM topic_heads WHERE topic_id = t.id LIMIT 1) h
 CROSS JOIN LATERAL (SELECT count(*) AS cursors,
                            CASE WHEN bool_or(kind <> 'router')
                                 THEN h.head_seq - greatest(min(seq) FILTER (WHERE kind <> 'router'), h.floor_seq) END AS lag
                       FROM topic_cursors WHERE topic_id = t.id) reader
"""
ROUTERS = f"""
SELECT r.name, r.id, r.state, source.name, dest.name, c.updated_ts, {LAG}
  FROM unnest(%(names)s::text[]) wanted (name)
 CROSS JOIN LATERAL (SELECT * FROM routers_router WHERE name = wanted.name LIMIT 1) r
 CROSS JOIN LATERAL (SELECT seq, updated_ts FROM topic_cursors WHERE id = r.cursor_id LIMIT 1) c
 CROSS JOIN LATERAL (SELECT head_seq, floor_seq FROM topic_heads WHERE topic_id = r.source_id LIMIT 1) head
 CROSS JOIN LATERAL (SELECT name FROM topics_topic WHERE id = r.source_id LIMIT 1) source
 CROSS JOIN LATERAL (SELECT name FROM topics_topic WHERE id = r.dest_id LIMIT 1) dest
"""
READERS = """
SELECT c.name, t.name, t.id, c.seq, h.head_seq - c.seq, c.updated_ts,
       CASE WHEN h.head_seq > c.seq THEN %(now)s::bigint - topic_next_ts(t.id, greatest(c.seq, h.floor_seq)) END
  FROM unnest(%(names)s::text[], %(topics)s::text[]) wanted (name, topic)
 CROSS JOIN LATERAL (SELECT id, name FROM topics_topic WHERE name = wanted.topic LIMIT 1) t
 CROSS JOIN LATERAL (SELECT name, seq, updated_ts FROM topic_cursors
                      WHERE topic_id = t.id AND name = wanted.name AND kind = 'named' LIMIT 1) c
 CROSS JOIN LATERAL (SELECT head_seq, floor_seq FROM topic_heads WHERE topic_id = t.id LIMIT 1) h
"""


def following_topics(after: ObjectKey, upto: str, state: str, most: int) -> list[ObjectKey]:
    return [ObjectKey(name) for (name,) in prepared(NEXT_TOPICS, {"after": after.name, "upto": upto, "most": most})]


def following_routers(after: ObjectKey, upto: str, state: str, most: int) -> list[ObjectKey]:
    wanted = {"after": after.name, "upto": upto, "state": state, "most": most}
    return [ObjectKey(name) for (name,) in prepared(NEXT_ROUTERS, wanted)]


def following_readers(after: ObjectKey, upto: str, state: str, most: int) -> list[ObjectKey]:
    rows = prepared(NEXT_READERS, {"after": after.name, "topic": after.topic, "most": most})
    return [ObjectKey(name, topic) for name, topic in rows]


def rows_of_topics(keys: list[ObjectKey], now: int) -> list[ObjectRow]:
    rows = []
    for name, id, sealed, records, size, last_ts, cursors, lag, age in prepared(
        TOPICS, {"names": [key.name for key in keys], "now": now}
    ):
        state = "sealed" if sealed else "behind" if lag else "ok"
        facts = (amount(records), shown.size(size))
        rows.append(ObjectRow(ObjectKey(name), shown.topic_url(name), state, lag, age, last_ts, facts, cursors, id))
    return rows


def rows_of_routers(keys: list[ObjectKey], now: int) -> list[ObjectRow]:
    rows = []
    wanted = {"names": [key.name for key in keys], "now": now, "stalled_ms": STALLED_MS}
    for name, id, state, source, dest, moved_ts, lag, oldest, still in prepared(ROUTERS, wanted):
        lagging = lag_of(lag, oldest, still)
        state = lagging.shown(state)
        facts = (shown.topic(source), shown.topic(dest))
        rows.append(
            ObjectRow(
                ObjectKey(name),
                shown.router_url(name),
                state,
                lagging.lag,
                lagging.oldest_unread_ms,
                moved_ts,
                facts,
                sample=id,
            )
        )
    return rows


def rows_of_queues(keys: list[ObjectKey], now: int) -> list[ObjectRow]:
    rows = []
    for each in run(queues.named([key.name for key in keys], now)):
        dead = f"{amount(each.letters)} in {each.dead_letter}" if each.letters else ""
        facts = (amount(each.in_flight), amount(each.delayed), dead)
        state = "ready" if each.ready else "busy" if each.in_flight else "empty"
        url = reverse("admin:console_queue", args=[each.name])
        rows.append(
            ObjectRow(
                ObjectKey(each.name),
                url,
                state,
                each.ready,
                each.oldest_ready_ms,
                each.swept_ts,
                facts,
                sample=each.id,
            )
        )
    return rows


def rows_of_groups(keys: list[ObjectKey], now: int) -> list[ObjectRow]:
    rows = []
    for each in run(groups.named(keys, now)):
        state = "alone" if not each.members else "behind" if each.lag else "ok"
        url, facts = reverse("admin:console_groups", args=[each.topic]), (shown.topic(each.topic), str(each.partitions))
        key = ObjectKey(each.name, each.topic)
        rows.append(ObjectRow(key, url, state, each.lag, each.oldest_unread_ms, each.updated_ts, facts, each.members))
    return rows


def rows_of_readers(keys: list[ObjectKey], now: int) -> list[ObjectRow]:
    wanted = {"names": [key.name for key in keys], "topics": [key.topic for key in keys], "now": now}
    return [
        ObjectRow(
            ObjectKey(name, topic),
            shown.topic_url(topic),
            "behind" if lag > 0 else "ok",
            max(lag, 0),
            age,
            moved_ts,
            (shown.topic(topic), amount(seq)),
            sample=id,
        )
        for name, topic, id, seq, lag, moved_ts, age in prepared(READERS, wanted)
    ]


def rows_of_webhooks(keys: list[ObjectKey], now: int) -> list[ObjectRow]:
    rows = []
    for each in run(webhooks.named([key.name for key in keys])):
        facts = (
            first(each.topics, MOST_NAMED),
            f"{amount(each.failed)} of {amount(each.calls)}",
            amount(each.dead),
            (each.pause_reason or each.last_error or "")[:60],
        )
        url = shown.webhook_url(each.name)
        rows.append(
            ObjectRow(
                ObjectKey(each.name), url, each.state, each.waiting, None, each.last_success_ts, facts, sample=each.id
            )
        )
    return rows


def rows_of_subscribers(keys: list[ObjectKey], now: int) -> list[ObjectRow]:
    rows = []
    for each in run(subscribers.named([key.name for key in keys])):
        facts = (each.client, str(each.health), amount(each.sent), (each.last_error or "")[:60])
        url = reverse("admin:console_subscriber", args=[each.id])
        age = None if each.oldest_ts is None else now - each.oldest_ts
        rows.append(
            ObjectRow(
                ObjectKey(each.queue),
                url,
                each.state,
                each.records,
                age,
                each.last_delivery_ts,
                facts,
                sample=each.queue_id or 0,
            )
        )
    return rows

"""Bus topics: list, delete, and hand over to another publisher (docs/push.md)."""

from __future__ import annotations

from typing import NamedTuple

from django.conf import settings

from base.errors import Forbidden, NotFound
from push.bus.clients import BusKey
from push.bus.fill import FILL, STEP
from push.bus.names import QUEUE, bus_topic, check_topic
from routers import graph
from routers.advance import ADVANCE
from routers.advance import STEP as ADVANCE_STEP
from store.script import Script, Statement, atomically
from topics import audit, wake
from topics.cache import forget
from topics.cursors import owned as owned_cursors
from topics.delete.topic import delete_locked
from topics.heads import LOCK_HEADS, LOCK_TOPIC, LOST, OUTDATE_NAMED

# The number of all events that were ever published to each topic. Seqs of deleted topics of the same name do not count. Seqs that
# a crash took before a reader saw them (pieces without a home) do not count either.
ALL = f"""
SELECT p.name, client.name, coalesce(h.head_seq - h.recreated_seq - ({LOST} AND topic_id = t.id), 0)
  FROM push_bustopic p LEFT JOIN push_busclient client ON client.id = p.publisher_id
  LEFT JOIN topics_topic t ON t.name = 'bus:' || p.name LEFT JOIN topic_heads h ON h.topic_id = t.id
 ORDER BY p.name
"""
LOCK = "SELECT publisher_id FROM push_bustopic WHERE name = %s FOR UPDATE"
DROP = "DELETE FROM push_bustopic WHERE name = %s"
# The lock order (docs/concurrency.md): the topic's row, 7001, cursors, heads.
LOCK_ADVANCES = "SELECT pg_advisory_xact_lock_shared(7001)"
QUEUES = """
SELECT DISTINCT r.dest_id, r.ordered FROM routers_router r JOIN topics_topic t ON t.id = r.dest_id
 WHERE r.source_id = %s AND t.name ^@ %s ORDER BY r.dest_id
"""
CURSORS = "SELECT cursor_id FROM routers_router WHERE source_id = %(topic)s OR dest_id = ANY (%(queues)s)"
HAND_OVER = "UPDATE push_bustopic SET publisher_id = %s WHERE name = %s"
CLIENT = "SELECT name FROM push_busclient WHERE id = %s AND token IS NOT NULL"


class Listed(NamedTuple):
    """A topic, its publisher, and the number of events ever published. `publisher` is None until a client publishes."""

    name: str
    publisher: str | None
    events: int


def list_topics() -> Script[list[Listed]]:
    rows = yield Statement(ALL)
    return [Listed(*row) for row in rows]


def delete_topic(name: str, key: BusKey, now: int) -> Script[None]:
    """Deletes a topic. Its subscribers are unsubscribed from the topic, and still get the events published before.

    Raises InvalidRequest, NotFound, or Forbidden if the key is neither the publisher's nor the root key.
    """
    check_topic(name)
    topic_id, head_seq, moved = yield from atomically(delete_all_of(name, key, now))
    forget(bus_topic(name))
    if topic_id is not None:
        wake.announce(topic_id, head_seq + 1, routed=False)
    for queue_id, queue_head in moved:
        wake.announce(queue_id, queue_head, routed=False)


def delete_all_of(name: str, key: BusKey, now: int) -> Script[tuple[int | None, int, list[tuple[int, int]]]]:
    """Returns the topic's id and head from topics.delete.topic.delete_locked(), and the heads of the filled queues."""
    yield from graph.lock_graph()
    owner = yield Statement(LOCK, (name,))
    if not owner:
        raise NotFound(f"topic {name!r} does not exist")
    if "root" not in key.scopes and owner[0][0] != key.client_id:
        raise Forbidden(
            f"another client publishes to {name!r}"
            if owner[0][0]
            else f"no client has published to {name!r}: use the root key to delete the topic"
        )
    found = yield Statement(LOCK_TOPIC, (bus_topic(name),))
    moved = (yield from fill_queues(found[0][0], now)) if found else []
    yield Statement(DROP, (name,))
    topic_id, head_seq, _ = yield from delete_locked(bus_topic(name), False, now, key)
    return topic_id, head_seq, moved


def fill_queues(topic_id: int, now: int) -> Script[list[tuple[int, int]]]:
    """Forwards all events of a topic into its queues, and blocks further publishing. Returns the heads of the filled queues.

    The caller holds the topic's row.
    """
    yield Statement(LOCK_ADVANCES)
    queues = yield Statement(QUEUES, (topic_id, QUEUE))
    ids = [queue_id for queue_id, _ in queues]
    cursors = yield Statement(
        CURSORS, {"topic": topic_id, "queues": ids}
    )  # the graph is locked: no other router appears
    yield Statement(owned_cursors.LOCK, ([cursor_id for (cursor_id,) in cursors],))
    yield Statement(LOCK_HEADS, ([topic_id, *ids],))
    heads: dict[int, int] = {}
    more = True
    while more:
        rows = yield Statement(ADVANCE, (topic_id, None, False, ADVANCE_STEP, now, settings.TOPICS_MAX_ROUTER_HOPS))
        heads |= {dest_id: head for dest_id, head, moved, *_ in rows if moved}
        more = any(row[4] for row in rows)
    for queue_id, ordered in queues:
        more = ordered
        while more:
            ((_, head, moved, more),) = yield Statement(FILL, (queue_id, STEP, now))
            if moved:
                heads[queue_id] = head
    return list(heads.items())


def hand_over(name: str, client_id: int) -> Script[None]:
    """Makes another client the publisher of a topic. The former publisher can no longer publish. Raises NotFound."""
    yield from atomically(hand_over_locked(name, client_id))
    forget(bus_topic(name))


def hand_over_locked(name: str, client_id: int) -> Script[None]:
    owner = yield Statement(LOCK, (name,))
    client = yield Statement(CLIENT, (client_id,))
    if not owner or not client:
        raise NotFound(f"topic {name!r} does not exist" if client else "this client does not exist")
    yield Statement(HAND_OVER, (client_id, name))
    # An append that was prepared with the old version then looks at the publisher again (publish.py).
    yield Statement(OUTDATE_NAMED, (bus_topic(name),))
    before, after = {"publisher": owner[0][0]}, {"publisher": client_id}
    yield from audit.note_difference("bus", f"topic {name}", before, after)

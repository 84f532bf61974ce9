"""Subscribe, unsubscribe, and list subscriptions (docs/push.md). A subscription to a topic is a router into the client's queue.

Unsubscribing leaves the queue. Queued events are still delivered.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, NamedTuple
from urllib.parse import urlsplit

import msgspec
from django.conf import settings
from msgspec import Meta
from urllib3.exceptions import LocationParseError
from urllib3.util import parse_url

from base.errors import InvalidRequest, NotFound
from push.bus.fill import before_read
from push.bus.names import BUS, QUEUE, bus_topic, check_token, check_topic, queue_of, router_of
from push.bus.publish import NEW_TOPIC, check_url
from routers import graph
from routers.routers import SET_ORDERED, RouterConfig, create_router, lock_cursors, remove, touch, wake_source
from routers.stored import COLUMNS, StoredRouter, of_topic
from store.script import Script, Statement, atomically
from topics import audit
from topics.cache import forget, load_topic
from topics.config import insert_topic
from topics.cursors.owned import INSERT_AT_HEAD
from topics.heads import LOCK_TOPICS

MAX_CALLBACK = 2048  # characters
CREDENTIALS, HIDDEN = re.compile(r"(?<=://)[^/]*@"), "***@"  # of a callback: secrets, which are not shown
MOST_TOPICS = 1000
Start = Annotated[int, Meta(ge=0, le=2**63 - 1)] | str | None

# Which of these topics have a publisher and a log.
PUBLISHED = """
SELECT p.name FROM push_bustopic p JOIN topics_topic t ON t.name = 'bus:' || p.name
 WHERE p.name = ANY (%s) AND p.publisher_id IS NOT NULL
"""
# A client that publishes to the topic for the first time at this moment holds the row. This statement waits for that client, and
# then leaves the row with the client as publisher.
EXPECT = "INSERT INTO push_bustopic (name, created_ts) VALUES (%s, %s) ON CONFLICT (name) DO NOTHING"
ROUTERS = of_topic(f"{COLUMNS} ORDER BY source.name", "dest")
OF = """
SELECT s.queue, s.callback, s.uuid, s.timeout_ms, s.max_events, s.unsubscribed_ts
  FROM push_subscriber s WHERE s.client_id = %s FOR UPDATE
"""
SAVE = """
INSERT INTO push_subscriber (client_id, queue, callback, uuid, timeout_ms, max_events, paused, created_ts, health, retry_ts,
                             sent_total, dropped_total, dropped, lease, leased_until_ts, batch_attempts, batch_ts)
VALUES (%(client)s, %(queue)s, %(callback)s, %(uuid)s, %(timeout)s, %(max)s, false, %(now)s, 100, 0, 0, 0, 0, 0, 0, 0, 0)
ON CONFLICT (client_id) DO UPDATE
   SET callback = excluded.callback, uuid = excluded.uuid, timeout_ms = excluded.timeout_ms, max_events = excluded.max_events,
       unsubscribed_ts = NULL
"""
NAMED = """
SELECT c.id, c.name FROM push_subscriber s JOIN push_busclient c ON c.id = s.client_id
 WHERE s.unsubscribed_ts IS NULL AND %(name)s IN (c.name, c.name || '.' || c.id) ORDER BY c.id
"""
QUEUE_OF = "SELECT queue FROM push_subscriber WHERE client_id = %s"
WHOSE = f"{QUEUE_OF} AND unsubscribed_ts IS NULL"
END = "UPDATE push_subscriber SET unsubscribed_ts = %s WHERE client_id = %s AND unsubscribed_ts IS NULL"
# One row per subscription. A client that has unsubscribed is listed as long as its queue holds events.
ALL = """
SELECT c.id, c.name, s.uuid, s.callback, s.max_events, s.timeout_ms,
       coalesce((SELECT string_agg(substr(source.name, 5), ',' ORDER BY source.name)
                   FROM routers_router r JOIN topics_topic source ON source.id = r.source_id
                  WHERE r.dest_id = q.queue_id AND source.name ^@ 'bus:'), ''),
       s.sent_total, q.records, q.oldest_ts
  FROM push_subscriber s JOIN push_busclient c ON c.id = s.client_id JOIN push_queues q ON q.client_id = s.client_id
 WHERE s.unsubscribed_ts IS NULL OR q.records > 0
 ORDER BY c.name, c.id
"""


class Wanted(msgspec.Struct, forbid_unknown_fields=True):
    """The body of a subscription. `from` is an addition of this server: where newly subscribed topics begin."""

    topics: list[str]
    callback: str
    uuid: str | None = None
    timeout: Annotated[int, Meta(ge=0, le=3_600_000)] | None = None
    max: Annotated[int, Meta(ge=1, le=10_000)] | None = None
    start: Start = msgspec.field(default=None, name="from")

    def check(self) -> None:
        """Raises InvalidRequest for too many topics, or an invalid topic, callback or uuid."""
        if len(self.topics) > MOST_TOPICS:
            raise InvalidRequest(f"{len(self.topics)} topics: expected at most {MOST_TOPICS}")
        for name in self.topics:
            check_topic(name)
        check_callback(self.callback)
        if self.uuid is not None and not (self.uuid.isprintable() and self.uuid.isascii() and ":" not in self.uuid):
            raise InvalidRequest(
                "invalid uuid: expected printable ASCII without a colon, for the username of HTTP Basic"
            )

    def begins(self) -> dict[str, Any]:
        """Returns `from` as fields of RouterConfig. Raises InvalidRequest."""
        if self.start is None:
            return {"start": "head"}
        if isinstance(self.start, int) or self.start == "earliest":
            return {"start": self.start}
        try:
            moment = datetime.fromisoformat(self.start)
        except ValueError:
            moment = None
        if moment is None or moment.tzinfo is None or moment.timestamp() < 0:
            raise InvalidRequest(
                'invalid from: expected "earliest", a seq, or a time with its zone, as 2026-01-31T09:30:00Z'
            )
        return {"from_ts": int(moment.timestamp() * 1000)}


def check_callback(url: str) -> None:
    """Raises InvalidRequest for an invalid URL. Each call checks the address that the URL leads to (delivery/addresses.py)."""
    schemes = ("https", "http") if settings.PUSH_CALLBACK_LOOPBACK_HTTP else ("https",)
    check_url(url, "callback", MAX_CALLBACK, schemes)
    if "?" in url or "#" in url:
        raise InvalidRequest("invalid callback: expected a URL without a query and without a fragment")
    try:
        host = parse_url(url).host  # parsed as for calls: there, a host ends at a backslash
    except LocationParseError:
        host = None
    if not host or "\\" in url:
        raise InvalidRequest(
            "invalid callback: expected a URL without a backslash, with a name or an address as its host"
        )
    if shown_callback(url) == url and CREDENTIALS.search(url):
        raise InvalidRequest("callback contains *** instead of its credentials: send the credentials, or a uuid")
    if url.lower().startswith("http:") and not is_this_machine(urlsplit(url).hostname or ""):
        raise InvalidRequest(
            "invalid callback: expected https. http is only for this machine (localhost, 127.0.0.1, [::1])"
        )


def shown_callback(url: str) -> str:
    """Returns a callback without its credentials, for people and clients."""
    return CREDENTIALS.sub(HIDDEN, url, count=1)


def is_this_machine(host: str) -> bool:
    """Returns whether a host is `localhost` or a loopback address. Other names are resolved only when the callback is called."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def subscribe(client_id: int, client_name: str, wanted: Wanted, now: int) -> Script[None]:
    """Creates or changes a client's subscription in one step: callback, uuid, timeout, max and the set of topics.

    Raises InvalidRequest, NotFound (a topic is unknown, and unknown topics are rejected) or Throttled. Then nothing changed.
    """
    wanted.check()
    begins = wanted.begins()
    names = sorted(set(wanted.topics))
    queues = yield Statement(QUEUE_OF, (client_id,))
    for (queue,) in queues:
        yield from catch_up(queue, now)  # events of topics that are left now are queued first
    topics, sources = yield from atomically(subscribe_locked(client_id, client_name, names, wanted, begins, now))
    for topic in topics:
        forget(topic)
    for source_id in sources:
        yield from wake_source(source_id)


def catch_up(queue: str, now: int) -> Script[None]:
    """Brings all events that were acknowledged until now into a queue."""
    topic = yield from load_topic(queue)
    if topic is not None and topic.derived:
        yield from before_read(topic, now)


def subscribe_locked(
    client_id: int, client_name: str, names: list[str], wanted: Wanted, begins: dict[str, Any], now: int
) -> Script[tuple[list[str], list[int]]]:
    """Returns the names of the changed topics, and the ids of the sources that may have something to forward."""
    yield from graph.lock_graph()
    published = {name for (name,) in (yield Statement(PUBLISHED, (names,)))}
    yield from expect([name for name in names if name not in published], now)
    before = yield Statement(OF, (client_id,))
    queue = before[0][0] if before else queue_of(client_name, client_id)
    yield from insert_topic(queue, {}, now)
    sources = [bus_topic(name) for name in names]
    # The lock order (docs/concurrency.md): rows of topics, cursors, heads. The called functions lock the heads.
    yield Statement(LOCK_TOPICS, ([queue, *sources],))
    routers = yield from subscribed(queue)
    yield from lock_cursors([each.cursor_id for each in routers])
    values = {
        "callback": wanted.callback,
        "uuid": wanted.uuid,
        "timeout": 500 if wanted.timeout is None else wanted.timeout,
        "max": 100 if wanted.max is None else wanted.max,
    }
    yield Statement(SAVE, {"client": client_id, "queue": queue, "now": now, **values})
    # Delivery starts at the head of the queue when the cursor is created. The queue is new and empty then.
    cursor = {"topics": [queue], "kind": "subscription", "name": queue.removeprefix(QUEUE), "now": now}
    yield Statement(INSERT_AT_HEAD, cursor)
    gone = [each for each in routers if each.source not in sources]
    if gone:
        yield from remove(gone)
        yield from touch([end for each in gone for end in (each.source_id, each.dest_id)])
    there = {each.source for each in routers}
    for source in sources:
        if source not in there:
            config = RouterConfig(source=source, dest=queue, allow_fan_in=True, **begins)
            yield from create_router(router_of(source.removeprefix(BUS), queue), config, now)
    # From here on, several topics are merged in the order of publishing.
    yield Statement(SET_ORDERED, {"dest": queue, "sources": BUS, "ordered": len(sources) > 1})
    yield from note_change(queue, before, routers, {**values, "topics": names})
    made = yield from subscribed(queue)
    return [queue, *sources, *(each.source for each in gone)], [each.source_id for each in made]


def subscribed(queue: str) -> Script[list[StoredRouter]]:
    """Returns the routers from topics of the bus into a queue."""
    into = [StoredRouter(*row) for row in (yield Statement(ROUTERS, {"dest": queue}))]
    return [router for router in into if router.source.startswith(BUS)]


def expect(names: list[str], now: int) -> Script[None]:
    """Creates the topics that no client has published to. The first client that publishes becomes the publisher.

    Raises NotFound if the settings reject unknown topics, and Throttled if there are too many topics.
    """
    if names and settings.ROUTEMASTER_UNKNOWN_TOPICS == "reject":
        raise NotFound(f"no client has published to {names[0]!r} yet: publish first")
    for name in names:
        yield Statement(EXPECT, (name, now))
        yield from insert_topic(bus_topic(name), NEW_TOPIC, now)


def note_change(queue: str, before: Sequence[Any], routers: list[StoredRouter], after: dict[str, Any]) -> Script[None]:
    """Writes the audit entry. For secrets (uuid, the callback's credentials), the entry shows only the fact of a change."""
    was: dict[str, Any] = {}
    now = {**after, "callback": shown_callback(after["callback"]), "uuid": None}
    if before:
        _, callback, _, timeout, most, _ = before[0]
        topics = [each.source.removeprefix(BUS) for each in routers]
        was = {"callback": shown_callback(callback), "timeout": timeout, "max": most, "topics": topics}
        if callback != after["callback"] and was["callback"] == now["callback"]:
            now["callback"] += " (other credentials)"
    if (before[0][2] if before else None) != after["uuid"]:
        now["uuid"] = "changed"
    yield from audit.note_difference("bus", f"subscriber {queue}", was, now)


def unsubscribe(client_id: int, topic: str | None, now: int) -> Script[None]:
    """Ends a client's subscription to a topic, or (None) to all topics. Queued events are still delivered.

    Raises NotFound if the client has no subscription, or none to this topic.
    """
    if topic is not None:
        check_topic(topic)
    rows = yield Statement(WHOSE, (client_id,))
    if not rows:
        raise NotFound("this client has no subscription")
    queue = rows[0][0]
    yield from catch_up(queue, now)
    for name in (yield from atomically(unsubscribe_locked(client_id, queue, topic, now))):
        forget(name)


def unsubscribe_locked(client_id: int, queue: str, topic: str | None, now: int) -> Script[list[str]]:
    """Returns the names of the topics at the ends of the deleted routers."""
    yield from graph.lock_graph()
    routers = yield from subscribed(queue)
    gone = routers if topic is None else [each for each in routers if each.source == bus_topic(topic)]
    if topic is not None and not gone:
        raise NotFound(f"this client is not subscribed to {topic!r}")
    if gone:
        yield Statement(LOCK_TOPICS, ([queue, *(each.source for each in gone)],))
        yield from remove(gone)
        yield from touch([end for each in gone for end in (each.source_id, each.dest_id)])
    if topic is None:
        yield Statement(END, (now, client_id))
    change = {"topics": [each.source.removeprefix(BUS) for each in gone]}
    yield from audit.note("delete" if topic is None else "change", "bus", f"subscriber {queue}", before=change)
    return [queue, *(each.source for each in gone)]


def subscriber_named(name: str) -> Script[int]:
    """Returns the id of the client whose subscription has this name, or this NAME.ID. Raises NotFound or InvalidRequest."""
    check_token(name.partition(".")[0], "name")
    found = yield Statement(NAMED, {"name": name})
    if not found:
        raise NotFound(f"subscriber {name!r} does not exist")
    if len(found) > 1:
        each = ", ".join(f"{name}.{id}" for id, name in found)
        raise InvalidRequest(f"several subscribers have the name {name!r}: choose one of {each}")
    return int(found[0][0])


class Listed(NamedTuple):
    """A stored subscription, with the callback's credentials hidden.

    `oldest_ts`: when the oldest undelivered event was queued, or None if every event is delivered.
    """

    client_id: int
    subscriber: str
    uuid: str | None
    callback: str
    max_events: int
    timeout: int
    topics: list[str]
    sent: int
    queued: int
    oldest_ts: int | None


def list_subscriptions() -> Script[list[Listed]]:
    rows = yield Statement(ALL)
    return [
        Listed(id, name, uuid, shown_callback(callback), most, timeout, topics.split(",") if topics else [], *events)
        for id, name, uuid, callback, most, timeout, topics, *events in rows
    ]

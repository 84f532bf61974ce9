"""Publishes an event: an append to the topic of the bus topic, by the one client that may publish there (docs/push.md)."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple
from urllib.parse import urlsplit

import msgpack
import msgspec
from django.conf import settings

from base.depth import check_depth
from base.errors import Forbidden, InvalidRequest, NotReady, RecordTooLarge
from contract.appending import NO_META
from push.bus import health
from push.bus.names import bus_topic, check_topic
from store import disk
from store.script import Script, Statement, atomically
from topics import limits
from topics.append.doubles import takes
from topics.append.judged import judge
from topics.append.keys import check_key
from topics.append.plain import Write
from topics.append.records import MAX_RECORD_BYTES, Append, NewRecord, Rows
from topics.append.traced import traced
from topics.cache import CachedTopic, forget, forget_known, known_topic
from topics.config import change_once, insert_topic

MAX_URL = 1024  # characters
TEST_TOPIC, TEST_URL = "test", "https://test.invalid/"  # of an operator's test event (operate.py)
MAX_DATA = settings.ROUTEMASTER_MAX_EVENT_DATA  # read once here, because every event needs the value
NULL = msgspec.Raw(b"null")
PLAIN = re.compile(
    r"https://[a-z0-9.-]*[a-z0-9](?:/[!-~]*)?", re.ASCII
)  # matches most URLs, which then need no parsing
NEW_TOPIC = {"durability": settings.TOPICS_BUS_DURABILITY}  # config of new bus topics
# Matches a rendered event up to the end of its time. The group ends before the time.
TIME = re.compile(rb'^(\{"topic":"[a-z_]+","type":"[a-z]+","url":"(?:[^"\\]|\\.)*","t":)-?[0-9]+')
LEAST_TIME, MOST_TIME = -(2**63), 2**63 - 1

# Uses the unique indexes on the names. The version and the publisher are read together. Handing over a topic raises the version:
# an append that was prepared with the older version then finds no row.
OWNER = """
SELECT t.id, h.version, p.publisher_id
  FROM push_bustopic p JOIN topics_topic t ON t.name = 'bus:' || p.name JOIN topic_heads h ON h.topic_id = t.id
 WHERE p.name = %s AND p.publisher_id IS NOT NULL
"""
# If two clients publish first at the same time, the second waits here for the first one's commit, and then finds the row. A
# subscription creates a row without a publisher (subscriptions.py).
CLAIM = """
INSERT INTO push_bustopic AS topic (name, publisher_id, created_ts) VALUES (%s, %s, %s)
ON CONFLICT (name) DO UPDATE SET publisher_id = excluded.publisher_id WHERE topic.publisher_id IS NULL
"""
OWNED_BY = "SELECT publisher_id FROM push_bustopic WHERE name = %s"


Kind = Literal["create", "update", "delete", "noop"]


class Event(msgspec.Struct, forbid_unknown_fields=True):
    """The body of a publish. `data` keeps the bytes of the request."""

    type: Kind
    url: str
    timestamp: int | float | None = None  # a whole number, also written as 1.7e12
    data: msgspec.Raw = msgspec.field(default_factory=lambda: NULL)


class Owner(NamedTuple):
    """The publisher of a topic, at one version of the topic."""

    topic_id: int
    version: int
    publisher_id: int

    def of(self, topic: CachedTopic) -> bool:
        """Returns whether this publisher belongs to the known id and version of the topic."""
        return (self.topic_id, self.version) == (topic.id, topic.version)


_owners: dict[str, Owner] = {}  # by bus topic, remembered by this process for as many topics as the cache


def check_event(event: Event) -> None:
    """Raises InvalidRequest for an invalid URL or timestamp, or for data over ROUTEMASTER_MAX_EVENT_DATA."""
    check_url(event.url, "url", MAX_URL)
    if event.timestamp is not None and not (
        LEAST_TIME <= event.timestamp <= MOST_TIME and event.timestamp == int(event.timestamp)
    ):
        raise InvalidRequest("invalid timestamp: expected a whole number of milliseconds, at most 64 bits")
    if MAX_DATA and event.data != NULL:
        try:
            size = len(msgpack.packb(msgspec.json.decode(event.data)))
        except (msgspec.MsgspecError, ValueError, OverflowError, RecursionError) as error:
            raise InvalidRequest("invalid data: expected values that MessagePack can hold") from error
        if size > MAX_DATA:
            raise InvalidRequest(f"data has {size} bytes of MessagePack: expected at most {MAX_DATA}")


def check_url(url: str, what: str, most: int, schemes: tuple[str, ...] = ("https",)) -> None:
    """Raises InvalidRequest if the URL is too long, has no host, or has none of these schemes."""
    if len(url) > most:
        raise InvalidRequest(f"{what} has {len(url)} characters: expected at most {most}")
    if PLAIN.fullmatch(url):
        return
    try:
        parts = urlsplit(url)
        fine = parts.scheme in schemes and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        fine = False
    if not fine or any(c <= " " or c == "\x7f" for c in url):
        raise InvalidRequest(f"invalid {what}: expected an {schemes[0]}:// URL")


def rendered(topic: str, event: Event, now: int) -> bytes:
    """Returns the event as JSON, as subscribers get it."""
    t = now if event.timestamp is None else event.timestamp
    data = b"" if event.data == NULL else b',"data":%b' % bytes(event.data)
    head = f'{{"topic":"{topic}","type":"{event.type}","url":'.encode()
    return b'%b%b,"t":%d%b}' % (head, msgspec.json.encode(event.url), t, data)


def publish(
    topic: str, event: Event, client_id: int, now: int, traceparent: bytes | None = None, key: str | None = None
) -> Script[None]:
    """Publishes an event. On a topic without a publisher, the client becomes the publisher.

    `key`: the idempotency key. If the topic knows it, nothing is published again. Raises InvalidRequest, IdempotencyMismatch,
    Forbidden (another client publishes to this topic), TopicSealed, TopicFull, Throttled or NotReady. Then nothing was published.
    """
    check_topic(topic)
    check_event(event)
    if key is not None:
        check_key("Idempotency-Key", key)
    if health.process.redis_away:
        raise NotReady("Redis is not reachable, so the event was not published: try again")
    rows = traced(one_row(rendered(topic, event, now)), traceparent)
    if key is not None and event.timestamp is None:
        rows = Untimed(*rows)
    if limits.MOST_TOTAL_BYTES:
        yield from limits.check_total_bytes(rows.bytes)
    name = bus_topic(topic)
    while True:
        known = yield from topic_of(topic, name, client_id, now)
        if known is None:
            forget(name)
        elif (yield from write(known, rows, now, key)):
            return
        forget_known(known)  # the topic was changed, handed over or deleted meanwhile


def one_row(data: bytes) -> Rows:
    """Returns a record of this data in the form of topics.append.records.check_rows(). Raises InvalidRequest,
    RecordTooLarge or StorageFull."""
    disk.check()
    size = len(data)
    if size > MAX_RECORD_BYTES:
        raise RecordTooLarge(f"the event has {size} bytes: expected at most {MAX_RECORD_BYTES}", max=MAX_RECORD_BYTES)
    check_depth("the event", data)
    return Rows([msgspec.Raw(data)], [None], [None], [NO_META], [size], size)


class Untimed(Rows):
    """An event without a timestamp. A repeat arrives at another time and is still the same event, so the digest leaves the time
    out."""

    def digest(self) -> str:
        return self.timeless().digest()

    def digests(self) -> list[str]:
        return self.timeless().digests()

    def timeless(self) -> Rows:
        return Rows(*self)._replace(data=[msgspec.Raw(TIME.sub(rb"\1", bytes(event), count=1)) for event in self.data])


def write(topic: CachedTopic, rows: Rows, now: int, key: str | None = None) -> Script[bool]:
    """Appends the rows. Returns False if the topic has changed since `topic` was read: then nothing was written."""
    if topic.takes_doubles and not (yield from takes(topic, rows, "event{path}")):
        return False
    if topic.judges or key is not None:
        wanted = Append([NewRecord(each) for each in rows.data], idempotency_key=key)
        return (yield from judge(topic, wanted, rows, now)) is not None
    return (yield Write(topic, rows, now)) is not None


def topic_of(topic: str, name: str, client_id: int, now: int) -> Script[CachedTopic | None]:
    """Returns the topic, if the client is its publisher at the version of the returned topic. Creates a missing topic.

    Returns None if the caller has to look again. Raises Forbidden. A topic from before a change of TOPICS_BUS_DURABILITY to
    `fsync` becomes `fsync`.
    """
    known = yield from known_topic(name)
    owner = _owners.get(topic)
    # A remembered publisher alone refuses no client: another process may have handed over or deleted the topic.
    if not (known and owner and owner.of(known) and owner.publisher_id == client_id):
        rows = yield Statement(OWNER, (topic,), quick=True)
        if not rows:
            yield from atomically(claim(topic, name, client_id, now))
            return None
        owner = _owners[topic] = Owner(*rows[0])
        if owner.publisher_id != client_id:
            raise not_yours(topic)
        if not (known and owner.of(known)):
            return None
    if settings.TOPICS_BUS_DURABILITY == "fsync" and known.durability != "fsync":
        yield from atomically(change_once(name, NEW_TOPIC, now))  # raises the version
        return None
    return known


def claim(topic: str, name: str, client_id: int, now: int) -> Script[None]:
    """Makes the client the publisher, if the topic has none, and creates the topic. Raises Forbidden: nothing is created."""
    yield Statement(CLAIM, (topic, client_id, now))
    ((publisher_id,),) = yield Statement(OWNED_BY, (topic,))
    if publisher_id != client_id:
        raise not_yours(topic)
    yield from insert_topic(name, NEW_TOPIC, now)


def not_yours(topic: str) -> Forbidden:
    return Forbidden(f"another client publishes to {topic!r}")

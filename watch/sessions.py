"""Watch sessions: their options and how far their streams were sent. They live in PostgreSQL. Any process can therefore serve the
GET, and a restart loses no session.

`stream` counts the streams of a session. Only the latest stream may save its positions. `open` is true from the start of a stream
until the stream has ended well. Until then the row may be behind the client.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from random import randrange
from typing import Annotated, Any, NamedTuple

import msgspec
from django.conf import settings
from msgspec import Meta

from base.errors import Forbidden, InvalidRequest, NotFound, TopicNotFound
from base.names import check_topic_name
from contract.names import NamedTopic
from contract.operations import MOST_EVENT_BYTES
from contract.watching import SelectionFields, StartFields
from store.script import Script, Statement
from topics.read.diff import MAX_BYTES, MAX_LIMIT, check_match, check_nodes
from watch.reading import ReadView
from wire.access.keys import OPEN, Key
from wire.answer import clamped
from wire.limits import check
from wire.request.parse import Request
from wire.schema import Clamped

MOST_TOPICS = 256
MAX_BATCH_BYTES = min(MOST_EVENT_BYTES, MAX_BYTES)  # a stream holds a whole batch while its client takes the batch
REFRESH_MS = 30_000  # a session with a stream updates its seen_ts at least this often
FIRST_TTL_MS = min(30_000, settings.TOPICS_WATCH_SESSION_TTL_MS)  # lifetime of a session without a first stream

# For each topic: the head and the earliest seq of a read at the head, and the seq before the first record since `from_ts`.
SURVEY = """
SELECT t.name, t.id, diff.head_seq, diff.earliest_seq,
       CASE WHEN wanted.from_ts IS NOT NULL THEN topic_seq_at(t.id, h.floor_seq, h.head_seq, wanted.from_ts) - 1 END
  FROM unnest(%(names)s::text[], %(from_ts)s::bigint[]) AS wanted (name, from_ts)
  JOIN topics_topic t USING (name)
  JOIN topic_heads h ON h.topic_id = t.id
 CROSS JOIN LATERAL topic_diff(t.id, h.version, h.head_seq, 1, NULL, NULL, NULL, false, false, 1,
                               CASE WHEN t.ttl_ms > 0 THEN %(now)s - t.ttl_ms END) diff
"""

# When a session expires. A stream that ends well sets seen_ts.
EXPIRES = """
seen_ts + CASE WHEN stream = 0 THEN %(first_ttl_ms)s WHEN open THEN %(ttl_ms)s::bigint + %(refresh_ms)s ELSE %(ttl_ms)s END
"""
# Scans all sessions. The table has about 20,000 rows at most, and an index on seen_ts would cost every save its HOT update. SKIP
# LOCKED leaves out a session that its process refreshes or saves now, because a process does so with many at once.
SWEEP = f"""
WITH dropped AS (
    DELETE FROM topics_watchsession WHERE wid IN (
        SELECT wid FROM topics_watchsession WHERE {EXPIRES} < %(now)s FOR UPDATE SKIP LOCKED)
    RETURNING wid)
SELECT count(*) FROM dropped
"""

COUNT = "SELECT count(*) FROM topics_watchsession WHERE %(key_id)s::text IS NULL OR key_id = %(key_id)s"

# Deletes the oldest sessions without a live stream. A live stream updates its seen_ts, so a row that is open and much older is of
# a killed process. A locked session is being deleted by another request, or gets a stream.
MAKE_ROOM = """
WITH dropped AS (
    DELETE FROM topics_watchsession WHERE wid IN (
        SELECT wid FROM topics_watchsession
         WHERE (NOT open OR seen_ts < %(now)s::bigint - 2 * %(refresh_ms)s) AND (%(key_id)s::text IS NULL OR key_id = %(key_id)s)
         ORDER BY seen_ts LIMIT %(most)s FOR UPDATE SKIP LOCKED)
    RETURNING wid)
SELECT count(*) FROM dropped
"""

INSERT = """
INSERT INTO topics_watchsession (wid, key_id, options, spots, stream, open, seen_ts, created_ts)
VALUES (%(wid)s, %(key_id)s, %(options)s, %(spots)s, 0, false, %(now)s, %(now)s)
ON CONFLICT (wid) DO NOTHING  -- sent a second time, since the connection ended under the first
"""

FIND = f"SELECT key_id, options, spots FROM topics_watchsession WHERE wid = %(wid)s AND {EXPIRES} >= %(now)s"

# Two streams that start at once lock the row in turn. The later stream owns the session.
TAKE = """
WITH before AS (SELECT wid, open FROM topics_watchsession WHERE wid = %s FOR UPDATE)
UPDATE topics_watchsession session SET stream = stream + 1, open = true, seen_ts = %s
  FROM before WHERE session.wid = before.wid
RETURNING session.stream, session.spots, before.open
"""

# Matches no row if a later stream has taken the session, or if the session was swept. Locks the rows in order of wid: a session
# can have streams in two processes, whose saves could deadlock in another order.
SAVE = """
WITH held AS (
    SELECT session.wid, saved.spots, saved.open
      FROM unnest(%s::text[], %s::bigint[], %s::text[], %s::boolean[]) AS saved (wid, stream, spots, open)
      JOIN topics_watchsession session USING (wid, stream)
     ORDER BY session.wid FOR NO KEY UPDATE OF session)
UPDATE topics_watchsession session SET spots = held.spots, open = held.open, seen_ts = %s
  FROM held WHERE session.wid = held.wid
"""
# SKIP LOCKED leaves out a session that is saved or taken now, because that sets its seen_ts, too, and a wait could deadlock.
REFRESH = """
UPDATE topics_watchsession SET seen_ts = %s
 WHERE wid = ANY (ARRAY(SELECT wid FROM topics_watchsession WHERE wid = ANY (%s) FOR NO KEY UPDATE SKIP LOCKED))
"""


class Start(StartFields, Request):
    """The position at which to start in one topic, and a filter."""


class Selection(SelectionFields, Request, kw_only=True):
    """The fields and records that a reader gets of each topic, and the size of one read."""


class Watch(Selection):
    """The body of POST /v0/watch."""

    topics: dict[NamedTopic, Start]
    """1 to 256 topics by name, each with its start. `{}` starts at the beginning."""
    heartbeat_ms: Annotated[int, Meta(ge=1000, le=60_000)] = 15_000
    """Milliseconds without any output after which the server sends a comment."""


class Options(msgspec.Struct, omit_defaults=True):
    """The options of a session, saved from its Watch."""

    limit: int
    max_bytes: int
    heartbeat_ms: int
    nodes: tuple[str, ...] | None = None
    matches: dict[str, tuple[str, str]] = {}
    tags: bool = False
    meta: bool = True
    data: bool = True
    strong: bool = False

    def view(self, topic: str, prefixes: tuple[str, ...]) -> ReadView:
        """Returns a topic's view for a key with `prefixes`. Only `meta` can hold names hidden from a key."""
        op, match = self.matches.get(topic, (None, None))
        what = (self.limit, self.max_bytes, op, match, self.tags, self.meta, self.data, self.strong)
        return ReadView(*what, prefixes if self.meta else ())


class SavedPosition(msgspec.Struct, array_like=True, frozen=True):
    """How far a session's streams were sent in a topic: up to and including `seq`.

    `told`: the client needs no tombstone `recreated` that ends at `seq`. The client got the tombstone, or chose `seq` in the
    topic `topic_id`. `gone`: the topic was deleted, and the client got `topic-deleted`. `arrived_seq`, only in a saved row: the
    client has surely got everything up to this seq. The row is an array, so add a new field at the end.
    """

    topic_id: int
    seq: int
    told: bool = False
    gone: bool = False
    arrived_seq: int | None = None


SavedPositions = dict[str, SavedPosition]


class Session(NamedTuple):
    """A session as its stream uses it. `exact`: the positions were sent, not saved before a crash."""

    wid: str
    options: Options
    positions: SavedPositions
    stream: int
    exact: bool


class SurveyedTopic(NamedTuple):
    """A topic in the result of SURVEY. `before_ts` is the seq before its first record since `from_ts`."""

    name: str
    topic_id: int
    head_seq: int
    earliest_seq: int
    before_ts: int | None


def check_watch(wanted: Watch, key: Key) -> None:
    """Raises InvalidRequest or Forbidden if the key may not start the session."""
    key.check("read")
    if not 1 <= len(wanted.topics) <= MOST_TOPICS:
        raise InvalidRequest(f"{len(wanted.topics)} topics in one session: expected 1 to {MOST_TOPICS}")
    for name, start in wanted.topics.items():
        check_topic_name(name)
        key.check_name(name)
        start.check(name)


def options(wanted: Watch) -> Options:
    """Returns the options to save. Raises InvalidRequest."""
    nodes = check_nodes(wanted.node)
    matches = {name: check_match(start.match) for name, start in wanted.topics.items() if start.match is not None}
    return Options(
        limit=min(wanted.limit, MAX_LIMIT),
        max_bytes=min(wanted.max_batch_bytes, MAX_BATCH_BYTES),
        heartbeat_ms=wanted.heartbeat_ms,
        nodes=tuple(sorted(set(nodes))) if nodes else None,
        matches={name: (str(op), str(match)) for name, (op, match) in matches.items()},
        tags=wanted.include_tags,
        meta=wanted.include_meta,
        data=wanted.include_data,
        strong=wanted.consistency == "strong",
    )


def clamped_by(wanted: Watch) -> Clamped:
    """Returns the clamped fields, each with the value used instead."""
    return clamped(
        limit=(wanted.limit, min(wanted.limit, MAX_LIMIT)),
        max_batch_bytes=(wanted.max_batch_bytes, min(wanted.max_batch_bytes, MAX_BATCH_BYTES)),
    )


def create(wanted: Watch, key: Key, lenient: bool, now: int) -> Script[tuple[str, list[SurveyedTopic], SavedPositions]]:
    """Creates a session. Returns the wid, the topics, and the position in each topic. Raises TopicsError."""
    chosen, topics, positions = yield from look_up(wanted, key, lenient, now)
    wid = "wid_" + secrets.token_urlsafe(16)
    yield from check_room(key, now)
    session = {"wid": wid, "key_id": key.holder, "options": packed(chosen), "spots": packed(positions), "now": now}
    yield Statement(INSERT, session)
    return wid, topics, positions


def look_up(
    wanted: Watch, key: Key, lenient: bool, now: int
) -> Script[tuple[Options, list[SurveyedTopic], SavedPositions]]:
    """Returns the options, the topics, and the position at which a stream starts in each topic. Raises TopicsError."""
    check_watch(wanted, key)
    chosen = options(wanted)
    topics = yield from survey(wanted, now)
    missing = set(wanted.topics) - {found.name for found in topics}
    if missing and not (lenient and topics):
        name = min(missing)
        raise TopicNotFound(f"topic {name!r} does not exist", topic=name)
    return chosen, topics, {found.name: begin(wanted.topics[found.name], found) for found in topics}


def check_room(key: Key, now: int) -> Script[None]:
    """Makes room for one more session if a cap is reached. Raises Throttled if there is still no room."""
    yield from make_room("watch_sessions_per_key", settings.TOPICS_MAX_WATCH_SESSIONS_PER_KEY, key.holder, now)
    yield from make_room("watch_sessions", settings.TOPICS_MAX_WATCH_SESSIONS, None, now)


def make_room(limit: str, most: int, holder: str | None, now: int) -> Script[None]:
    """Makes room under one cap: on the sessions of `holder`, or on all sessions if `holder` is None.

    Deletes the oldest sessions without a live stream, so pages that were left never lock out new ones. A session with a live
    stream stays.

    A count reads all sessions of the holder. So under a large cap, not every creation counts, and several sessions make room at
    once. On average, each process passes the cap by a thousandth or less.
    """
    if not most or randrange(max(1, most // 1000)):
        return
    of = {"key_id": holder}
    ((held,),) = yield Statement(COUNT, of)
    if held >= most:
        wanted = {**of, "most": held - most + 1 + most // 50, "now": now, "refresh_ms": REFRESH_MS}
        ((dropped,),) = yield Statement(MAKE_ROOM, wanted)
        check(limit, most, held - dropped)


def survey(wanted: Watch, now: int) -> Script[list[SurveyedTopic]]:
    """Returns the topics that exist, in the order of the request."""
    names, from_ts = list(wanted.topics), [start.from_ts for start in wanted.topics.values()]
    rows = yield Statement(SURVEY, {"names": names, "from_ts": from_ts, "now": now})
    found = {row[0]: SurveyedTopic(*row) for row in rows}
    return [found[name] for name in names if name in found]


def begin(start: Start, found: SurveyedTopic) -> SavedPosition:
    """Returns the position at which a stream of this topic starts. Only a `from_seq` can be a cursor of a topic that had the
    name before."""
    if start.tail:
        return SavedPosition(found.topic_id, found.head_seq, told=True)
    if found.before_ts is not None:
        return SavedPosition(found.topic_id, found.before_ts, told=True)
    return SavedPosition(found.topic_id, start.from_seq or 0)


def packed(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def ages(now: int) -> dict[str, int]:
    ttl_ms = settings.TOPICS_WATCH_SESSION_TTL_MS
    return {"now": now, "ttl_ms": ttl_ms, "refresh_ms": REFRESH_MS, "first_ttl_ms": FIRST_TTL_MS}


def sweep(now: int) -> Script[int]:
    """Deletes the sessions that had no stream for too long. Returns their number."""
    ((dropped,),) = yield Statement(SWEEP, ages(now))
    return int(dropped)


def take(wid: str, key: Key, now: int) -> Script[Session]:
    """Starts another stream of a session. Raises NotFound or Forbidden."""
    found = yield Statement(FIND, {"wid": wid, **ages(now)})
    if not found:
        raise NotFound(f"watch session {wid[:64]!r} does not exist or has expired")
    ((key_id, chosen, spots),) = found
    # Without API keys, any client with the wid may follow, because an address may change.
    if key != OPEN and key_id != key.id:
        raise Forbidden("this watch session belongs to another key: create a session with this key")
    key.check("read")
    for name in msgspec.json.decode(spots, type=SavedPositions):
        key.check_name(name)
    taken = yield Statement(TAKE, (wid, now))
    if not taken:  # the session was swept since we looked
        raise NotFound(f"watch session {wid[:64]!r} does not exist or has expired")
    ((stream, spots, left_open),) = taken
    return Session(
        wid,
        msgspec.json.decode(chosen, type=Options),
        msgspec.json.decode(spots, type=SavedPositions),
        stream,
        not left_open,
    )


class Saved(NamedTuple):
    """A row of SAVE."""

    wid: str
    stream: int
    spots: str
    open: bool


def save(rows: Iterable[Saved], now: int) -> Script[None]:
    columns = [list(column) for column in zip(*rows, strict=True)]
    if columns:
        yield Statement(SAVE, (*columns, now))


def refresh(wids: list[str], now: int) -> Script[None]:
    yield Statement(REFRESH, (now, wids))

"""Watch sessions: what was asked for, and how far it was streamed. They live in PostgreSQL,
so that the GET may reach another process than the POST, and a restart loses none.

`stream` counts the streams that a session has had: only the latest may say how far it came. `open` says that one
has begun and not ended well, so that the row may be behind what its client has seen.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Iterable
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
from django.conf import settings
from msgspec import Meta

from base.errors import Forbidden, InvalidRequest, NotFound, TopicNotFound
from base.names import check_topic_name
from store.script import Script, Statement
from topics.diff import MAX_BYTES, MAX_LIMIT, Match, Seq, check_match, check_nodes
from watch.feeds import View
from wire.answer import clamped
from wire.keys import OPEN, Key
from wire.limits import check
from wire.parse import Request
from wire.schema import Clamped

MOST_TOPICS = 256
MAX_BATCH_BYTES = min(256 * 1024, MAX_BYTES)  # a stream holds a whole batch while its reader takes it
REFRESH_MS = 30_000  # a session with a stream says so at least this often
FIRST_TTL_MS = min(30_000, settings.TOPICS_WATCH_SESSION_TTL_MS)  # a session is kept so long for its first stream

# What the answer says of each topic, as a read at its head finds it; and where its first record since `from_ts` is.
SURVEY = """
SELECT t.name, t.id, diff.head_seq, diff.earliest_seq,
       CASE WHEN wanted.from_ts IS NOT NULL THEN topic_seq_at(t.id, h.floor_seq, h.head_seq, wanted.from_ts) - 1 END
  FROM unnest(%(names)s::text[], %(from_ts)s::bigint[]) AS wanted (name, from_ts)
  JOIN topics_topic t USING (name)
  JOIN topics_topichead h ON h.topic_id = t.id
 CROSS JOIN LATERAL topic_diff(t.id, h.version, h.head_seq, 1, NULL, NULL, NULL, false, false, 1,
                               CASE WHEN t.ttl_ms > 0 THEN %(now)s - t.ttl_ms END) diff
"""

# When a session expires. A stream that ends well sets seen_ts.
EXPIRES = """
seen_ts + CASE WHEN stream = 0 THEN %(first_ttl_ms)s WHEN open THEN %(ttl_ms)s::bigint + %(refresh_ms)s ELSE %(ttl_ms)s END
"""
# All of them: there are 10,000 at most, and an index on seen_ts would cost every save its HOT update.
SWEEP = f"""
WITH dropped AS (DELETE FROM topics_watchsession WHERE {EXPIRES} < %(now)s RETURNING wid)
SELECT count(*) FROM dropped
"""

COUNT = "SELECT count(*) FROM topics_watchsession WHERE %(key_id)s::text IS NULL OR key_id = %(key_id)s"

# The oldest sessions that never had a stream. One that is locked is being dropped by another request, or gets its first stream.
MAKE_ROOM = """
WITH dropped AS (
    DELETE FROM topics_watchsession WHERE wid IN (
        SELECT wid FROM topics_watchsession
         WHERE stream = 0 AND (%(key_id)s::text IS NULL OR key_id = %(key_id)s)
         ORDER BY seen_ts LIMIT %(most)s FOR UPDATE SKIP LOCKED)
    RETURNING wid)
SELECT count(*) FROM dropped
"""
NEXT_ROOM = f"""
SELECT coalesce(min({EXPIRES}), 0)::bigint FROM topics_watchsession WHERE %(key_id)s::text IS NULL OR key_id = %(key_id)s
"""

INSERT = """
INSERT INTO topics_watchsession (wid, key_id, options, spots, stream, open, seen_ts, created_ts)
VALUES (%(wid)s, %(key_id)s, %(options)s, %(spots)s, 0, false, %(now)s, %(now)s)
ON CONFLICT (wid) DO NOTHING  -- sent a second time, since the connection ended under the first
"""

FIND = f"SELECT key_id, options, spots FROM topics_watchsession WHERE wid = %(wid)s AND {EXPIRES} >= %(now)s"

# Two streams that begin at once take turns at the row; the later one has the say.
TAKE = """
WITH before AS (SELECT wid, open FROM topics_watchsession WHERE wid = %s FOR UPDATE)
UPDATE topics_watchsession session SET stream = stream + 1, open = true, seen_ts = %s
  FROM before WHERE session.wid = before.wid
RETURNING session.stream, session.spots, before.open
"""

# Matches no row once a later stream has taken the session, or it was swept away.
SAVE = """
UPDATE topics_watchsession session SET spots = saved.spots, open = saved.open, seen_ts = %s
  FROM unnest(%s::text[], %s::bigint[], %s::text[], %s::boolean[]) AS saved (wid, stream, spots, open)
 WHERE session.wid = saved.wid AND session.stream = saved.stream
"""
REFRESH = "UPDATE topics_watchsession SET seen_ts = %s WHERE wid = ANY(%s)"


class Start(Request):
    """Where to begin in one topic, and what to leave out."""

    from_seq: Seq | None = None
    """Begin behind this seq, which is exclusive; null is 0: from the beginning. One of these three at the most."""
    from_ts: Seq | None = None
    """Begin at the first record with `$ts` at or above this, in milliseconds since the epoch."""
    tail: bool = False
    """True: begin behind the head."""
    match: Match | None = None
    """Only records with such a tag, as in a diff."""


class Watch(Request):
    """The body of POST /v0/watch."""

    topics: dict[str, Start]
    """1 to 256 topics by name, each with where to begin: `{}` is from the beginning."""
    node: str | list[str] | None = None
    """Who reads: records with one of these as `$node` are left out, of all topics. One, or up to 1000."""
    limit: Annotated[int, Meta(ge=1, le=2**63 - 1)] = 256
    """Records of one read; more than 1000 gives 1000."""
    max_batch_bytes: Annotated[int, Meta(ge=1, le=2**63 - 1)] = 262_144
    """Bytes of one read; more than 262144 gives that."""
    heartbeat_ms: Annotated[int, Meta(ge=1000, le=60_000)] = 15_000
    """Milliseconds after which a comment is sent, when nothing else was."""
    include_meta: bool = True
    """Whether records show their `meta`."""
    include_tags: bool = False
    """Whether records show their `$tag`."""
    include_data: bool = True
    """Whether records show their `data`."""
    consistency: Literal["eventual", "strong"] = "eventual"
    """`eventual`: a record is shown once it is committed. `strong`: once no crash can take it back."""


class Options(msgspec.Struct, omit_defaults=True):
    """What a session keeps of its Watch."""

    limit: int
    max_bytes: int
    heartbeat_ms: int
    nodes: tuple[str, ...] | None = None
    matches: dict[str, tuple[str, str]] = {}
    tags: bool = False
    meta: bool = True
    data: bool = True
    strong: bool = False

    def view(self, topic: str, prefixes: tuple[str, ...]) -> View:
        """What a reader whose key has these prefixes sees of a topic. Only `meta` can hold names that it may not see."""
        op, match = self.matches.get(topic, (None, None))
        what = (self.limit, self.max_bytes, op, match, self.tags, self.meta, self.data, self.strong)
        return View(*what, prefixes if self.meta else ())


class SavedPosition(msgspec.Struct, array_like=True, frozen=True):
    """How far a session's streams were sent in a topic: up to and with `seq`.

    `told`: the client needs no tombstone `recreated` that ends at `seq`, because it got that tombstone, or chose this seq in
    the topic `topic_id`. `gone`: the topic was deleted, and the client got `topic-deleted`. `arrived_seq`, in what is written
    down: the client has surely got everything up to this seq. Written down as an array, so a new field is added at the end.
    """

    topic_id: int
    seq: int
    told: bool = False
    gone: bool = False
    arrived_seq: int | None = None


SavedPositions = dict[str, SavedPosition]


class Session(NamedTuple):
    """A session as its stream knows it. `exact`: its positions are what was sent, not what was saved before a crash."""

    wid: str
    options: Options
    positions: SavedPositions
    stream: int
    exact: bool


class Found(NamedTuple):
    """A topic as SURVEY found it; `before_ts` is the seq before its first record since `from_ts`."""

    name: str
    topic_id: int
    head_seq: int
    earliest_seq: int
    before_ts: int | None


def check_watch(wanted: Watch, key: Key) -> None:
    """Raises InvalidRequest or Forbidden."""
    key.check("read")
    if not 1 <= len(wanted.topics) <= MOST_TOPICS:
        raise InvalidRequest(f"a session watches 1 to {MOST_TOPICS} topics, not {len(wanted.topics)}")
    for name, start in wanted.topics.items():
        check_topic_name(name)
        key.check_name(name)
        if sum((start.from_seq is not None, start.from_ts is not None, start.tail)) > 1:
            raise InvalidRequest(f"{name}: from_seq, from_ts and tail exclude one another")


def options(wanted: Watch) -> Options:
    """Raises InvalidRequest."""
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
    """What is used in place of what was asked for."""
    return clamped(
        limit=(wanted.limit, min(wanted.limit, MAX_LIMIT)),
        max_batch_bytes=(wanted.max_batch_bytes, min(wanted.max_batch_bytes, MAX_BATCH_BYTES)),
    )


def create(wanted: Watch, key: Key, lenient: bool, now: int) -> Script[tuple[str, list[Found], SavedPositions]]:
    """A new session: its wid, its topics, and where in them it begins. Raises TopicsError."""
    check_watch(wanted, key)
    chosen = options(wanted)
    topics = yield from survey(wanted, now)
    missing = set(wanted.topics) - {found.name for found in topics}
    if missing and not (lenient and topics):
        name = min(missing)
        raise TopicNotFound(f"there is no topic {name!r}", topic=name)
    positions = {found.name: begin(wanted.topics[found.name], found) for found in topics}
    wid = "wid_" + secrets.token_urlsafe(16)
    yield from check_room(key, now)
    session = {"wid": wid, "key_id": key.holder, "options": packed(chosen), "spots": packed(positions), "now": now}
    yield Statement(INSERT, session)
    return wid, topics, positions


def check_room(key: Key, now: int) -> Script[None]:
    """Make room for one more session where a cap is reached. Raises Throttled where none can be made."""
    yield from make_room("watch_sessions_per_key", settings.TOPICS_MAX_WATCH_SESSIONS_PER_KEY, key.holder, now)
    yield from make_room("watch_sessions", settings.TOPICS_MAX_WATCH_SESSIONS, None, now)


def make_room(limit: str, most: int, holder: str | None, now: int) -> Script[None]:
    """The same for one cap: on the sessions of `holder`, or on all.

    Expired sessions go first, because beat may be late or away. Then the oldest sessions go that never had a stream, so that
    a client which only makes sessions takes no place from others. A session that had a stream stays.
    """
    if not most:
        return
    of = {"key_id": holder}
    ((held,),) = yield Statement(COUNT, of)
    if held < most:
        return
    yield from sweep(now)
    ((held,),) = yield Statement(COUNT, of)
    if held >= most:
        ((dropped,),) = yield Statement(MAKE_ROOM, {**of, "most": held - most + 1})
        ((room_ts,),) = yield Statement(NEXT_ROOM, {**of, **ages(now)})
        check(limit, most, held - dropped, max(1, math.ceil((room_ts - now) / 1000)))


def survey(wanted: Watch, now: int) -> Script[list[Found]]:
    """The topics that are there, in the order of asking."""
    names, from_ts = list(wanted.topics), [start.from_ts for start in wanted.topics.values()]
    rows = yield Statement(SURVEY, {"names": names, "from_ts": from_ts, "now": now})
    found = {row[0]: Found(*row) for row in rows}
    return [found[name] for name in names if name in found]


def begin(start: Start, found: Found) -> SavedPosition:
    """Where a stream of this topic begins. Only a `from_seq` can be a cursor of a topic that had the name before."""
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
    """Drop the sessions that had no stream for too long. Returns how many."""
    ((dropped,),) = yield Statement(SWEEP, ages(now))
    return int(dropped)


def take(wid: str, key: Key, now: int) -> Script[Session]:
    """Begin another stream of a session. Raises NotFound or Forbidden."""
    found = yield Statement(FIND, {"wid": wid, **ages(now)})
    if not found:
        raise NotFound(f"there is no watch session {wid[:64]!r}, or it has expired")
    ((key_id, chosen, spots),) = found
    if (
        key != OPEN and key_id != key.id
    ):  # where no key is needed, whoever has the wid may follow: an address may change
        raise Forbidden("this watch session belongs to another key")
    key.check("read")
    for name in msgspec.json.decode(spots, type=SavedPositions):
        key.check_name(name)
    taken = yield Statement(TAKE, (wid, now))
    if not taken:  # swept away since we looked
        raise NotFound(f"there is no watch session {wid[:64]!r}, or it has expired")
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
        yield Statement(SAVE, (now, *columns))


def refresh(wids: list[str], now: int) -> Script[None]:
    yield Statement(REFRESH, (now, wids))

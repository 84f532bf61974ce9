"""Emitted records that wait, because their topic cannot take the first of them. The relay tries again. Operators can skip it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

from base.errors import NotFound, StorageFull, TopicsError
from outbox.appends import Appends, append_all, find
from outbox.drain import begin
from outbox.rows import MOST_BYTES, MOST_ROWS, Row
from store import disk
from store.script import Script, Statement, atomically
from topics import audit, limits
from topics.read.totals import BYTES

LEAST_MS, MOST_MS = 100, 10_000  # between two tries. A topic waits as long as it has waited so far, within these bounds

# No pause is longer than MOST_MS. If a pause ends later, a clock that was ahead set it.
DUE = f"""
SELECT topic FROM outbox_stopped WHERE next_ts NOT BETWEEN %(now)s::bigint + 1 AND %(now)s::bigint + {MOST_MS}
 ORDER BY next_ts LIMIT %(most)s
"""
NEXT = "SELECT min(next_ts) FROM outbox_stopped"
LOCK = "SELECT since_ts FROM outbox_stopped WHERE topic = %s FOR UPDATE"
LOCK_FREE = f"{LOCK} SKIP LOCKED"  # for the relay: while `skip` holds the row of a topic, the other topics do not wait
FIRST = f"""
SELECT place, ts, size, tag, node, key, data::text, meta::text
  FROM (SELECT *, sum(size) OVER (ORDER BY place) - size AS before
          FROM (SELECT * FROM outbox_waiting WHERE topic = %s AND place > %s ORDER BY place LIMIT {MOST_ROWS}) first) row
 WHERE before < {MOST_BYTES} ORDER BY place
"""
DONE = "DELETE FROM outbox_waiting WHERE topic = %s AND place <= %s"
GO_ON = "DELETE FROM outbox_stopped WHERE topic = %s"
STAY = """
UPDATE outbox_stopped SET code = %s, message = %s, next_ts = %s
 WHERE topic = (SELECT topic FROM outbox_stopped WHERE topic = %s FOR NO KEY UPDATE SKIP LOCKED)
"""
SKIP = """
DELETE FROM outbox_waiting
 WHERE topic = %(topic)s AND place = (SELECT place FROM outbox_waiting WHERE topic = %(topic)s ORDER BY place LIMIT 1)
RETURNING data::text, tag, key
"""
RETRY = "UPDATE outbox_stopped SET next_ts = 0 WHERE %(topic)s::text IS NULL OR topic = %(topic)s RETURNING topic"
LIST = "SELECT topic, records, bytes, extract(epoch FROM age)::bigint, code, reason FROM topics.outbox ORDER BY topic"
# The first record of a topic was emitted first, or nearly so.
ONES_THAT_STOPPED = """
SELECT stopped.topic, stopped.code, stopped.message, (SELECT count(*) FROM outbox_waiting WHERE topic = stopped.topic),
       coalesce(%(now)s - (SELECT ts FROM outbox_waiting WHERE topic = stopped.topic ORDER BY place LIMIT 1), 0)
  FROM outbox_stopped stopped
 WHERE %(prefixes)s::text[] IS NULL OR stopped.topic ^@ ANY (%(prefixes)s)
 ORDER BY stopped.since_ts LIMIT %(most)s
"""
# About the records of the relay's next transaction.
NEXT_BYTES = f"""
SELECT coalesce(sum(size), 0) FROM (SELECT size FROM outbox_emitted ORDER BY xid, id LIMIT {MOST_ROWS}) next
"""
OLDEST = "SELECT ts FROM outbox_emitted ORDER BY xid, id LIMIT 1"
# The session of the relay that drains has the time of the oldest record of its last look in its name (LOOK in drain.py), or 0.
# It looks several times a second. Without a relay, only the table knows. While a transaction is open, the table's index keeps an
# entry for each record that was moved, and OLDEST would read them at each scrape.
RELAY = """
SELECT split_part(application_name, ' ', 4)::bigint FROM pg_stat_activity
 WHERE application_name ~ '^topics relay [0-9]+ [0-9]+$' AND datname = current_database() AND usename = current_user
   AND state_change > clock_timestamp() - interval '10 s'
 ORDER BY state_change DESC LIMIT 1
"""
WAKE = "NOTIFY topics"


class WaitingTopic(NamedTuple):
    """A topic with records that have not arrived. `code`, `reason`: of the refusal, or of the pause of the relay.

    Both are None until the relay comes to them.
    """

    topic: str
    records: int
    bytes: int
    age_s: int
    code: str | None
    reason: str | None


class Stopped(NamedTuple):
    """A topic that cannot take its next emitted record, and why."""

    topic: str
    code: str
    reason: str
    records: int
    age_ms: int


class Tried(NamedTuple):
    """The result of a try: the place of the last appended record, and whether more records can be tried at once."""

    place: int
    more: bool


def due(now: int, most: int) -> Script[list[str]]:
    """Returns the topics that the relay tries again now."""
    return [name for (name,) in (yield Statement(DUE, {"now": now, "most": most}))]


def is_due(next_ts: int, now: int) -> bool:
    """Returns whether a stopped topic with this `next_ts` is due. DUE finds all of them."""
    return not now < next_ts <= now + MOST_MS


def next_ts() -> Script[int | None]:
    """Returns when the next topic is due, or None if no topic is stopped."""
    ((ts,),) = yield Statement(NEXT)
    return ts


def try_again(name: str, after: int, now: int) -> Script[Tried]:
    """Appends the waiting records of a topic, in one transaction, until the topic refuses a record.

    `after`: no record waits at this place or before. Raises Outdated if the caller must try again, and TurnLost.
    """
    topics = yield from find([name], now)
    started = time.perf_counter()

    def move() -> Script[tuple[Appends | None, Tried]]:
        yield from begin()
        locked = yield Statement(LOCK_FREE, (name,))
        if not locked:
            return None, Tried(after, False)
        rows = [Row(*row) for row in (yield Statement(FIRST, (name, after)))]
        if not rows:
            yield Statement(GO_ON, (name,))
            return None, Tried(after, False)
        appends = yield from append_all({name: rows}, topics, now, waits=False)
        refused = appends.refused.get(name)
        done = len(rows) - (len(refused.rows) if refused else 0)
        place = rows[done - 1].place if done else after
        if done:
            yield Statement(DONE, (name, place))
        if refused:
            rest = min(max(now - locked[0][0], LEAST_MS), MOST_MS)
            yield Statement(STAY, (refused.error.code, refused.error.message, now + rest, name))
        return appends, Tried(place, not refused)

    appends, tried = yield from atomically(move())
    if appends is not None:
        appends.committed(started)
    return tried


def stay(name: str, error: TopicsError, now: int) -> Script[None]:
    """Notes that a topic is still stopped, by an error that undid the whole try."""
    yield Statement(STAY, (error.code, error.message, now + MOST_MS, name))


def waiting() -> Script[list[WaitingTopic]]:
    """Returns the topics with records that have not arrived."""
    why = yield from pause()
    found = [WaitingTopic(*row) for row in (yield Statement(LIST))]
    if why is None:
        return found
    return [each if each.code else each._replace(code=why.code, reason=why.message) for each in found]


def pause() -> Script[TopicsError | None]:
    """Returns why the relay moves no records of any topic: a full disk, or the cap on all bytes. Otherwise None."""
    if disk.full():
        return StorageFull(disk.FULL)
    if limits.MOST_TOTAL_BYTES:
        ((held,),) = yield Statement(BYTES)
        ((more,),) = yield Statement(NEXT_BYTES)
        if more and held + more > limits.MOST_TOTAL_BYTES:
            return limits.too_many_bytes(held)
    return None


def stopped(prefixes: Sequence[str], most: int, now: int) -> Script[list[Stopped]]:
    """Returns the topics that cannot take their next record, those that stopped first. `prefixes`: of their names. Empty: all."""
    wanted = {"prefixes": list(prefixes) or None, "most": most, "now": now}
    return [Stopped(*row) for row in (yield Statement(ONES_THAT_STOPPED, wanted))]


def oldest_ms(now: int) -> Script[int]:
    """Returns the age of the oldest record that no relay has moved yet, or 0 if no record waits for the relay.

    A relay that stops is noticed after 10 s.
    """
    rows = (yield Statement(RELAY)) or (yield Statement(OLDEST))
    return max(now - rows[0][0], 0) if rows and rows[0][0] else 0


def skip(name: str) -> Script[tuple[str, str | None, str | None]]:
    """Deletes the first record that waits for a topic. Returns its data, tag and key. Raises NotFound.

    The audit log keeps the record.
    """

    def delete() -> Script[tuple[str, str | None, str | None]]:
        locked = yield Statement(LOCK, (name,))
        rows = (yield Statement(SKIP, {"topic": name})) if locked else []
        if not rows:
            raise NotFound(f"no record waits for topic {name!r}")
        data, tag, key = rows[0]
        yield from audit.note("skip", "outbox", name, {"data": data, "tag": tag, "key": key})
        yield Statement(RETRY, {"topic": name})
        return data, tag, key

    skipped = yield from atomically(delete())
    yield Statement(WAKE)
    return skipped


def retry(name: str | None) -> Script[list[str]]:
    """Lets the relay try a topic at once, or all topics. Returns their names. Raises NotFound if records wait for none."""
    names = [topic for (topic,) in (yield Statement(RETRY, {"topic": name}))]
    if name is not None and not names:
        raise NotFound(f"no record waits for topic {name!r}")
    yield Statement(WAKE)
    return names

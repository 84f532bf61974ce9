"""Samples of every topic, router and webhook, and of the whole instance, a minute apart. They are thinned with age, and their
number is bounded.

A task writes samples each minute, and first inserts the whole instance's row. If two samplers run at once, the second finds
the row, and writes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from django.conf import settings
from django.db import transaction

from push.webhooks.webhooks import FEW_WAITING
from routers.lag import RouterLag, lags_of_all
from store.database import prepared
from store.script import run
from topics.upkeep import totals
from topics.upkeep.unsettled import BY_INDEX

MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000
STEP = 50_000  # rows deleted in one statement
THINNED = "thinned"  # the Count with the time until which samples are an hour apart

COLUMNS = "kind, object_id, ts, head_seq, reads, forwarded, count, bytes, lag, oldest_ms, errors"
# The web processes count appended and read records (health/heartbeat.py). The sums of the routers come with the statement.
ALL = f"""
INSERT INTO console_sample ({COLUMNS})
SELECT 'all', 0, %(minute)s, counted.appended, counted.read, %(forwarded)s::bigint, held.count, held.bytes,
       %(lag)s::bigint, %(oldest_ms)s::bigint, counted.errors
  FROM (SELECT records AS count, bytes FROM topic_totals()) held,
       (SELECT coalesce(sum(value) FILTER (WHERE name = 'appended'), 0) AS appended,
               coalesce(sum(value) FILTER (WHERE name = 'read'), 0) AS read,
               coalesce(sum(value) FILTER (WHERE name = 'errors'), 0) AS errors FROM console_count) counted
    ON CONFLICT DO NOTHING
RETURNING ts
"""
# Each second run of the task finds the row of its minute, and need not read the lags of all routers.
LATEST = "SELECT max(ts) FROM console_sample WHERE kind = 'all' AND object_id = 0 AND ts <= %(minute)s"
# Inserts only changes since the last row, so a topic without appends takes no space. The last row is found by an index probe.
LAST = """
  LEFT JOIN LATERAL (
      SELECT head_seq, count, bytes, lag, oldest_ms, errors FROM console_sample
       WHERE kind = {kind} AND object_id = now.id ORDER BY ts DESC LIMIT 1) last ON true
 WHERE (last.head_seq, last.count, last.bytes, last.lag, last.oldest_ms, last.errors)
       IS DISTINCT FROM (now.head_seq, now.count, now.bytes, now.lag, now.oldest_ms, now.errors)
    ON CONFLICT DO NOTHING
"""
TOPICS = f"""
INSERT INTO console_sample ({COLUMNS})
SELECT 'topic', now.id, %(minute)s, now.head_seq, 0, 0, now.count, now.bytes, now.lag, 0, 0
  FROM (SELECT h.id, h.head_seq, h.count, h.bytes, coalesce(h.head_seq - slowest.seq, 0) AS lag,
               0::bigint AS oldest_ms, 0::bigint AS errors
          FROM unnest(%(ids)s::bigint[], %(heads)s::bigint[], %(counts)s::bigint[], %(bytes)s::bigint[])
               AS h (id, head_seq, count, bytes)
         CROSS JOIN LATERAL (SELECT min(seq) AS seq FROM topic_cursors WHERE topic_id = h.id AND kind <> 'router') slowest) now
{LAST.format(kind="'topic'")}
"""
# Topics with a reader that moved since the last samples, or (hour) all topics: a deleted reader moves no longer.
READ = """
SELECT topic_id FROM topic_cursors WHERE kind <> 'router' AND updated_ts >= %(since)s GROUP BY topic_id
"""
OF_ALL_TOPICS = "SELECT id FROM topics_topic"
HEADS = """
SELECT head.topic_id, head.head_seq, head.count, head.bytes
  FROM unnest(%s::bigint[]) AS wanted (id)
 CROSS JOIN LATERAL (SELECT topic_id, head_seq, count, bytes FROM topic_heads WHERE topic_id = wanted.id LIMIT 1) head
"""
ROUTERS = f"""
INSERT INTO console_sample ({COLUMNS})
SELECT 'router', now.id, %(minute)s, now.head_seq, 0, 0, 0, 0, now.lag, now.oldest_ms, now.errors
  FROM (SELECT *, 0::bigint AS count, 0::bigint AS bytes
          FROM unnest(%(ids)s::bigint[], %(forwarded)s::bigint[], %(lags)s::bigint[], %(oldest)s::bigint[], %(errors)s::bigint[])
               AS r (id, head_seq, lag, oldest_ms, errors)) now
{LAST.format(kind="'router'")}
"""
# A webhook without calls has the values of its last row.
WEBHOOKS = f"""
INSERT INTO console_sample ({COLUMNS})
SELECT 'hook', now.id, %(minute)s, now.head_seq, 0, 0, now.count, now.bytes, now.lag, 0, now.errors
  FROM (SELECT w.id, delivered_total AS head_seq, calls_total AS count, ms_total AS bytes, {FEW_WAITING} AS lag,
               0::bigint AS oldest_ms, failed_total AS errors
          FROM push_webhook w
         WHERE failures > 0 OR last_success_ts >= %(since)s OR updated_ts >= %(since)s) now
{LAST.format(kind="'hook'")}
"""
# Keeps each object's last row of each hour that is over and old enough.
THIN = """
DELETE FROM console_sample thin
 WHERE ts >= %(since)s AND ts < %(until)s
   AND EXISTS (SELECT FROM console_sample later
                WHERE later.kind = thin.kind AND later.object_id = thin.object_id
                  AND later.ts > thin.ts AND later.ts < (thin.ts / %(hour)s + 1) * %(hour)s)
"""
OLDEST = "SELECT min(ts) FROM console_sample"
SINCE = "SELECT value FROM console_count WHERE name = %(name)s"
NOTE = """
INSERT INTO console_count (name, value) VALUES (%(name)s, %(value)s)
    ON CONFLICT (name) DO UPDATE SET value = greatest(console_count.value, excluded.value)
"""
COUNT = "SELECT count(*) FROM console_sample"
SIZE = "SELECT pg_relation_size('console_sample')"
LEAST_BYTES = 112  # of a row in the table, with its header
DROP = """
WITH oldest AS (SELECT kind, object_id, ts FROM console_sample WHERE ts < %(before)s ORDER BY ts LIMIT %(step)s),
dropped AS (
    DELETE FROM console_sample USING oldest
     WHERE (console_sample.kind, console_sample.object_id, console_sample.ts) = (oldest.kind, oldest.object_id, oldest.ts)
    RETURNING 1)
SELECT count(*) FROM dropped
"""


def sample(now: int) -> bool:
    """Writes the samples of this minute. Returns False if another sampler has written them.

    A topic has a new sample after it changed, and the sampler counts it in the same transaction (topics/upkeep/totals.py). So a
    sampler reads the topics that changed, and a sampler that was killed leaves the rest to the next minute.
    """
    minute = now // MINUTE_MS * MINUTE_MS
    ((latest,),) = prepared(LATEST, {"minute": minute})
    if latest == minute:
        return False
    # The latest samples can be older than a minute, because the workers were off. The first samples of an hour are of all.
    is_of_hour = latest is not None and latest // HOUR_MS == minute // HOUR_MS
    since = latest - MINUTE_MS if is_of_hour else 0
    routers = run(lags_of_all(now))
    if not prepared(ALL, {"minute": minute, **sums_of(routers)}):
        return False
    if not since:
        totals.correct()
    wanted = set(totals.changed_topics())
    sampled: set[int] = set()
    for counted in totals.count(sorted(wanted)):
        sample_topics(minute, counted)
        sampled.update(head.topic_id for head in counted)
    totals.merge()
    wanted.update(id for (id,) in (prepared(READ, {"since": since}) if since else prepared(OF_ALL_TOPICS, ())))
    rest = sorted(wanted - sampled)  # also topics whose head an append held while the others were counted
    for first in range(0, len(rest), totals.STEP):
        with transaction.atomic():
            prepared(BY_INDEX, ())
            sample_topics(minute, prepared(HEADS, (rest[first : first + totals.STEP],)))
    sample_routers(minute, [each for each in routers if is_changed(each, since)])
    prepared(WEBHOOKS, {"minute": minute, "since": since})
    return True


def sums_of(routers: Sequence[RouterLag]) -> dict[str, int]:
    return {
        "forwarded": sum(each.forwarded_total for each in routers),
        "lag": sum(each.lag.lag for each in routers),
        "oldest_ms": max((each.lag.oldest_unread_ms or 0 for each in routers), default=0),
    }


def is_changed(router: RouterLag, since: int) -> bool:
    """Returns whether its values can differ from its last sample."""
    return router.lag.lag > 0 or router.state != "running" or router.updated_ts >= since


def sample_routers(minute: int, routers: Sequence[RouterLag]) -> None:
    columns = {
        "ids": [each.id for each in routers],
        "forwarded": [each.forwarded_total for each in routers],
        "lags": [each.lag.lag for each in routers],
        "oldest": [each.lag.oldest_unread_ms or 0 for each in routers],
        "errors": [each.errors_total for each in routers],
    }
    prepared(ROUTERS, {"minute": minute, **columns})


def sample_topics(minute: int, heads: Sequence[Sequence[int]]) -> None:
    """Writes the samples of these topics, each an id, head_seq, count and bytes."""
    if heads:
        ids, head_seqs, counts, sizes = (list(column) for column in zip(*heads, strict=True))
        prepared(TOPICS, {"minute": minute, "ids": ids, "heads": head_seqs, "counts": counts, "bytes": sizes})


def thin(now: int) -> None:
    """Keeps minutes for TOPICS_HISTORY_MINUTE_DAYS, hours for TOPICS_HISTORY_HOUR_DAYS, and no more than
    TOPICS_HISTORY_MAX_SAMPLES.

    If there are more samples than that, first everything older than a day is thinned. Then the oldest samples are deleted.
    """
    thin_before(now - settings.TOPICS_HISTORY_MINUTE_DAYS * DAY_MS)
    drop(now - settings.TOPICS_HISTORY_HOUR_DAYS * DAY_MS)
    if excess() > 0:
        thin_before(now - DAY_MS)
    while (more := excess()) > 0:
        drop(now, most=more)


def thin_before(before: int) -> None:
    """Thins a day at a time, to keep statements short. Two processes may do this at once, because both delete the same rows."""
    until = before // HOUR_MS * HOUR_MS
    ((oldest,),) = prepared(OLDEST, ())
    noted = prepared(SINCE, {"name": THINNED})
    since = max(noted[0][0] if noted else 0, (oldest or until) // HOUR_MS * HOUR_MS)
    while since < until:
        upto = min(since + DAY_MS, until)
        prepared(THIN, {"since": since, "until": upto, "hour": HOUR_MS})
        prepared(NOTE, {"name": THINNED, "value": upto})
        since = upto


def drop(before: int, most: int | None = None) -> None:
    """Deletes samples before a time, the oldest first: at most `most`, or all."""
    while most is None or most > 0:
        step = STEP if most is None else min(STEP, most)
        ((dropped,),) = prepared(DROP, {"before": before, "step": step})
        if dropped < step:
            return
        most = None if most is None else most - dropped


def excess() -> int:
    """Returns by how many samples there are too many, or a number below 1. Counts them only if the table has room for so many."""
    most = int(settings.TOPICS_HISTORY_MAX_SAMPLES)
    ((size,),) = prepared(SIZE, ())
    if size <= most * LEAST_BYTES:
        return 0
    ((count,),) = prepared(COUNT, ())
    return int(count) - most

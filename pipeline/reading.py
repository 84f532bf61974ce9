"""How far a job has read a topic into a target: a cursor among all others, and the step that is under way.

A step is planned in the database before anything of it is written elsewhere, and its end moves the cursor. So a job that is
killed at any moment does the same range again, over what it left, and none twice.
"""

from __future__ import annotations

import hashlib
from typing import Any, NamedTuple

from base.clock import now_ms
from base.errors import NotReady
from store.script import Script, Statement, atomically

# The topic's row is locked against a delete, since a cursor must not outlive it.
LOCK_TOPIC = "SELECT FROM topics_topic WHERE id = %s FOR KEY SHARE"
MAKE_CURSOR = """
INSERT INTO topics_cursor (topic_id, kind, name, seq, forwarded_total, updated_ts)
SELECT topic_id, 'pipeline', %s, recreated_seq, 0, %s FROM topics_topichead WHERE topic_id = %s
ON CONFLICT (topic_id, name, kind) DO NOTHING
"""
MAKE_READING = """
INSERT INTO pipeline_reading (topic_id, name, target) VALUES (%s, %s, %s) ON CONFLICT (topic_id, name) DO NOTHING
"""
# What readings leave behind whose topics are gone.
DROP_ORPHANS = "DELETE FROM pipeline_reading r WHERE NOT EXISTS (SELECT FROM topics_topic WHERE id = r.topic_id)"
FIND = """
SELECT r.id, r.topic_id, c.seq, r.upto_seq
  FROM pipeline_reading r JOIN topics_cursor c ON c.topic_id = r.topic_id AND c.name = r.name AND c.kind = 'pipeline'
 WHERE r.topic_id = %s AND r.name = %s
"""
PLAN = "UPDATE pipeline_reading SET upto_seq = %s WHERE id = %s AND upto_seq IS NULL RETURNING id"
END = "UPDATE pipeline_reading SET upto_seq = NULL WHERE id = %s AND upto_seq = %s RETURNING name"
# The run that has the turn (pipeline/turns.py) is alone here; the seq is compared all the same.
MOVE = """
UPDATE topics_cursor SET seq = %(upto)s, updated_ts = %(now)s
 WHERE topic_id = %(topic_id)s AND name = %(name)s AND kind = 'pipeline' AND seq = %(seq)s
RETURNING id
"""


class Place(NamedTuple):
    """A reading: everything up to `seq` is done; up to `upto`, where there is one, a step has begun."""

    id: int
    topic_id: int
    seq: int
    upto: int | None


def reading_name(job: str, target: str) -> str:
    """What the cursor of a job with this target is called: a name that a cursor may have, whatever the target is."""
    return f"{job}.{hashlib.sha256(target.encode()).hexdigest()[:12]}"


def find(topic_id: int, name: str, target: str) -> Script[Place]:
    """The reading of that name, made where there is none. Raises NotReady when the topic is gone."""
    return atomically(find_once(topic_id, name, target))


def find_once(topic_id: int, name: str, target: str) -> Script[Place]:
    yield Statement(DROP_ORPHANS)
    rows = yield Statement(FIND, (topic_id, name))
    if not rows:
        if not (yield Statement(LOCK_TOPIC, (topic_id,))):
            raise NotReady("the topic was deleted meanwhile")
        yield Statement(MAKE_CURSOR, (name, now_ms(), topic_id))
        yield Statement(MAKE_READING, (topic_id, name, target))
        rows = yield Statement(FIND, (topic_id, name))
    return Place(*rows[0])


def plan(place: Place, upto: int) -> Script[Place]:
    """Begin a step: from now on it ends there, whoever does it. Raises NotReady when another one has begun."""
    if not (yield Statement(PLAN, (upto, place.id))):
        raise NotReady("another run of this job is at work")
    return place._replace(upto=upto)


def end(place: Place, also: Script[Any] | None = None) -> Script[Place]:
    """End the step, together with what `also` writes. Raises NotReady when the topic was deleted, or the step is not ours."""
    return atomically(end_once(place, also))


def end_once(place: Place, also: Script[Any] | None) -> Script[Place]:
    assert place.upto is not None
    ended = yield Statement(END, (place.id, place.upto))
    moved = ended and (
        yield Statement(
            MOVE,
            {
                "upto": place.upto,
                "now": now_ms(),
                "topic_id": place.topic_id,
                "name": ended[0][0],
                "seq": place.seq,
            },
        )
    )
    if not moved:
        raise NotReady("the topic was deleted while it was read, or another run of this job did this step")
    if also is not None:
        yield from also
    return place._replace(seq=place.upto, upto=None)

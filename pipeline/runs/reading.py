"""The position of a job that reads a topic into a target: a cursor of the topic, and the current step.

The plan of a step is stored before the step writes output. The end of the step advances the cursor. So a job that is killed
repeats the same range, overwrites the leftovers, and never writes a range twice.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, NamedTuple

from base.clock import now_ms
from base.errors import NotReady
from pipeline.read.extent import Extent
from store.script import Script, Statement, atomically
from topics.cursors import owned as owned_cursors
from topics.heads import KEEP_TOPIC

MAKE_READING = """
INSERT INTO pipeline_reading (topic_id, name, target) VALUES (%s, %s, %s) ON CONFLICT (topic_id, name) DO NOTHING
"""
# Deletes the readings of deleted topics.
DROP_ORPHANS = "DELETE FROM pipeline_reading r WHERE NOT EXISTS (SELECT FROM topics_topic WHERE id = r.topic_id)"
FIND = """
SELECT r.id, r.topic_id, c.seq, r.upto_seq
  FROM pipeline_reading r JOIN topic_cursors c ON c.topic_id = r.topic_id AND c.name = r.name AND c.kind = 'pipeline'
 WHERE r.topic_id = %s AND r.name = %s
"""
# For all topics of a run. A row for each topic, in their order: the cursor, by its unique index.
POSITIONS = """
SELECT (SELECT seq FROM topic_cursors WHERE topic_id = wanted.id AND name = %s AND kind = 'pipeline')
  FROM unnest(%s::bigint[]) WITH ORDINALITY wanted (id, n) ORDER BY n
"""
PLAN = "UPDATE pipeline_reading SET upto_seq = %s WHERE id = %s AND upto_seq IS NULL RETURNING id"
END = "UPDATE pipeline_reading SET upto_seq = NULL WHERE id = %s AND upto_seq = %s RETURNING name"


class Place(NamedTuple):
    """The position of a reading. Everything up to `seq` is done. A step up to `upto` has begun, unless `upto` is None."""

    id: int
    topic_id: int
    seq: int
    upto: int | None


def reading_name(job: str, target: str) -> str:
    """Returns the cursor's name for a job and a target. The target is hashed, so the name is always valid."""
    return f"{job}.{hashlib.sha256(target.encode()).hexdigest()[:12]}"


def positions(topics: Sequence[Extent], name: str) -> Script[list[int]]:
    """Returns the last seq that the job has read in each of the topics. Also deletes the readings of deleted topics.

    A topic without a reading has a position before its first record. `find` creates the reading when there is something to read.
    """
    yield Statement(DROP_ORPHANS)
    rows = yield Statement(POSITIONS, (name, [topic.id for topic in topics]))
    return [topic.recreated if seq is None else seq for topic, (seq,) in zip(topics, rows, strict=True)]


def find(topic_id: int, name: str, target: str) -> Script[Place]:
    """Returns the reading with that name, and creates a missing reading. Raises NotReady if the topic was deleted."""
    return atomically(find_once(topic_id, name, target))


def find_once(topic_id: int, name: str, target: str) -> Script[Place]:
    rows = yield Statement(FIND, (topic_id, name))
    if not rows:
        if not (yield Statement(KEEP_TOPIC, (topic_id,))):  # a cursor must not outlive its topic
            raise NotReady("the topic was deleted meanwhile")
        cursor = {"topic_ids": [topic_id], "kind": "pipeline", "name": name, "now": now_ms()}
        yield Statement(owned_cursors.INSERT_AT_BEGIN, cursor)
        yield Statement(MAKE_READING, (topic_id, name, target))
        rows = yield Statement(FIND, (topic_id, name))
    return Place(*rows[0])


def plan(place: Place, upto: int) -> Script[Place]:
    """Stores the plan of a step up to `upto`.

    Every later run ends the step there. Raises NotReady if another step has begun.
    """
    if not (yield Statement(PLAN, (upto, place.id))):
        raise NotReady("another run of this job is at work")
    return place._replace(upto=upto)


def end(place: Place, also: Script[Any] | None = None) -> Script[Place]:
    """Ends the step in one transaction with the writes of `also`.

    Raises NotReady if the topic was deleted, or another run ended the step.
    """
    return atomically(end_once(place, also))


def end_once(place: Place, also: Script[Any] | None) -> Script[Place]:
    assert place.upto is not None
    ended = yield Statement(END, (place.id, place.upto))
    moved = ended and (
        # The turn (pipeline/runs/turns.py) already excludes other runs. The comparison of the seq is a second check.
        yield Statement(
            owned_cursors.COMMIT,
            {
                "upto": place.upto,
                "now": now_ms(),
                "topic_id": place.topic_id,
                "kind": "pipeline",
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

"""The consumer groups of a topic, as state that a move takes to another server (topics/state.py).

Members do not move, and join again. A moved share has no owner and another generation, so a late commit of a former owner finds
no row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec
from django.conf import settings
from msgspec import Meta

from base.errors import InvalidRequest
from groups.joining import COUNT, MOST_PARTITIONS
from groups.partition import partition_of
from store.script import Script, Statement
from topics.audit import as_json
from topics.cache import CachedTopic
from topics.state import Number, StateKind, check_distinct, check_seqs
from wire.limits import LATER
from wire.limits import check as check_cap


class Share(msgspec.Struct, forbid_unknown_fields=True):
    """A share, with its cursor."""

    share: Annotated[int, Meta(ge=0, le=MOST_PARTITIONS - 1)]
    seq: Number
    generation: Annotated[int, Meta(ge=0, le=2**62)]
    updated_ts: Number


class Group(msgspec.Struct, forbid_unknown_fields=True):
    """A group, with all its shares."""

    name: Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,254}\Z")]
    partition_by: str
    partitions: Annotated[int, Meta(ge=1, le=MOST_PARTITIONS)]
    start: Annotated[str, Meta(pattern=r"^(tail|from_(seq|ts)=\d{1,19})\Z")]
    created_ts: Number
    shares: list[Share]


PAGE = """
SELECT name, json_build_object(
           'name', name, 'partition_by', partition_by, 'partitions', partitions, 'start', start, 'created_ts', created_ts,
           'shares', (SELECT json_agg(json_build_object('share', share, 'seq', seq, 'generation', generation,
                                                        'updated_ts', updated_ts) ORDER BY share)
                        FROM groups_share WHERE group_id = id))::text
  FROM groups_group
 WHERE topic_id = %(topic_id)s AND name > %(after)s
 ORDER BY name LIMIT %(limit)s
"""
SAVE_GROUP = """
INSERT INTO groups_group (topic_id, name, partition_by, partitions, start, created_ts)
VALUES (%(topic_id)s, %(name)s, %(partition_by)s, %(partitions)s, %(start)s, %(created_ts)s)
ON CONFLICT (topic_id, name) DO UPDATE
   SET partition_by = excluded.partition_by, partitions = excluded.partitions, start = excluded.start,
       created_ts = excluded.created_ts
RETURNING id, xmax = 0
"""
SAVE_SHARES = """
INSERT INTO groups_share AS kept (group_id, share, seq, generation, updated_ts)
SELECT %s, share, seq, generation + 1, updated_ts
  FROM json_to_recordset(%s::json) AS new (share integer, seq bigint, generation bigint, updated_ts bigint)
ON CONFLICT (group_id, share) DO UPDATE
   SET seq = excluded.seq, generation = greatest(kept.generation + 1, excluded.generation), updated_ts = excluded.updated_ts
"""


def check(row: Group, head_seq: int) -> None:
    """Raises InvalidRequest for an unknown `partition_by`, and unless each share is given once."""
    partition_of(row.partition_by, 1)
    check_distinct(row.shares, ("share",))
    if sorted(each.share for each in row.shares) != list(range(row.partitions)):
        raise InvalidRequest(
            f"rows: a group of {row.partitions} partitions has the shares 0 to {row.partitions - 1}", field="rows"
        )
    for share in row.shares:
        check_seqs(head_seq, seq=share.seq)


def save(topic: CachedTopic, rows: Sequence[Group]) -> Script[None]:
    for row in rows:
        group = {name: getattr(row, name) for name in ("name", "partition_by", "partitions", "start", "created_ts")}
        ((id, is_new),) = yield Statement(SAVE_GROUP, {"topic_id": topic.id, **group})
        if is_new:
            ((groups, _),) = yield Statement(COUNT, (None,))
            check_cap("groups", settings.TOPICS_MAX_GROUPS, groups - 1, LATER)  # a refusal rolls the call back
        yield Statement(SAVE_SHARES, (id, as_json(row.shares)))


KIND = StateKind(Group, PAGE, check, save, most=10)

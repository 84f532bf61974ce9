"""The state of groups, and their deletion."""

from __future__ import annotations

from typing import Any, NamedTuple

from base.errors import NotFound
from base.names import check_topic_name
from store.script import Script, Statement, atomically
from topics import audit
from topics.cache import absent
from topics.heads import ENDS
from topics.sealed import marked

FIND = """
SELECT t.id, t.sealed, g.id, g.name, g.partition_by, g.partitions, g.start, g.created_ts
  FROM topics_topic t LEFT JOIN groups_group g ON g.topic_id = t.id AND g.name = %(group)s
 WHERE t.name = %(topic)s
"""
# A topic without groups has one row, with nulls.
PAGE = """
SELECT t.id, t.sealed, g.id, g.name, g.partition_by, g.partitions, g.start, g.created_ts
  FROM topics_topic t LEFT JOIN LATERAL (
       SELECT * FROM groups_group g WHERE g.topic_id = t.id AND g.name > %(after)s ORDER BY name LIMIT %(limit)s) g ON true
 WHERE t.name = %(topic)s
 ORDER BY g.name
"""
MEMBERS = """
SELECT group_id, id, name, session_ms, joined_ts, seen_ts FROM groups_alive WHERE group_id = ANY (%s) ORDER BY group_id, name
"""
# Shares are often at the same seq, and the search for the first record above it is done once for each seq.
SHARES = """
WITH shares AS MATERIALIZED (SELECT * FROM groups_share WHERE group_id = ANY (%(ids)s)),
     ages AS MATERIALIZED (
    SELECT after.seq, coalesce(greatest(%(head_seq)s - next.seq + 1, 0), 0) AS lag, greatest(%(now)s, next.ts) - next.ts AS age
      FROM (SELECT DISTINCT seq FROM shares) after
     CROSS JOIN LATERAL topic_next_unread(%(topic_id)s, greatest(after.seq, %(floor)s)) next)
SELECT s.group_id, s.share, seq, lag, age, s.generation, owner.name, heir.name, s.updated_ts
  FROM shares s JOIN ages USING (seq)
  LEFT JOIN groups_alive owner ON owner.id = s.member_id LEFT JOIN groups_alive heir ON heir.id = s.next_id
 ORDER BY s.group_id, s.share
"""
AUDITED = "t.name, g.name, g.partition_by, g.partitions, g.start"
LOCK = "SELECT groups_lock(ARRAY[%s]::bigint[])"
LOCK_OF_TOPIC = "SELECT groups_lock(ARRAY(SELECT id FROM groups_group WHERE topic_id = %s))"
DELETE = "DELETE FROM groups_group WHERE id = %s RETURNING id"


class Group(NamedTuple):
    """A group. `start`: the start that its first member asked for."""

    topic_id: int
    is_sealed: bool
    id: int
    name: str
    partition_by: str
    partitions: int
    start: str
    created_ts: int


class Member(NamedTuple):
    group_id: int
    session: int
    name: str
    session_ms: int
    joined_ts: int
    seen_ts: int


class Share(NamedTuple):
    """A share. `lag`: the seqs of the topic from the first record above the share's cursor, also those of other shares.
    `oldest_unread_ms`: the age of this record in ms, or None without such a record. `next_member`: where the share is to move."""

    group_id: int
    share: int
    seq: int
    lag: int
    oldest_unread_ms: int | None
    generation: int
    member: str | None
    next_member: str | None
    updated_ts: int


class GroupState(NamedTuple):
    """A group with its members and shares."""

    group: Group
    members: list[Member]
    shares: list[Share]

    @property
    def lag(self) -> int:
        return max(share.lag for share in self.shares)

    @property
    def oldest_unread_ms(self) -> int | None:
        return max(
            (share.oldest_unread_ms for share in self.shares if share.oldest_unread_ms is not None), default=None
        )


def find(topic: str, group: str) -> Script[Group]:
    """Returns a group. Raises TopicNotFound or NotFound."""
    check_topic_name(group, "group")
    rows = yield Statement(FIND, {"topic": topic, "group": group}, quick=True)
    if not rows:
        raise absent(topic)
    if rows[0][2] is None:
        raise marked(NotFound(f"topic {topic!r} has no group {group!r}", topic=topic, group=group), rows[0][1])
    return Group(*rows[0])


def page_of_groups(topic: str, after: str, limit: int, now: int) -> Script[tuple[list[GroupState], bool]]:
    """Returns the next groups of a topic by name, and whether the topic is sealed. Raises TopicNotFound."""
    rows = yield Statement(PAGE, {"topic": topic, "after": after, "limit": limit}, quick=True)
    if not rows:
        raise absent(topic)
    groups = [Group(*row) for row in rows if row[2] is not None]
    return (yield from states(rows[0][0], groups, now)), rows[0][1]


def state(topic: str, group: str, now: int) -> Script[GroupState]:
    """Returns the state of a group. Raises TopicNotFound or NotFound."""
    found = yield from find(topic, group)
    return (yield from states(found.topic_id, [found], now))[0]


def states(topic_id: int, groups: list[Group], now: int) -> Script[list[GroupState]]:
    """Returns the states of these groups of a topic."""
    ids = [group.id for group in groups]
    ends = yield Statement(ENDS, {"topic_id": topic_id, "now": now, "from_ts": now}, quick=True)
    floor, head_seq = ends[0][:2] if ends else (0, 0)  # the topic was deleted since we looked
    wanted = {"ids": ids, "now": now, "topic_id": topic_id, "floor": floor, "head_seq": head_seq}
    members = [Member(*row) for row in (yield Statement(MEMBERS, (ids,), quick=True))]
    shares = [Share(*row) for row in (yield Statement(SHARES, wanted, quick=True))]
    return [
        GroupState(
            group,
            [each for each in members if each.group_id == group.id],
            [each for each in shares if each.group_id == group.id],
        )
        for group in groups
    ]


def delete(topic: str, group: str) -> Script[tuple[bool, bool]]:
    """Deletes a group with its cursors. Returns whether the group existed, and whether the topic is sealed. The streams of its
    members end. Raises TopicNotFound."""
    try:
        found = yield from find(topic, group)
    except NotFound as error:
        return False, bool(error.headers)
    return (yield from atomically(delete_locked(topic, found), (topic, group))), found.is_sealed


def before_drop(topic_id: int) -> Script[None]:
    """Locks the groups of a topic, which PostgreSQL deletes with the topic in this transaction."""
    yield Statement(LOCK_OF_TOPIC, (topic_id,))


def delete_locked(topic: str, group: Group) -> Script[bool]:
    yield Statement(LOCK, (group.id,))
    deleted = yield Statement(DELETE, (group.id,))
    if deleted:
        noted = audited(topic, group.name, group.partition_by, group.partitions, group.start)
        yield from audit.note("delete", "group", **noted)
    return bool(deleted)


def audited(topic: str, name: str, partition_by: str, partitions: int, start: str) -> dict[str, Any]:
    """Returns the fields of an audit entry about the delete of a group, from the columns AUDITED."""
    before = {"partition_by": partition_by, "partitions": partitions, "start": start}
    return {"name": f"{topic}/{name}", "before": before}

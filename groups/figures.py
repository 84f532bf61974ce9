"""The figures of many groups at once: those that no member reads, and a page of all groups by topic and name (docs/groups.md).

The statements read the rows of groups, members and shares, and of no topic without a group.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import NamedTuple

from store.script import Script, Statement
from topics.read.unread import first_unread, heads_of, names_of

# `groups` is read first. Each group costs a look-up by the primary keys of topics and heads, and its rows of members and shares.
FIGURES = """
WITH groups AS MATERIALIZED ({groups})
SELECT t.name, g.name, (SELECT count(*) FROM groups_alive m WHERE m.group_id = g.id), g.partitions,
       greatest(h.head_seq - greatest(s.seq, h.floor_seq), 0), s.updated_ts, t.id, greatest(s.seq, h.floor_seq), h.head_seq
  FROM groups g CROSS JOIN LATERAL (SELECT id, name FROM topics_topic WHERE id = g.topic_id LIMIT 1) t
 CROSS JOIN LATERAL (SELECT head_seq, floor_seq FROM topic_heads WHERE topic_id = g.topic_id LIMIT 1) h
 CROSS JOIN LATERAL (SELECT min(seq) AS seq, max(updated_ts) AS updated_ts FROM groups_share WHERE group_id = g.id) s
"""
# Only these groups are asked for the first record that is unread: records below it can be deleted or expired.
UNREAD = """
SELECT found.topic, found.name, found.members, found.partitions, coalesce(greatest(found.head_seq - next.seq + 1, 0), 0),
       greatest(%(now)s::bigint - next.ts, 0), found.updated_ts
  FROM ({found}) found (topic, name, members, partitions, lag, updated_ts, topic_id, seq, head_seq)
  LEFT JOIN LATERAL topic_next_unread(found.topic_id, found.seq) next ON found.lag > 0
"""
# At most TOPICS_MAX_GROUPS groups exist, so this reads all, and their topics in the order of the index. No index has all columns
# of `groups`. Otherwise PostgreSQL could read the index alone, and then look up each group that upkeep.py has counted since the
# last vacuum.
FOLLOWING = """
WITH groups AS MATERIALIZED (SELECT id, topic_id, name FROM groups_group),
topics AS MATERIALIZED (SELECT id, name FROM topics_topic WHERE id = ANY (ARRAY(SELECT DISTINCT topic_id FROM groups)))
SELECT g.name, t.name FROM groups g JOIN topics t ON t.id = g.topic_id
 WHERE (t.name, g.name) > (%(topic)s COLLATE "C", %(group)s COLLATE "C") AND t.name < %(upto)s
 ORDER BY t.name, g.name LIMIT %(most)s
"""
NAMED = """
SELECT g.* FROM unnest(%(names)s::text[], %(topics)s::text[]) wanted (name, topic)
 CROSS JOIN LATERAL (SELECT id FROM topics_topic WHERE name = wanted.topic LIMIT 1) t
 CROSS JOIN LATERAL (SELECT * FROM groups_group WHERE topic_id = t.id AND name = wanted.name LIMIT 1) g
"""
# At most TOPICS_MAX_GROUPS groups exist, so this reads every group. NOT IN reads the members once. For NOT EXISTS, a planner that
# believes in few members reads all of them for each group.
ALONE = "SELECT id, topic_id, name, partitions FROM groups_group WHERE id NOT IN (SELECT group_id FROM groups_alive)"
SHARES = """
SELECT group_id, min(seq), max(updated_ts) FROM groups_share WHERE group_id = ANY (%s) GROUP BY group_id
"""
OF_NAMED = UNREAD.format(found=FIGURES.format(groups=NAMED))
OF_TOPICS = (
    UNREAD.format(found=FIGURES.format(groups="SELECT * FROM groups_group WHERE topic_id = ANY (%(ids)s::bigint[])"))
    + " ORDER BY 1, 2"
)


class GroupFigures(NamedTuple):
    """The figures of a group: its living members, its shares, and the lag and age in ms of its first unread record.
    `updated_ts`: of the last commit of a share."""

    topic: str
    name: str
    members: int
    partitions: int
    lag: int
    oldest_unread_ms: int | None
    updated_ts: int


def abandoned(most: int, now: int) -> Script[list[GroupFigures]]:
    """Returns the groups with unread records and without a living member, at most `most`: those with the largest lags."""
    alone = yield Statement(ALONE)
    shares = {id: share for id, *share in (yield Statement(SHARES, ([id for id, *_ in alone],)))}
    heads = yield from heads_of({topic_id for _, topic_id, *_ in alone})
    behind = []
    for id, topic_id, name, partitions in alone:
        if id in shares and topic_id in heads:  # otherwise it was deleted meanwhile
            (seq, updated_ts), head = shares[id], heads[topic_id]
            behind.append((head.head_seq - max(seq, head.floor_seq), -id, head, name, partitions, updated_ts))
    behind = [each for each in heapq.nlargest(most, behind) if each[0] > 0]
    names = yield from names_of({head.id for _, _, head, *_ in behind})
    unread = yield from first_unread([(head, head.head_seq - lag) for lag, _, head, *_ in behind])
    found = []
    for lag, _, head, name, partitions, updated_ts in behind:
        if (first := unread.get((head.id, head.head_seq - lag))) and head.id in names:
            left, age = max(head.head_seq - first.seq + 1, 0), max(now - first.ts, 0)
            found.append(GroupFigures(names[head.id], name, 0, partitions, left, age, updated_ts))
    return sorted(found, key=lambda each: (-each.lag, each.topic, each.name))


def of_topics(ids: Sequence[int], now: int) -> Script[list[GroupFigures]]:
    """Returns the groups of these topics, in order of topic and name."""
    return [GroupFigures(*row) for row in (yield Statement(OF_TOPICS, {"ids": list(ids), "now": now}))]


def following(topic: str, group: str, upto: str, most: int) -> Script[list[tuple[str, str]]]:
    """Returns the next groups, each a name and its topic, in order of topic and name. The topics are below `upto`."""
    return (yield Statement(FOLLOWING, {"topic": topic, "group": group, "upto": upto, "most": most}))


def named(wanted: Sequence[tuple[str, str]], now: int) -> Script[list[GroupFigures]]:
    """Returns those of these groups that exist. `wanted`: their names and topics."""
    names, topics = [name for name, _ in wanted], [topic for _, topic in wanted]
    rows = yield Statement(OF_NAMED, {"names": names, "topics": topics, "now": now})
    return [GroupFigures(*row) for row in rows]

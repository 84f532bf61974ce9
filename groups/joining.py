"""Joins a group. The first member creates the group, and decides how the group divides its topic and where it starts."""

from __future__ import annotations

import secrets
from typing import Annotated, Any, NamedTuple

from django.conf import settings
from msgspec import Meta

from base.errors import AboveHead, Incompatible, InvalidRequest
from base.names import check_topic_name
from contract.reading import Seq
from groups.partition import partition_of
from store.script import Script, Statement, atomically
from topics.cache import absent
from topics.heads import ENDS
from wire.access.keys import Key
from wire.limits import LATER, check
from wire.request.parse import Request

MOST_PARTITIONS = 1024
PARTITION_BY, PARTITIONS = "tag", 64

# Locks the topic against a delete, because the group must not outlive its topic.
TOPIC = """
SELECT t.id, t.type, h.head_seq, h.recreated_seq FROM topics_topic t JOIN topic_heads h ON h.topic_id = t.id
 WHERE t.name = %s FOR KEY SHARE OF t
"""
# Locks the group against a delete, because a session must not outlive its group.
GROUP = """
SELECT id, partition_by, partitions, start FROM groups_group WHERE topic_id = %s AND name = %s FOR NO KEY UPDATE
"""
COUNT = "SELECT count(*), count(*) FILTER (WHERE key_id = %s) FROM groups_group"
# If two members create the group at once, the second waits for the first, and finds its group, unless it was deleted since.
CREATE = """
INSERT INTO groups_group (topic_id, name, partition_by, partitions, start, created_ts, key_id)
VALUES (%(topic_id)s, %(name)s, %(partition_by)s, %(partitions)s, %(start)s, %(now)s, %(key_id)s)
ON CONFLICT (topic_id, name) DO NOTHING
RETURNING id
"""
CREATE_SHARES = """
INSERT INTO groups_share (group_id, share, seq, updated_ts)
SELECT %(group_id)s, share, %(seq)s, %(now)s FROM generate_series(0, %(partitions)s - 1) share
"""
JOIN = "SELECT groups_join(%s, %s, %s)"


class JoinOptions(Request):
    """The member, and the options of the group. The first member creates the group with these options. A later member can leave
    them out. Options that differ from the group's are refused with 409."""

    member: str = ""
    """The member's name, with the same characters as a topic's name. A second stream of the same name replaces the first.
    Empty: the server makes a name."""
    session_ms: Annotated[int, Meta(ge=1000, le=3_600_000)] = 10_000
    """The member's session ends after so many milliseconds without a commit, if records wait for a commit or the stream is
    closed. Its shares then go to other members."""
    max_in_flight: Annotated[int, Meta(ge=1, le=100_000)] = 1000
    """The stream pauses while so many records wait for a commit. One read can exceed the number. A read has up to `max_in_flight`
    records, but at least 256 and at most 1000."""
    partitions: Annotated[int, Meta(ge=1, le=MOST_PARTITIONS)] | None = None
    """Number of shares of the group. `64` for a new group."""
    partition_by: str | None = None
    """The key that decides a record's share. `tag` for a new group. `tag_prefix:` and a separator: the tag up to the separator.
    `node`. A path in `data`, such as `$.user.id`."""
    from_seq: Seq | None = None
    """The group starts after this seq. `0` for a new group. Send at most one of `from_seq`, `from_ts` and `tail`."""
    from_ts: Seq | None = None
    """The group starts at the first record with `$ts` at or above this, in milliseconds since the epoch."""
    tail: bool = False
    """True: the group starts after the head."""

    @property
    def start(self) -> str:
        """Returns the start as the group's row stores it. Empty: the request does not name a start."""
        starts = (
            f"from_seq={self.from_seq}" if self.from_seq is not None else "",
            f"from_ts={self.from_ts}" if self.from_ts is not None else "",
            "tail" if self.tail else "",
        )
        if len(given := [start for start in starts if start]) > 1:
            raise InvalidRequest("from_seq, from_ts and tail exclude each other: send at most one")
        return given[0] if given else ""


class JoinQuery(JoinOptions):
    """The options as query parameters, and a parameter in place of a header, because an `EventSource` sends no headers."""

    token: str | None = None
    """The key's secret, in place of the header `Authorization`."""


class Joined(NamedTuple):
    """A session of a member."""

    session: int
    topic_id: int
    topic: str
    group_id: int
    group: str
    member: str
    session_ms: int
    max_in_flight: int
    partition_by: str
    partitions: int

    @property
    def shown(self) -> dict[str, Any]:
        """Returns the fields of the frame `joined`, without the topic."""
        names = ("group", "member", "session", "session_ms", "partitions", "partition_by")
        return {name: getattr(self, name) for name in names}


class StoredGroup(NamedTuple):
    id: int
    partition_by: str
    partitions: int
    start: str


def join(topic: str, group: str, wanted: JoinOptions, key: Key, now: int) -> Script[Joined]:
    """Starts a session of a member. Creates the group if there is none.

    Raises TopicNotFound, InvalidRequest, Forbidden, Throttled, or Incompatible (the topic is a queue, or the group has other
    options).
    """
    key.check("read")
    key.check("write")
    key.check_name(check_topic_name(topic))
    check_topic_name(group, "group")
    member = check_topic_name(wanted.member, "member") if wanted.member else f"member-{secrets.token_hex(6)}"
    if wanted.partition_by is not None:
        partition_of(wanted.partition_by, 1)
    return (yield from atomically(join_locked(topic, group, member, wanted, key.holder, now), (topic, group)))


def join_locked(topic: str, group: str, member: str, wanted: JoinOptions, holder: str, now: int) -> Script[Joined]:
    rows = yield Statement(TOPIC, (topic,))
    if not rows:
        raise absent(topic)
    topic_id, kind, head_seq, recreated_seq = rows[0]
    if kind != "log":
        raise Incompatible(f"topic {topic!r} is a {kind}: a group needs a log", topic=topic)
    while not (found := (yield Statement(GROUP, (topic_id, group)))):
        yield from create(topic_id, group, wanted, holder, head_seq, recreated_seq, now)
    stored = StoredGroup(*found[0])
    check_options(group, stored, wanted)
    ((session,),) = yield Statement(JOIN, (stored.id, member, wanted.session_ms))
    return Joined(
        session,
        topic_id,
        topic,
        stored.id,
        group,
        member,
        wanted.session_ms,
        wanted.max_in_flight,
        stored.partition_by,
        stored.partitions,
    )


def create(
    topic_id: int, group: str, wanted: JoinOptions, holder: str, head_seq: int, recreated_seq: int, now: int
) -> Script[None]:
    ((groups, of_holder),) = yield Statement(COUNT, (holder,))
    check("groups", settings.TOPICS_MAX_GROUPS, groups, LATER)
    check("groups_per_key", settings.TOPICS_MAX_GROUPS_PER_KEY, of_holder, LATER)
    seq = yield from start_seq(topic_id, wanted, head_seq, recreated_seq, now)
    made = {
        "topic_id": topic_id,
        "name": group,
        "partition_by": wanted.partition_by or PARTITION_BY,
        "partitions": wanted.partitions or PARTITIONS,
        "start": wanted.start or "from_seq=0",
        "seq": seq,
        "now": now,
        "key_id": holder,
    }
    rows = yield Statement(CREATE, made)
    if rows:
        yield Statement(CREATE_SHARES, {**made, "group_id": rows[0][0]})


def start_seq(topic_id: int, wanted: JoinOptions, head_seq: int, recreated_seq: int, now: int) -> Script[int]:
    """Returns the first cursor of a new group's shares. Raises AboveHead."""
    if wanted.tail:
        return head_seq
    if wanted.from_ts is not None:
        ends = yield Statement(ENDS, {"topic_id": topic_id, "now": now, "from_ts": wanted.from_ts})
        before_first, _, before = ends[0]
        return int(max(before_first, before))  # the group never had the expired records, and gets no tombstone for them
    if (seq := wanted.from_seq or 0) > head_seq:
        raise AboveHead.of(seq=seq, head_seq=head_seq)
    # A group belongs to the topic that exists now, and misses none of the records of earlier topics with its name.
    return max(seq, recreated_seq)


def check_options(group: str, stored: StoredGroup, wanted: JoinOptions) -> None:
    """Raises Incompatible if the request has an option that differs from the group's."""
    for option, has, asked in (
        ("partitions", stored.partitions, wanted.partitions),
        ("partition_by", stored.partition_by, wanted.partition_by),
        ("start", stored.start, wanted.start or None),
    ):
        if asked is not None and asked != has:
            raise Incompatible(
                f"group {group!r} has {option} {has!r}, not {asked!r}: leave the option out, or delete the group first",
                option=option,
            )

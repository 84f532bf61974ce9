"""The calls of consumer groups (docs/groups.md), and the schema of the stream (serve.py)."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta

from base.clock import now_ms
from base.errors import NotFound, SessionEnded, ShareMoved, TopicNotFound
from contract.operations import Operation
from contract.reading import Seq
from groups import groups, roster
from groups.commits import Commit, commit
from groups.sessions import leave
from store.script import Script
from topics.api.shapes import HeadSeq, TopicName
from topics.sealed import DESCRIBED, told
from wire.answer import Answer
from wire.endpoint import Call, Endpoint
from wire.paging import NextCursor, PageQuery
from wire.request.parse import Request
from wire.schema import Clamped, Performance

of_all = partial(Endpoint, errors=(TopicNotFound,), tells=DESCRIBED, tag="groups")
of_members = partial(Endpoint, scope="write", tag="groups", needs_body=True)
GroupName = Annotated[str, Meta(description="The group's name.")]
Lag = Annotated[
    int,
    Meta(description="The topic's head minus the cursor. This counts the seqs of all shares above the cursor."),
]
OldestUnread = Annotated[
    int | None,
    Meta(description="Age of the first record above the cursor, in milliseconds. null: there is no such record."),
]


class MemberShown(msgspec.Struct):
    """A member of a group."""

    member: str
    """The member's name."""
    session: int
    """The member's session. Another stream of the member has another session."""
    session_ms: int
    """Milliseconds without a commit after which the session ends, if records wait for a commit or the stream is closed."""
    joined_ts: int
    """Start of the session, in milliseconds since the epoch."""
    seen_ts: int
    """The last time at which the member was alive, in milliseconds since the epoch."""
    shares: list[int]
    """Numbers of the member's shares."""


class ShareShown(msgspec.Struct):
    """A share of a group."""

    share: int
    """The number of the share."""
    seq: int
    """The share's cursor: its records up to this seq are done."""
    lag: Lag
    oldest_unread_ms: OldestUnread
    generation: int
    """Number of changes of the share's owner."""
    member: str | None
    """Name of the owner. null: the group has no member."""
    next_member: str | None
    """Name of the next owner, if the share is to move. null: the share stays."""
    updated_ts: int
    """Time of the last change of the cursor, in milliseconds since the epoch."""


class ListedGroup(msgspec.Struct, kw_only=True):
    """A group in a list."""

    group: GroupName
    partition_by: str
    """The key that decides a record's share."""
    partitions: int
    """Number of shares."""
    start: str
    """The start that the first member asked for."""
    created_ts: int
    """Time of the first join, in milliseconds since the epoch."""
    member_count: int
    """Number of members."""
    lag: int
    """The largest lag of a share."""
    oldest_unread_ms: int | None
    """Age of the first record above the lowest cursor, in milliseconds. null: there is no such record."""


class GroupAnswer(ListedGroup, kw_only=True):
    topic: TopicName
    members: list[MemberShown]
    """The members, by name."""
    shares: list[ShareShown]
    """The shares, by number."""
    performance: Performance


class GroupsAnswer(msgspec.Struct, kw_only=True):
    topic: TopicName
    groups: list[ListedGroup]
    """The groups of this page, by name."""
    next_cursor: NextCursor = UNSET
    clamped: Clamped = UNSET
    performance: Performance


class DeleteGroupAnswer(msgspec.Struct, kw_only=True):
    topic: TopicName
    group: GroupName
    deleted: bool
    """False: the group did not exist."""
    performance: Performance


class CommitAnswer(msgspec.Struct, kw_only=True):
    topic: TopicName
    group: GroupName
    session: int
    """The session of the commit."""
    head_seq: HeadSeq
    performance: Performance


class Leave(Request):
    """The body of a leave."""

    session: Seq
    """The `session` from the event `joined`. 409 `session_ended` if it has ended."""


class LeaveAnswer(msgspec.Struct, kw_only=True):
    topic: TopicName
    group: GroupName
    member: str
    """Name of the member that left."""
    performance: Performance


@of_all(Operation.LIST_GROUPS, scope="read", query=PageQuery, answers={200: GroupsAnswer})
def list_groups(call: Call[None, PageQuery], topic: str) -> Script[Answer]:
    """List the consumer groups of a topic."""
    wanted = call.query
    (after,) = wanted.after()
    found, is_sealed = yield from groups.page_of_groups(topic, after, wanted.size + 1, now_ms())
    page, following = wanted.page(found, lambda each: (each.group.name,))
    return call.answer(
        GroupsAnswer(
            topic=topic,
            groups=[ListedGroup(**facts(each)) for each in page],
            next_cursor=following,
            clamped=wanted.clamped,
            performance=call.performance(),
        ),
        headers=told(is_sealed),
    )


@of_all(Operation.GET_GROUP, scope="read", answers={200: GroupAnswer})
def get(call: Call[None, None], topic: str, group: str) -> Script[Answer]:
    """Get a consumer group, its members and its shares."""
    found = yield from groups.state(topic, group, now_ms())
    owned: dict[str | None, list[int]] = {}
    for share in found.shares:
        owned.setdefault(share.member, []).append(share.share)
    members = [
        MemberShown(each.name, each.session, each.session_ms, each.joined_ts, each.seen_ts, owned.get(each.name, []))
        for each in found.members
    ]
    answer = GroupAnswer(
        **facts(found),
        topic=topic,
        members=members,
        shares=[ShareShown(*each[1:]) for each in found.shares],
        performance=call.performance(),
    )
    return call.answer(answer, headers=told(found.group.is_sealed))


def facts(state: groups.GroupState) -> dict[str, Any]:
    """Returns the fields of a ListedGroup."""
    group = state.group
    return {
        "group": group.name,
        "partition_by": group.partition_by,
        "partitions": group.partitions,
        "start": group.start,
        "created_ts": group.created_ts,
        "member_count": len(state.members),
        "lag": state.lag,
        "oldest_unread_ms": state.oldest_unread_ms,
    }


@of_all(Operation.DELETE_GROUP, scope="delete", answers={200: DeleteGroupAnswer}, names={"group": "no-longer-wanted"})
def delete(call: Call[None, None], topic: str, group: str) -> Script[Answer]:
    """Delete a consumer group and its cursors. The streams of its members end."""
    deleted, is_sealed = yield from groups.delete(topic, group)
    answer = DeleteGroupAnswer(topic=topic, group=group, deleted=deleted, performance=call.performance())
    return call.answer(answer, headers=told(is_sealed))


@of_members(
    Operation.COMMIT_GROUP,
    body=Commit,
    answers={200: CommitAnswer},
    errors=(TopicNotFound, NotFound, SessionEnded, ShareMoved),
    example={"session": 1, "shares": []},
)
def commit_group(call: Call[Commit, None], topic: str, group: str) -> Script[Answer]:
    """Commit the cursors of a member's shares, and tell that the member is alive."""
    call.key.check("read")
    done = yield from commit(topic, group, call.body)
    shares = [(each.share, each.generation, each.seq) for each in call.body.shares]
    roster.committed(call.body.session, shares)
    return call.answer(
        CommitAnswer(
            topic=topic, group=group, session=call.body.session, head_seq=done.head_seq, performance=call.performance()
        )
    )


@of_members(
    Operation.LEAVE_GROUP,
    body=Leave,
    answers={200: LeaveAnswer},
    errors=(TopicNotFound, NotFound, SessionEnded),
    example={"session": 1},
)
def leave_group(call: Call[Leave, None], topic: str, group: str) -> Script[Answer]:
    """Leave a group. The member's shares move at once, and its uncommitted records go to other members."""
    call.key.check("read")
    member = yield from leave(topic, group, call.body.session)
    return call.answer(LeaveAnswer(topic=topic, group=group, member=member, performance=call.performance()))


endpoints = (list_groups, get, delete, commit_group, leave_group)

"""Commits the cursors of a member's shares."""

from __future__ import annotations

from typing import Annotated, NamedTuple

from msgspec import Meta

from base.errors import AboveHead, InvalidRequest, SessionEnded, ShareMoved
from contract.reading import Seq
from groups.groups import find
from groups.joining import MOST_PARTITIONS
from store.script import Script, Statement
from wire.request.parse import Request

# One transaction. If it is sent twice, the second time finds the cursors where they are, or a share that has moved.
COMMIT = """
SELECT h.head_seq, done.is_alive, done.beyond_seq, done.stale
  FROM topics_topic t JOIN topic_heads h ON h.topic_id = t.id
  JOIN groups_group g ON g.topic_id = t.id AND g.name = %(group)s
 CROSS JOIN LATERAL groups_commit(g.id, %(session)s, h.head_seq, %(shares)s::integer[], %(generations)s::bigint[],
                                  %(seqs)s::bigint[]) done
 WHERE t.name = %(topic)s
"""


class ShareCommit(Request):
    """The new cursor of a share. A cursor never falls: a lower seq changes nothing."""

    share: Annotated[int, Meta(ge=0, le=MOST_PARTITIONS - 1)]
    """The number of the share."""
    generation: Seq
    """The `generation` of the share, from the event `assigned` or `record`."""
    seq: Seq
    """The last seq that is done. All records of the share up to it count as done. Send `to_seq` of an event `record`, or
    `gap_to` of a `tombstone`."""


class Commit(Request):
    """The body of a commit. Without shares, the commit only tells that the member is alive."""

    session: Seq
    """The `session` from the event `joined`. 409 `session_ended` after its end."""
    shares: Annotated[list[ShareCommit], Meta(max_length=MOST_PARTITIONS)] = []
    """The shares to commit, up to 1024, all or none. 409 `share_moved` if a share has another generation."""


class Committed(NamedTuple):
    """The topic's head at a commit."""

    head_seq: int


def commit(topic: str, group: str, wanted: Commit) -> Script[Committed]:
    """Commits all shares of the request, or raises TopicNotFound, NotFound, InvalidRequest, SessionEnded or ShareMoved."""
    numbers = [each.share for each in wanted.shares]
    if len(set(numbers)) < len(numbers):
        raise InvalidRequest("a share is named twice: send one seq for each share")
    columns = {
        "shares": numbers,
        "generations": [each.generation for each in wanted.shares],
        "seqs": [each.seq for each in wanted.shares],
    }
    rows = yield Statement(COMMIT, {"topic": topic, "group": group, "session": wanted.session, **columns})
    if not rows:
        yield from find(topic, group)
        raise SessionEnded("the session has ended: the group is another one", session=wanted.session)
    head_seq, is_alive, beyond_seq, stale = rows[0]
    if not is_alive:
        raise SessionEnded(
            "the session has ended: stop work on its records, and join again",
            session=wanted.session,
        )
    if beyond_seq is not None:
        raise AboveHead.of(seq=beyond_seq, head_seq=head_seq)
    if stale is not None:
        raise ShareMoved(
            "these shares are not this session's any more, and no share was committed: forget them, commit the others",
            shares=[int(share) for share in stale.split(",")],
        )
    return Committed(head_seq)

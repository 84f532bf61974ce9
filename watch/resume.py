"""Computes the position at which a stream continues in one topic: the session's saved position or the client's Last-Event-ID,
whichever is older (docs/watch.md, "Where a stream continues").

Without a Last-Event-ID, the last frames before the connection broke are sent again, because the server cannot know about their
arrival. After a crash of the server, the Last-Event-ID may be newer than the session, which is saved once a second. The
Last-Event-ID is then accepted up to the topic's head. A seq is a position in the name, whichever topic has the name now. A
recreated topic continues the numbers of its predecessor, and a read finds the tombstone.
"""

from __future__ import annotations

from typing import NamedTuple

from watch.sessions import SavedPosition


class FoundTopic(NamedTuple):
    """The topic that has the name now."""

    topic_id: int
    head_seq: int


def resume(
    saved: SavedPosition, is_exact: bool, shown: int | None, found: FoundTopic | None, knows_gone: bool
) -> SavedPosition:
    """Returns the client's position.

    `is_exact`: `saved` is the sent position, not an older one from before a crash. `shown`: the topic's seq in the Last-Event-ID.
    `knows_gone`: the client sent an id of this session in which the topic is missing. Ids lack a topic from `topic-deleted` until
    the next frame of the recreated topic.
    """
    if found is None:
        return SavedPosition(saved.topic_id, saved.seq, saved.told, shown is None and (saved.gone or knows_gone))
    is_same = saved.topic_id == found.topic_id
    seq = 0 if knows_gone and is_same else client_seq(saved, is_exact, shown, found)
    return SavedPosition(found.topic_id, seq, saved.told and is_same and seq == saved.seq)


def client_seq(saved: SavedPosition, is_exact: bool, shown: int | None, found: FoundTopic) -> int:
    """Returns the seq that the client has reached."""
    if shown is None:
        return saved.seq if saved.arrived_seq is None else saved.arrived_seq
    # Only after a crash can the client know more than the server.
    is_believed = not is_exact and shown <= found.head_seq
    return shown if is_believed or shown < saved.seq else saved.seq

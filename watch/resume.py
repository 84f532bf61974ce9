"""Where a stream goes on in one topic: at the session's saved position, or at the client's Last-Event-ID if that is
older (docs/watch.md, "Where a stream goes on").

Without a Last-Event-ID, what was sent right before the connection broke is sent again: nobody has said that it arrived.
After a crash of ours Last-Event-ID may be the newer one, as the session is saved once a second: it is then believed as
far as the topic goes. A seq is a position in the name, whatever topic has the name now: a topic that is created again
continues the numbers of its predecessor, and a read from there finds the tombstone.
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
    """Returns how far the client is.

    `is_exact`: `saved` is what was sent, and not what had been saved before a crash. `shown`: the topic's seq in the
    Last-Event-ID. `knows_gone`: the client shows an id of this session in which the topic is missing, as it is in every
    id from `topic-deleted` until something of the topic that came after it is sent.
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
    # The client may know more than we do only after a crash.
    is_believed = not is_exact and shown <= found.head_seq
    return shown if is_believed or shown < saved.seq else saved.seq

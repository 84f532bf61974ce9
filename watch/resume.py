"""Where a stream goes on in one topic: at the session's saved position, or at the client's Last-Event-ID if that is
older (docs/watch.md, "Where a stream goes on").

Without a Last-Event-ID, what was sent right before the connection broke is sent again: nobody has said that it arrived.
After a crash of ours Last-Event-ID may be the newer one, as the session is saved once a second: it is then believed as
far as the topic goes. A topic's id tells whether the topic itself is still the one that was read.
"""

from __future__ import annotations

from typing import NamedTuple

from watch.sessions import UNTOLD, SavedPosition

UNKNOWN_TOPIC = 0  # the id of no topic: a seq of a topic that was deleted long ago


class ShownPosition(NamedTuple):
    """What a Last-Event-ID says of one topic. Without a topic id it speaks of the topic the session began with."""

    seq: int
    topic_id: int | None


class FoundTopic(NamedTuple):
    """The topic that has the name now."""

    topic_id: int
    head_seq: int


def resume(
    saved: SavedPosition, is_exact: bool, shown: ShownPosition | None, found: FoundTopic | None, knows_gone: bool
) -> SavedPosition:
    """Returns how far the client is. Whatever differs from the topic that was found is still to be told.

    `is_exact`: `saved` is what was sent, and not what had been saved before a crash. `knows_gone`: the client shows an
    id of this session in which the topic is missing, as it is in every id from `topic-deleted` until the topic that
    came after it is told.
    """
    is_gone = shown is None and (saved.gone or knows_gone)
    if found is None:
        return SavedPosition(saved.topic_id, saved.seq, saved.recreated, is_gone)
    if knows_gone and saved.recreated and saved.topic_id == found.topic_id:  # it knows of the one before, and no more
        return SavedPosition(UNKNOWN_TOPIC, 0, recreated=True, gone=True)
    seq, topic_id = client_position(saved, is_exact, shown, found)
    if topic_id == found.topic_id:
        return SavedPosition(topic_id, seq, saved.recreated or topic_id != saved.topic_id)
    return SavedPosition(topic_id, seq, saved.recreated, is_gone)


def client_position(
    saved: SavedPosition, is_exact: bool, shown: ShownPosition | None, found: FoundTopic
) -> tuple[int, int]:
    """Returns the seq that the client has reached, and the id of the topic that this is a seq of."""
    if shown is None and saved.arrived_seq == UNTOLD:
        return 0, UNKNOWN_TOPIC
    if shown is None:
        return saved.seq if saved.arrived_seq is None else saved.arrived_seq, saved.topic_id
    topic_id = shown.topic_id
    if topic_id is None:
        topic_id = UNKNOWN_TOPIC if saved.recreated else saved.topic_id
    # The client may know more than we do only after a crash, and only of the topic that is there now.
    is_believed = not is_exact and topic_id == found.topic_id and shown.seq <= found.head_seq
    if topic_id != saved.topic_id:
        # A predecessor of the topic we had; or its successor, when the session was not saved since that one came.
        return shown.seq, topic_id if is_believed else UNKNOWN_TOPIC
    return shown.seq if is_believed or shown.seq < saved.seq else saved.seq, topic_id

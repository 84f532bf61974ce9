"""Where a stream goes on: the session's cursor, rewound to Last-Event-ID if that is older (contract.md section 7).

Without a Last-Event-ID, what was sent right before the connection broke is sent again: nobody has said that it arrived.
After a crash Last-Event-ID may be the newer one, as the cursor is saved once a second: it is then believed as far as
the topic goes. A topic's id tells whether the topic itself is still the one that was read.
"""

from __future__ import annotations

from typing import NamedTuple

from watch.sessions import Spot


class Seen(NamedTuple):
    """What a Last-Event-ID says of one topic. `epoch` is None where the topic is the one the session began with."""

    seq: int
    epoch: int | None


class Here(NamedTuple):
    """The topic of that name as it is now."""

    topic_id: int
    head_seq: int


class Resumed(NamedTuple):
    """`before`: the seq reached in the topic's predecessor, still to be told; `tell`: that the topic is gone is."""

    spot: Spot
    before: int | None = None
    tell: bool = False


def resumed(spot: Spot, exact: bool, seen: Seen | None, here: Here | None, told: bool) -> Resumed:
    """`told`: the client shows an id of this session that has no such topic, so it knows that the topic was deleted."""
    if here is None:
        tell = seen is not None or not (spot.gone or told)
        return Resumed(Spot(spot.topic_id, spot.seq, spot.anew, gone=True), tell=tell)
    seq, known = cursor(spot, exact, seen, here)
    if known == here.topic_id:
        return Resumed(Spot(known, seq, spot.anew or known != spot.topic_id))
    return Resumed(Spot(here.topic_id, 0, True), before=seq)


def cursor(spot: Spot, exact: bool, seen: Seen | None, here: Here) -> tuple[int, int]:
    """The client's seq, and the id of the topic it belongs to; 0 for one that was deleted long ago."""
    if seen is None:
        return spot.seq if spot.settled is None else spot.settled, spot.topic_id
    epoch = seen.epoch if seen.epoch is not None else 0 if spot.anew else spot.topic_id
    if epoch != spot.topic_id:
        # Of a predecessor; or of a successor, when the session was not saved since it came.
        return seen.seq, epoch if not exact and epoch == here.topic_id and seen.seq <= here.head_seq else 0
    if seen.seq < spot.seq or (not exact and epoch == here.topic_id and seen.seq <= here.head_seq):
        return seen.seq, epoch
    return spot.seq, epoch

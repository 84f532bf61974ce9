"""Caps on what all topics hold together: 429, like those of wire/limits.py. 0 turns a cap off."""

from __future__ import annotations

import time

from django.conf import settings

from base.errors import Throttled
from store.script import Script, Statement
from wire import limits, metrics

TOTAL = "SELECT coalesce(sum(bytes), 0)::bigint FROM topics_topichead"
FRESH_SECONDS = 1.0
MOST_TOTAL_BYTES = settings.TOPICS_MAX_TOTAL_BYTES  # read once: an append asks for it
TOPICS = "SELECT count(*), EXISTS (SELECT FROM topics_topic WHERE name = %s) FROM topics_topic"
FASTEST = 10_000  # more topics than can be made in a second
RARELY = 10.0  # seconds
_total = [0.0, 0]  # until when the sum of all bytes counts as fresh, and that sum
_far = [0.0, 0]  # until when the topics need not be counted, and for which cap


def check_topics(name: str) -> Script[None]:
    """Raises Throttled when this topic would be one too many. Far from the cap they are counted now and then, before that many
    more can have been made."""
    most, now = settings.TOPICS_MAX_TOPICS, time.monotonic()
    if not most or (most == _far[1] and now < _far[0]):
        return
    if most == _far[1]:  # it was far from the cap: the others need not count while we do
        _far[0] = now + FRESH_SECONDS
    ((topics, there),) = yield Statement(TOPICS, (name,))
    room = most - topics
    # After that time at most half of the room is used up, and what is left is enough for the second of the next count.
    _far[:] = [now + min(room / FASTEST / 2, RARELY), most] if room > 2 * FASTEST else [0.0, 0]
    if not there:
        limits.check("topics", most, topics)


def check_total_bytes(more: int) -> Script[None]:
    """Raises Throttled. The sum over all topics is a second old at most: a cap against filling disks, not a quota to the byte."""
    most = MOST_TOTAL_BYTES
    if time.monotonic() >= _total[0]:
        ((total,),) = yield Statement(TOTAL)
        _total[:] = [time.monotonic() + FRESH_SECONDS, total]
    if _total[1] + more > most:
        metrics.throttled("total_bytes")
        raise Throttled(f"the topics hold {_total[1]} bytes of {most}", limit="total_bytes", max=most)

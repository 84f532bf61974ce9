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
FAR = 10_000  # topics that cannot be made within FRESH_SECONDS
_total = [0.0, 0]  # until when the sum of all bytes counts as fresh, and that sum


_far = [0.0, 0]  # until when the topics need not be counted, and for which cap


def check_topics(name: str) -> Script[None]:
    """Raises Throttled when this topic would be one too many. Far from the cap they are counted once a second."""
    most = settings.TOPICS_MAX_TOPICS
    if not most or (most == _far[1] and time.monotonic() < _far[0]):
        return
    ((topics, there),) = yield Statement(TOPICS, (name,))
    if not there:
        limits.check("topics", most, topics)
    if topics + FAR < most:
        _far[:] = [time.monotonic() + FRESH_SECONDS, most]


def check_total_bytes(more: int) -> Script[None]:
    """Raises Throttled. The sum over all topics is a second old at most: a cap against filling disks, not a quota to the byte."""
    most = MOST_TOTAL_BYTES
    if time.monotonic() >= _total[0]:
        ((total,),) = yield Statement(TOTAL)
        _total[:] = [time.monotonic() + FRESH_SECONDS, total]
    if _total[1] + more > most:
        metrics.throttled("total_bytes")
        raise Throttled(f"the topics hold {_total[1]} bytes of {most}", limit="total_bytes", max=most)

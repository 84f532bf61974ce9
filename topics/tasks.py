"""Celery's entries: bounded rounds of what runs in the background, started by beat."""

from __future__ import annotations

import time

from celery import shared_task

from topics import audit, reclaim, retention
from topics.clock import now_ms
from topics.watch import sessions

ROUND_SECONDS = 1.5  # of reclaiming; beat starts the next round


@shared_task(name="topics.expire")
def expire() -> None:
    for topic_id in retention.expired_topics(now_ms()):
        while retention.expire(topic_id, now_ms()):
            pass
    while retention.drop_old_keys(now_ms()):
        pass
    while audit.drop_old(now_ms()):
        pass


@shared_task(name="topics.reclaim")
def reclaim_rows() -> None:
    """A chunk of each topic in turn, so that a large one does not keep the others waiting."""
    ends = time.monotonic() + ROUND_SECONDS
    removed = True
    while removed:
        removed = False
        for topic_id in reclaim.due(now_ms()):
            removed |= reclaim.reclaim(topic_id, now_ms()).more
            if time.monotonic() > ends:
                return


@shared_task(name="topics.rest")
def rest() -> None:
    """Settle heads: what they reserved and did not need, and the lead of a clock that was ahead."""
    retention.give_back_seqs(now_ms())
    retention.set_clocks(retention.server_now_ms())


@shared_task(name="topics.sweep_watch_sessions")
def sweep_watch_sessions() -> None:
    sessions.sweep(now_ms())

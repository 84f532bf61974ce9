"""The Celery tasks of the background: bounded rounds that beat starts."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from functools import partial

from celery import shared_task

from base.clock import now_ms
from topics import audit
from topics.upkeep import reclaim, retention
from topics.upkeep.past import upkeep_ms

ROUND_SECONDS = 1.5  # of a round of expiry or reclaim; beat starts the next round
old_keys = retention.OldKeys()  # as far as this process has looked


@shared_task(name="topics.expire")
def expire() -> None:
    """Expires records, idempotency keys and audit entries. Topics take turns of one step, because a large topic must not
    delay others."""
    ends = time.monotonic() + ROUND_SECONDS
    steps: list[Callable[[], int]] = [lambda: old_keys.drop(upkeep_ms()), lambda: audit.drop_old(upkeep_ms())]
    steps += [partial(expire_topic, topic_id) for topic_id in retention.expired_topics(now_ms())]
    random.shuffle(steps)  # if a round ends early, the next round reaches other topics
    while steps:
        for step in list(steps):
            if not step():
                steps.remove(step)
            if time.monotonic() > ends:
                return


def expire_topic(topic_id: int) -> int:
    return retention.expire(topic_id, now_ms())


@shared_task(name="topics.reclaim")
def reclaim_rows() -> None:
    """Reclaims a chunk of each topic in turn, because a large topic must not delay others.

    The look reads every topic with rows that may be due, so a round looks once, and then continues where more is left.
    """
    ends = time.monotonic() + ROUND_SECONDS
    topics = reclaim.due(now_ms())
    while topics:
        left = []
        for topic_id in topics:
            if reclaim.reclaim(topic_id, now_ms()).more:
                left.append(topic_id)
            if time.monotonic() > ends:
                return
        topics = left


@shared_task(name="topics.rest")
def rest() -> None:
    """Settles heads: releases unused reserved seqs, and limits the lead of a clock that was ahead."""
    retention.give_back_seqs(now_ms())
    retention.set_clocks(now_ms())

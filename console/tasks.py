"""Celery tasks: the sampler, the look for problems, and the upkeep of their tables."""

from __future__ import annotations

from celery import shared_task

from base.clock import now_ms
from console import gateways, jobs, logins
from console.health import signals
from console.health.processes import living
from console.history import samples
from console.history.gone import GoneObjects
from topics.upkeep.past import upkeep_ms
from wire.access import keys

gone = GoneObjects()  # as far as this process has looked


@shared_task(name="console.sample")
def sample() -> None:
    samples.sample(now_ms())


@shared_task(name="console.judge")
def judge() -> None:
    # Each process of a worker has this task rarely, and asks the gateways again. A silent one is known after some seconds.
    gateways.seen(gateways.ALL_SECONDS)
    signals.judge(living(now_ms(), 0.0), now_ms())


@shared_task(name="console.thin")
def thin() -> None:
    gone.drop()
    now = upkeep_ms()
    samples.thin(now)
    jobs.drop_old()
    signals.drop_old(now)
    keys.drop_dead(now)
    logins.drop_old(now)

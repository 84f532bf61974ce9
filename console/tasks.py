"""Celery tasks: the sampler, and the upkeep of its table."""

from __future__ import annotations

from celery import shared_task

from base.clock import now_ms
from console import jobs, samples


@shared_task(name="console.sample")
def sample() -> None:
    samples.sample(now_ms())


@shared_task(name="console.thin")
def thin() -> None:
    samples.thin(now_ms())
    jobs.drop_old()

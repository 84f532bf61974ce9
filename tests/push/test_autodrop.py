"""Autodrop: publishing goes on, the stalest queue loses its oldest events, and its subscriber is told."""

from __future__ import annotations

import sys

import trustme

from push import autodrop
from push.autodrop import Dropped
from tests.instances import ROOT, Instance, until
from tests.preloaded import run
from tests.push.bus import new_client, url
from tests.push.receiver import Receiver


def drop_now(instance: Instance) -> None:
    """Now, and not when half a minute is over."""
    now = [sys.executable, "-m", "celery", "-A", "topics_project.celery", "call", "push.autodrop"]
    servers = {"DATABASE_URL": instance.servers.database_url, "REDIS_URL": instance.servers.redis_url}
    secret = {"SECRET_KEY": (instance.data / "secret-key").read_text().strip()}
    done = run(now, {**instance.environment, **servers, **secret}, ROOT)
    assert done.returncode == 0, done.stderr


def test_the_oldest_events_of_the_stalest_queue_go(strict: Instance, topic: str, ca: trustme.CA) -> None:
    publisher, gone, slow = new_client(strict), new_client(strict), new_client(strict)
    stale, fresh = Receiver(ca, answer=lambda *_: 500), Receiver(ca, answer=lambda *_: 500)
    publisher.publish(topic, url(0))
    gone.subscribe(topic, callback=stale.url(), timeout=0, max=5)
    for n in range(100):  # about 9,000 bytes: one queue is too much
        publisher.publish(topic, url(n))
    slow.subscribe(topic, callback=fresh.url(), timeout=0, max=5)
    publisher.publish(topic, url(100))
    drop_now(strict)
    until(lambda: gone.events()["queued"] < 101, "autodrop")
    left = gone.events()["queued"]
    assert 0 < left <= 60
    assert slow.events()["queued"] == 1
    stale.answer = fresh.answer = lambda *_: 200
    until(lambda: gone.drained() and slow.drained(), "what is left to be delivered")
    assert fresh.acknowledged() == [url(100)]
    assert stale.acknowledged() == [url(n) for n in range(101 - left, 101)]
    first, *others = [batch for batch in stale.batches if batch.status == 200]
    assert first.headers["topics-dropped"] == str(101 - left)
    assert all("topics-dropped" not in batch.headers for batch in others)
    stale.end()
    fresh.end()


def test_without_pressure_nothing_goes(db: None) -> None:
    assert autodrop.autodrop() == list[Dropped]()

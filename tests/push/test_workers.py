"""Workers that are killed, stopped and woken in the middle of deliveries: nothing is lost, and nothing comes out of order."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from tests.instances import ROOT, WHOLE, Instance, start, until
from tests.push.bus import new_client, new_topic, url
from tests.push.receiver import Batch, Handler, Receiver


@pytest.fixture(scope="module")
def two_workers(settings_of_bus: dict[str, str]) -> Iterator[Instance]:
    """An instance with a second worker for deliveries beside its own. Leases are short, and a stopped worker wakes up again."""
    patience = {"ROUTEMASTER_TIMEOUT": "1", "ROUTEMASTER_CONNECT_TIMEOUT": "1", "TOPICS_FROZEN_SECONDS": "0"}
    with start(**{**WHOLE, **settings_of_bus, **patience}) as instance:
        servers = instance.servers
        environment = {
            **instance.environment,
            "DATABASE_URL": servers.database_url,
            "REDIS_URL": servers.redis_url,
            "SECRET_KEY": (instance.data / "secret-key").read_text().strip(),
        }
        # As an operator starts one more: on the same servers, under a supervisor of his own.
        argv = [sys.executable, str(ROOT / "manage.py"), "run", "push"]
        other = {**environment, "TOPICS_DATA": str(instance.data / "other")}
        command = ["sh", "-c", f"until false; do {shlex.join(argv)}; done"]  # it starts it again, as systemd does
        quiet = subprocess.DEVNULL
        more = subprocess.Popen(
            command, env=other, cwd=instance.data, stdout=quiet, stderr=quiet, start_new_session=True
        )
        until(lambda: len(workers(instance)) == 2, "two workers")
        try:
            yield instance
        finally:
            os.killpg(more.pid, signal.SIGKILL)
            more.wait()


def workers(instance: Instance) -> list[int]:
    return instance.pids("--queues topics.push")


def deliverer(instance: Instance, peer_port: int) -> int | None:
    """The worker whose connection to a callback begins at this port, while it has it."""
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    inodes = {f"socket:[{words[9]}]" for words in lines if int(words[1].split(":")[1], 16) == peer_port}
    for pid in workers(instance):
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                if os.readlink(entry) in inodes:
                    return pid
    return None


def distinct(receiver: Receiver) -> list[str]:
    """The events of all batches that came in, in the order of coming, without those of a batch that came before."""
    seen: list[str] = []
    for batch in list(receiver.batches):
        urls = [event["url"] for event in batch.events]
        if urls[0] in seen:  # it comes again as it was
            at = seen.index(urls[0])
            assert seen[at : at + len(urls)] == urls
        else:
            seen += urls
    return seen


class Scene:
    """Three subscribers, two of them to two topics, whose callbacks take a moment; and the worker that delivers to the first."""

    def __init__(self, instance: Instance, ca: trustme.CA) -> None:
        self.instance, self.peer_port = instance, 0
        self.publisher, self.subscribers = new_client(instance), [new_client(instance) for _ in range(3)]
        self.topics = [new_topic(), new_topic()]
        self.published = 0
        for topic in self.topics:
            self.publisher.publish(topic, url(0))
        self.receivers = [Receiver(ca, answer=self.answer) for _ in self.subscribers]
        for place, (subscriber, receiver) in enumerate(zip(self.subscribers, self.receivers, strict=True)):
            subscriber.subscribe(*self.topics[: 2 if place else 1], callback=receiver.url(), timeout=0, max=3)

    def answer(self, handler: Handler, batch: Batch) -> int:
        if handler.receiver is self.receivers[0]:
            self.peer_port = handler.client_address[1]
        time.sleep(0.05)
        return 200

    def publish(self, count: int) -> None:
        for _ in range(count):
            self.publisher.publish(self.topics[self.published % 2], url(self.published))
            self.published += 1

    def under_way(self) -> int:
        """The worker that delivers to the first subscriber right now."""
        until(lambda: len(self.receivers[0].batches) > 1, "deliveries to be under way")
        return int(until(lambda: deliverer(self.instance, self.peer_port), "its connection"))

    def check(self) -> None:
        """Everything arrives, in order, without a gap."""
        for place, receiver in enumerate(self.receivers):
            expected = [url(n) for n in range(0, self.published, 1 if place else 2)]
            until(lambda r=receiver, e=expected: len(distinct(r)) >= len(e), "everything to arrive", 90)
            assert distinct(receiver) == expected
        for subscriber in self.subscribers:
            until(subscriber.drained, "the queue to be empty")


@pytest.fixture
def scene(two_workers: Instance, ca: trustme.CA) -> Iterator[Scene]:
    made = Scene(two_workers, ca)
    yield made
    for receiver in made.receivers:
        receiver.end()


@pytest.mark.guarantee("P1")
def test_a_worker_that_is_killed_loses_nothing(scene: Scene) -> None:
    scene.publish(30)
    os.kill(scene.under_way(), signal.SIGKILL)
    scene.publish(30)
    scene.check()


def test_workers_that_stand_still_for_a_moment_lose_nothing(scene: Scene) -> None:
    scene.publish(30)
    scene.under_way()
    pids = workers(scene.instance)
    for number in (signal.SIGSTOP, signal.SIGCONT):
        for pid in pids:
            os.kill(pid, number)
        scene.publish(15)
    scene.check()


@pytest.mark.guarantee("P3")
def test_a_worker_that_wakes_up_delivers_nothing_that_another_has_taken_over(scene: Scene) -> None:
    until(lambda: len(workers(scene.instance)) == 2, "two workers")
    scene.publish(30)
    stopped = scene.under_way()
    os.kill(stopped, signal.SIGSTOP)
    try:
        scene.publish(30)
        scene.check()  # by the other one, once the leases are over
        came = {batch.id for receiver in scene.receivers for batch in receiver.batches}
        before = [len(receiver.batches) for receiver in scene.receivers]
    finally:
        os.kill(stopped, signal.SIGCONT)
    scene.publish(30)
    scene.check()
    later = [batch for receiver, n in zip(scene.receivers, before, strict=True) for batch in receiver.batches[n:]]
    assert later
    assert came.isdisjoint(batch.id for batch in later)

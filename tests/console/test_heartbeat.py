"""Heartbeats: pages name missing processes, and counters add up over all processes."""

import json
import os
import signal
from typing import Any

import pytest
from django.test import Client

from base.clock import now_ms
from console import heartbeat, jobs, metrics
from console.heartbeat import FORGET_MS, GRACE_MS, STALE_MS, ProcessHeartbeat
from console.models import Count, Failure, Process, Task
from push.models import BusClient, Subscriber
from store.script import run
from tests.instances import Instance, until
from wire.keys import Key


@pytest.fixture
def ours(db: None, settings: Any) -> ProcessHeartbeat:
    settings.TOPICS_PROCESSES = ["worker", "beat"]
    made = ProcessHeartbeat("web")
    made.started_ts -= 2 * GRACE_MS
    return made


def test_who_says_nothing_is_missed(ours: ProcessHeartbeat) -> None:
    now = now_ms()
    for kind, silent_ms in (("worker", 1_000), ("beat", STALE_MS + 1_000)):
        Process.objects.create(id=kind, kind=kind, host="h", pid=1, started_ts=1, seen_ts=now - silent_ms)
    ours.beat(now, ours.look_at_queue())
    assert ours.degraded(now) == ["beat"]
    ours.started_ts = now  # the others may still be starting
    assert ours.degraded(now) == []


def test_push_is_missed_where_it_is_wanted(ours: ProcessHeartbeat, settings: Any) -> None:
    """The setting names push, or a client subscribes, or a push process ran in the last hour."""

    def missed() -> list[str]:
        ours.beat(now, ours.look_at_queue())
        wanted = "push" in metered()
        assert wanted == ("push" in ours.degraded(now))
        assert not wanted or metered()["push"] == 0
        return ours.degraded(now)

    now = now_ms()
    for kind in ("worker", "beat"):
        Process.objects.create(id=kind, kind=kind, host="h", pid=1, started_ts=1, seen_ts=now)
    settings.TOPICS_PROCESSES = ["worker", "push", "beat"]
    assert missed() == ["push"]
    settings.TOPICS_PROCESSES = []
    assert missed() == []
    client = BusClient.objects.create(name="c", token="c", created_ts=1)
    subscriber = Subscriber.objects.create(
        client=client, queue="bus.queue:1", callback="https://a.example", created_ts=1
    )
    assert missed() == ["push"]
    subscriber.unsubscribed_ts = 2
    subscriber.save()
    assert missed() == []
    Process.objects.create(id="push", kind="push", host="h", pid=1, started_ts=1, seen_ts=now - STALE_MS - 1)
    assert missed() == ["push"]


def metered() -> dict[str, float]:
    """`topics_processes` by kind."""
    alive, *_ = run(metrics.collect(Key("test", frozenset({"admin"}))))
    return {sample.labels["kind"]: sample.value for sample in alive.samples}


def test_redis_that_does_not_answer_is_missed(ours: ProcessHeartbeat) -> None:
    import redis

    ours.started_ts = now_ms()
    ours.redis = redis.Redis(port=1, socket_connect_timeout=1)
    ours.beat(now_ms(), ours.look_at_queue())
    assert ours.degraded(now_ms()) == ["redis"]


def test_before_the_first_look_nobody_is_missed(ours: ProcessHeartbeat) -> None:
    assert ours.degraded(now_ms()) == []


def test_a_process_that_ended_is_forgotten(ours: ProcessHeartbeat) -> None:
    Process.objects.create(id="old", kind="web", host="h", pid=1, started_ts=1, seen_ts=now_ms() - FORGET_MS - 1)
    ours.beat(now_ms(), ours.look_at_queue())
    assert list(Process.objects.values_list("id", flat=True)) == [ours.id]


def test_a_process_that_died_ahead_of_time_is_missed(ours: ProcessHeartbeat) -> None:
    """Its clock was an hour ahead: its last sign would be one of life until that hour is over."""
    now = now_ms()
    for kind, ts in (("worker", now), ("beat", now + 3_600_000)):
        Process.objects.create(id=kind, kind=kind, host="h", pid=1, started_ts=1, seen_ts=ts)
    ours.beat(now, ours.look_at_queue())
    assert ours.degraded(now) == ["beat"]


def test_counts_of_all_processes_add_up(ours: ProcessHeartbeat) -> None:
    other = ProcessHeartbeat("web")
    told: dict[tuple[Any, ...], int] = {
        ("topics_appended_records_total",): 5,
        ("topics_http_requests_total", "GET", "/v0/ready", 503): 2,
        ("topics_http_requests_total", "GET", "/v0/ready", 200): 1,
        ("something_else",): 7,
    }
    for each in (ours, other, ours):
        each.note(told)
    ours.beat(now_ms(), ours.look_at_queue())
    other.beat(now_ms(), other.look_at_queue())
    other.beat(now_ms(), other.look_at_queue())
    assert dict(Count.objects.values_list("name", "value")) == {"appended": 15, "errors": 6}


def test_tasks_that_ran_and_failed_are_noted(db: None, browser: Client) -> None:
    class Named:
        name = "t"

    tasks = jobs.Tasks()
    tasks.note_start()
    tasks.note_failure(sender=Named, args=(1, "a\0b"), exception=ValueError("no"), einfo="trace")
    tasks.note_end(task=Named)
    assert Task.objects.values_list("name", "runs", "failures").get() == ("t", 1, 1)
    failure = Failure.objects.get()
    assert (failure.task, failure.error, failure.trace) == ("t", "ValueError('no')", "trace")
    assert "ValueError" in browser.get("/admin/jobs/").content.decode()


def test_the_latest_failures_are_kept(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "MOST_FAILURES", 2)
    for place in range(5):
        Failure.objects.create(ts=place, task="t", arguments="", error="", trace="")
    jobs.drop_old()
    assert sorted(Failure.objects.values_list("ts", flat=True)) == [3, 4]


def test_readiness_names_what_is_degraded(instances) -> None:
    """Redis and the worker are frozen: appends and reads go on, and readiness says what does not."""
    instance: Instance = instances(TOPICS_PROCESSES="worker,beat", TOPICS_FROZEN_SECONDS="0")

    def told() -> set[str]:
        status, body = instance.get("/v0/ready")
        assert status == 200
        return set(json.loads(body).get("degraded", ()))

    with instance.connect() as database:
        alive = "SELECT DISTINCT kind FROM console_process WHERE worked_ts IS NOT NULL"
        until(lambda: {("beat",), ("worker",)} <= set(database.execute(alive)), "worker and beat at work")
        assert told() == set()
        frozen = [*instance.pids("celery"), *instance.pids("redis-server")]
        ours = [pid for pid in frozen if pid != os.getpid()]
        try:
            for pid in ours:
                os.kill(pid, signal.SIGSTOP)
            until(lambda: told() == {"redis", "worker", "beat"}, "readiness to name all three")
        finally:
            for pid in ours:
                os.kill(pid, signal.SIGCONT)
        until(lambda: told() == set(), "all three to be back")


def test_a_process_that_does_not_look_says_nothing() -> None:
    assert heartbeat.degraded() == []
    assert heartbeat.queue_length() is None

"""Heartbeats: pages name missing processes, and counters add up over all processes."""

import json
import os
import signal
import socket
from typing import Any

import pytest
from django.test import Client

from base.clock import now_ms
from console import jobs, metrics
from console.health import heartbeat, problems, processes
from console.health.heartbeat import FORGET_MS, GRACE_MS, STALE_MS, STUCK_SECONDS, ProcessHeartbeat
from console.models import Count, Failure, Process, Task
from push.models import BusClient, Subscriber
from store.script import run
from tests.instances import Instance, until
from wire.access.keys import Key

pytestmark = pytest.mark.deep(37)


@pytest.fixture
def ours(db: None, settings: Any) -> ProcessHeartbeat:
    settings.TOPICS_PROCESSES = ["worker", "beat"]
    made = ProcessHeartbeat("web")
    made.started_ts -= 2 * GRACE_MS
    return made


def test_a_process_on_a_host_with_the_longest_name_has_a_heartbeat(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(socket, "gethostname", lambda: "h" * 64)
        patched.setattr(os, "getpid", lambda: 4_194_303)
        first, second = ProcessHeartbeat("web"), ProcessHeartbeat("web")
    for each in (first, second, first):
        each.beat(now_ms(), 0)
    assert list(Process.objects.values_list("host", "pid")) == [("h" * 64, 4_194_303)] * 2


def test_a_silent_process_is_missed(ours: ProcessHeartbeat) -> None:
    now = now_ms()
    for kind, silent_ms in (("worker", 1_000), ("beat", STALE_MS + 1_000)):
        Process.objects.create(id=kind, kind=kind, host="h", pid=1, started_ts=1, seen_ts=now - silent_ms)
    ours.beat(now, ours.count_tasks())
    assert ours.degraded(now) == ["beat"]
    ours.started_ts = now  # the others may still be starting
    assert ours.degraded(now) == []


def test_a_worker_that_takes_no_task_although_some_wait_is_silent(ours: ProcessHeartbeat) -> None:
    worker, now = ProcessHeartbeat("worker"), now_ms()

    def is_seen(waiting_tasks: int) -> bool:
        Process.objects.all().delete()
        worker.beat(now, waiting_tasks)
        return Process.objects.filter(kind="worker").exists()

    assert is_seen(7)
    worker.worked_at -= STUCK_SECONDS + 1
    assert is_seen(0)  # there was nothing to take
    assert not is_seen(7)
    ours.beat(now, 7)
    assert "worker" in ours.degraded(now)
    worker.worked()
    assert is_seen(7)


def test_push_is_missed_where_it_is_wanted(ours: ProcessHeartbeat, settings: Any) -> None:
    """The setting names push, or a client subscribes, or a push process ran in the last hour."""

    def missed() -> list[str]:
        ours.beat(now, ours.count_tasks())
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
    ours.beat(now_ms(), ours.count_tasks())
    assert ours.degraded(now_ms()) == ["redis"]


def test_before_the_first_look_nobody_is_missed(ours: ProcessHeartbeat) -> None:
    assert ours.degraded(now_ms()) == []


def test_a_process_that_ended_is_forgotten(ours: ProcessHeartbeat) -> None:
    Process.objects.create(id="old", kind="web", host="h", pid=1, started_ts=1, seen_ts=now_ms() - FORGET_MS - 1)
    ours.beat(now_ms(), ours.count_tasks())
    assert list(Process.objects.values_list("id", flat=True)) == [ours.id]


def test_a_process_that_died_ahead_of_time_is_missed(ours: ProcessHeartbeat) -> None:
    """Its clock was an hour ahead: its last sign would be one of life until that hour is over."""
    now = now_ms()
    for kind, ts in (("worker", now), ("beat", now + 3_600_000)):
        Process.objects.create(id=kind, kind=kind, host="h", pid=1, started_ts=1, seen_ts=ts)
    ours.beat(now, ours.count_tasks())
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
    ours.beat(now_ms(), ours.count_tasks())
    other.beat(now_ms(), other.count_tasks())
    other.beat(now_ms(), other.count_tasks())
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
    assert "ValueError" in browser.get("/admin/tasks/").content.decode()


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
    assert heartbeat.waiting_tasks() is None


def test_a_process_is_expected_until_it_says_goodbye(ours: ProcessHeartbeat) -> None:
    """A replaced process is no problem, and one cause is one problem."""
    now = now_ms()

    def process(id: str, started_ms: int, seen_ms: int) -> None:
        Process.objects.create(
            id=id, kind="worker", host="h", pid=1, started_ts=now - started_ms, seen_ts=now - seen_ms
        )

    def shown() -> list[str]:
        return [each.text for each in problems.of_servers(processes.living(now, 0.0)) if "worker" in each.text]

    process("first", 900_000, 600_000)
    process("second", 599_000, 300_000)
    process("third", 299_000, 60_000)
    assert shown() == ["worker has no heartbeat."]
    process("fourth", 200_000, 1_000)
    assert shown() == ["1 worker process stopped without a goodbye. Others run."]
    process("fifth", 50_000, 1_000)
    assert shown() == []
    ours.beat(now, 0)
    assert Process.objects.filter(id=ours.id).exists()
    ours.say_goodbye()
    ours.try_beat(0)
    assert not Process.objects.filter(id=ours.id).exists()


def test_many_dead_processes_of_a_kind_hide_no_worker(ours: ProcessHeartbeat) -> None:
    """A crash loop of `web` leaves a row for each of its ends, until an hour has passed."""
    now = now_ms()
    for pid in range(200):
        seen_ts = now - 30_000 - pid
        Process.objects.create(
            id=f"web{pid}", kind="web", host="h", pid=pid, started_ts=seen_ts - 1_000, seen_ts=seen_ts
        )
    for kind in ("beat", "worker"):
        Process.objects.create(id=kind, kind=kind, host="h", pid=1, started_ts=now - 60_000, seen_ts=now)
    ours.beat(now, 0)
    found = processes.living(now, 0.0)
    assert {each.kind for each in found if each.state == "ok"} >= {"web", "worker", "beat"}
    assert [each.text for each in problems.of_servers(found) if "worker" in each.text] == []


def test_a_replaced_beat_or_worker_is_no_problem(instances) -> None:
    """Each deletes its row when it ends, so no page misses the former process."""
    instance: Instance = instances(TOPICS_PROCESSES="worker,beat")
    with instance.connect() as database:

        def rows() -> dict[str, set[int]]:
            found = database.execute("SELECT kind, pid FROM console_process WHERE kind <> 'web'").fetchall()
            return {kind: {pid for each, pid in found if each == kind} for kind, _ in found}

        before = until(lambda: (found := rows()).keys() == {"beat", "worker"} and found, "worker and beat at work")
        for pids in before.values():
            for pid in pids:
                os.kill(pid, signal.SIGTERM)

        def are_replaced() -> bool:
            return all(pids and not pids & before[kind] for kind, pids in rows().items()) and len(rows()) == 2

        until(are_replaced, "the rows of others, and no former row")

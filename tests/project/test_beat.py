"""Beat: it goes on when the clock is set back, of several beats one schedules at a time, and a worker runs what it sends."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

import psycopg
import pytest
import redis
import redis.asyncio
from celery import Celery
from django.conf import settings

from base import redis_client
from base.clock import now_ms
from base.processes import die_with_parent
from tests.deadlines import DEADLINE
from tests.instances import ROOT, Instance, until
from tests.preloaded import begin
from tests.project.test_two_hosts import joining
from tests.redis_servers import own_redis
from tests.watch.wire import Api
from topics_project.broker import Connection
from topics_project.forks import Fork
from topics_project.operations.beat import LOCK, SchedulingTurn
from topics_project.periodic import mark_of

pytestmark = pytest.mark.deep(63)

DAY_MS = 86_400_000
QUEUE_DATABASE = "/5"  # of Redis: nobody takes from this queue, so that what was sent can be seen
# The time of day as the file $CLOCK says: so many seconds ahead. What counts the seconds since the start is let be.
SHIM = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

static long ahead(void) {
    long seconds = 0;
    FILE *file = fopen(getenv("CLOCK"), "r");
    if (file) { if (fscanf(file, "%ld", &seconds) != 1) seconds = 0; fclose(file); }
    return seconds;
}
int clock_gettime(clockid_t clock, struct timespec *time) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(clock, time);
    if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) time->tv_sec += ahead();
    return result;
}
int gettimeofday(struct timeval *time, void *zone) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    time->tv_sec = now.tv_sec; time->tv_usec = now.tv_nsec / 1000;
    return 0;
}
time_t time(time_t *result) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (result) *result = now.tv_sec;
    return now.tv_sec;
}
"""
Beat = subprocess.Popen[bytes] | Fork


def queue_url() -> str:
    return settings.REDIS_URL.removesuffix("/0") + QUEUE_DATABASE


@pytest.fixture
def queue() -> Iterator[redis.Redis]:
    client = redis.Redis.from_url(queue_url())
    yield client
    client.flushdb()
    client.close()


@pytest.fixture
def beats(queue: redis.Redis, tmp_path: Path) -> Iterator[Callable[..., Beat]]:
    """`beats(NAME="…")` starts a real beat on the session's servers."""
    started: list[Beat] = []

    def start(**environment: str) -> Beat:
        command = [sys.executable, "-m", "celery", "-A", "topics_project.celery", "beat", "--pidfile", ""]
        env = {**os.environ, "REDIS_URL": queue_url(), **environment}
        # A library that changes the clock has to be there before the program: then it is a process of its own.
        started.append(
            launch(command, env, tmp_path / "beat.log")
            if environment
            else begin(command, env, ROOT, tmp_path / "beat.log")
        )
        return started[-1]

    yield start
    for beat in started:
        beat.send_signal(signal.SIGKILL)
        beat.wait()


def launch(command: list[str], env: dict[str, str], log: Path) -> subprocess.Popen[bytes]:
    parent = os.getpid()
    with log.open("ab") as output:
        return subprocess.Popen(
            command, env=env, cwd=ROOT, stdout=output, stderr=output, preexec_fn=lambda: die_with_parent(parent)
        )


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def senders(queue: redis.Redis) -> set[int]:
    """The processes that sent anything since we last asked."""
    key = f"{settings.TOPICS_REDIS_PREFIX}topics"
    messages = [json.loads(message) for message in queue.lrange(key, 0, -1)]
    queue.delete(key)
    return {int(message["headers"]["origin"].partition("@")[0].removeprefix("gen")) for message in messages}


def holders() -> list[int]:
    """The backends whose sessions hold the turn."""
    with psycopg.connect(settings.DATABASE_URL) as connection:
        held = connection.execute(
            "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND objid = %s AND granted"
            " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())",
            [LOCK],
        )
        return [pid for (pid,) in held]


def sessions() -> list[int]:
    """The backends of every beat, whoever's turn it is."""
    with psycopg.connect(settings.DATABASE_URL) as connection:
        found = connection.execute(
            "SELECT pid FROM pg_stat_activity WHERE application_name = 'topics beat' AND datname = current_database()"
        )
        return [pid for (pid,) in found]


def test_it_works(beats: Callable[..., Beat], queue: redis.Redis) -> None:
    beat = beats()
    until(lambda: beat.pid in senders(queue), "the beat to send")
    until(lambda: beat.pid in senders(queue), "the beat to send again")
    beat.send_signal(signal.SIGTERM)
    assert beat.wait(DEADLINE) == 0
    until(lambda: not holders(), "the turn to be free")


def test_messages_that_nobody_takes_do_not_pile_up(beats: Callable[..., Beat], queue: redis.Redis) -> None:
    """As without a push process, or while no worker runs. A message that was taken is followed by the next one."""
    keys = [f"{settings.TOPICS_REDIS_PREFIX}{name}" for name in ("topics", "topics.push")]

    def messages(key: str) -> dict[str, bytes]:
        """The newest message of each task."""
        found = queue.lrange(key, 0, -1)
        assert len(found) <= len(settings.CELERY_BEAT_SCHEDULE)
        newest = {json.loads(message)["headers"]["task"]: message for message in reversed(found)}
        assert len(newest) == len(found)
        return newest

    beats()
    entries = {entry["task"] for entry in settings.CELERY_BEAT_SCHEDULE.values()}
    until(lambda: {task for key in keys for task in messages(key)} == entries, "each task to be sent")
    for key, task in zip(keys * 2, ("topics.expire", "push.sweep") * 2, strict=True):
        queue.lrem(key, 1, messages(key)[task])
        until(lambda: task in messages(key), "the next message")  # noqa: B023


def test_no_process_waits_for_the_lock_that_beat_holds() -> None:
    sources = [
        path for app in ("topics", "routers") for path in (ROOT / app).rglob("*") if path.suffix in (".py", ".sql")
    ]
    assert [path for path in sources if "advisory" in path.read_text(errors="replace")]
    assert not [path for path in sources if re.search(rf"\b{LOCK}\b", path.read_text(errors="replace"))]


class Clock(NamedTuple):
    """A clock for one process: the environment that it needs, and the file that says how many seconds the clock is ahead."""

    environment: dict[str, str]
    ahead: Path


@pytest.fixture
def clock(tmp_path: Path) -> Clock:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip(
            "NOT TRIED: stepping a clock takes a preloaded library, and that a C compiler (apt-get install gcc)"
        )
    (tmp_path / "clock.c").write_text(SHIM)
    library, ahead = tmp_path / "clock.so", tmp_path / "clock"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, tmp_path / "clock.c", "-ldl"], check=True)
    ahead.write_text("0")
    return Clock({"LD_PRELOAD": str(library), "CLOCK": str(ahead)}, ahead)


def test_a_clock_set_back_by_an_hour_does_not_stop_it(
    beats: Callable[..., Beat], queue: redis.Redis, clock: Clock
) -> None:
    beat = beats(**clock.environment)
    until(lambda: beat.pid in senders(queue), "the beat to send")
    for seconds in ("-3600", "0", "3600", "-86400"):
        clock.ahead.write_text(seconds)
        senders(queue)
        for _ in range(2):
            until(lambda: beat.pid in senders(queue), f"the beat to send with its clock at {seconds}")


def test_a_worker_whose_clock_is_ahead_works_by_the_clock_of_postgresql(
    instances: Callable[..., Instance], clock: Clock, tmp_path: Path
) -> None:
    """Its jobs come in time, the next ones are planned in time, and it removes nothing that is not old."""
    server = instances(TOPICS_PROCESSES="beat")
    api = Api(server.port)
    api.done("PUT", "/v0/topics/mails", {"type": "queue"})
    api.done("PUT", "/v0/topics/kept", {"ttl_ms": DAY_MS})
    body = {"records": [{"data": 1}], "idempotency_key": "k"}
    first = api.done("POST", "/v0/topics/kept", body)["seqs"]
    clock.ahead.write_text(str(200 * DAY_MS // 1000))
    command = [sys.executable, "-m", "celery", "-A", "topics_project.celery", "worker", "--pool", "solo"]
    worker = launch(command, {**server.environment, **joining(server), **clock.environment}, tmp_path / "worker.log")
    try:
        for number in range(2):  # the second has its time when the first is done
            api.done("PUT", f"/v0/topics/mails/schedules/s{number}", {"not_before": now_ms(), "data": number})
            until(lambda: api.done("GET", "/v0/topics/mails")["head_seq"] == number + 1, "the job")  # noqa: B023
        with server.connect() as connection:  # as if it was due a minute ago
            api.done("PUT", "/v0/topics/mails/schedules/minutely", {"cron": "* * * * *", "data": "m"})
            connection.execute("UPDATE queues_schedule SET due_ts = due_ts - 60000, try_ts = try_ts - 60000")
        until(lambda: api.done("GET", "/v0/topics/mails")["head_seq"] == 3, "the job")
        assert api.done("GET", "/v0/topics/mails/schedules/minutely")["next_ts"] < now_ms() + 2 * 60_000
        assert api.done("POST", "/v0/topics/kept", body)["seqs"] == first  # its idempotency key is there, too
        assert api.done("GET", "/v0/topics/kept")["count"] == 1
        with server.connect() as connection:
            assert connection.execute("SELECT count(*) FROM topics_auditentry").fetchone()[0] > 0
    finally:
        worker.send_signal(signal.SIGKILL)
        worker.wait()


@pytest.mark.django_db
def test_messages_that_piled_up_are_skipped() -> None:
    name = "console.thin"  # each 600 s
    runs: list[int] = []
    client = redis_client.shared(settings.REDIS_URL)

    # An app that became the current one, or stayed known, would take the place of the real task for the tests after this one.
    with Celery("pile", task_cls="topics_project.periodic:RepeatedTask", set_as_current=False) as app:

        @app.task(name=name)
        def step() -> None:
            runs.append(1)

        client.delete(mark_of(name))
        step()  # a direct call runs always, and leaves no mark
        step.push_request(called_directly=False)
        try:
            for _ in range(5):
                step()
            assert len(runs) == 2
            client.delete(mark_of(name))
            step()
            assert len(runs) == 3
            assert 0 < client.pttl(mark_of(name)) <= 480_000
        finally:
            step.pop_request()
            client.delete(mark_of(name))


def test_a_second_beat_waits_until_the_first_is_dead(beats: Callable[..., Beat], queue: redis.Redis) -> None:
    first = beats()
    until(lambda: senders(queue), "the first beat to send")
    second = beats()
    until(lambda: len(sessions()) == 2, "the second beat to ask for its turn")
    for _ in range(3):
        assert until(lambda: senders(queue), "a beat to send") == {first.pid}
    first.send_signal(signal.SIGKILL)
    until(lambda: second.pid in senders(queue), "the second beat to take over")


def test_a_stopped_beat_loses_its_turn_and_notices(beats: Callable[..., Beat], queue: redis.Redis) -> None:
    first = beats()
    until(lambda: senders(queue), "the first beat to send")
    first.send_signal(signal.SIGSTOP)
    second = beats()
    until(lambda: second.pid in senders(queue), "the second beat to take over")
    first.send_signal(signal.SIGCONT)
    until(lambda: len(sessions()) == 2, "the first beat to ask for a turn again")
    senders(queue)
    for _ in range(3):
        assert until(lambda: senders(queue), "a beat to send") == {second.pid}


def test_its_session_ends_when_the_network_is_silent() -> None:
    """Keepalives end no session whose statement is under way: PostgreSQL's host could be gone for a quarter of an hour."""
    turn = SchedulingTurn()
    try:
        turn.ours()
        assert turn.session is not None
        parameters = turn.session.info.get_parameters()
        assert parameters["tcp_user_timeout"] == str(settings.TOPICS_TCP_TIMEOUT_MS)
        assert {"keepalives_idle", "keepalives_interval", "keepalives_count", "connect_timeout"} <= parameters.keys()
    finally:
        turn.release()


def test_every_session_of_the_site_has_the_timeouts_of_the_settings() -> None:
    """Jobs of Spark have no settings, and the embedded PostgreSQL is on this host."""
    others = {"bench", "clients", "embedded", "examples", "pipeline", "tests"}
    folders = [folder for folder in ROOT.iterdir() if folder.name not in others and not folder.name.startswith(".")]
    modules = [file for folder in folders for file in folder.rglob("*.py")]
    opening = [file for file in modules if "psycopg.connect(" in file.read_text()]
    assert opening == [ROOT / "store/sessions.py"]


def test_a_message_fails_if_redis_stands_still(tmp_path: Path) -> None:
    """Kombu has no timeout of its own, so a publish would wait for ever."""
    options = settings.CELERY_BROKER_TRANSPORT_OPTIONS
    with own_redis(tmp_path) as server, Connection(server.url, transport_options=options) as connection:
        queue = connection.SimpleQueue("q")
        queue.put(1)
        with ThreadPoolExecutor() as pool, stopped(server.client.info("server")["process_id"]):
            assert isinstance(pool.submit(queue.put, 2).exception(DEADLINE), redis.TimeoutError)


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="a part of Linux")
def test_every_connection_to_redis_ends_when_the_network_is_silent() -> None:
    """Also while it only listens, or waits for the answer to a command."""

    def timeout_of(client: redis.Redis) -> int:
        connection = client.connection_pool.get_connection()
        return int(connection._sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT))

    async def timeout_of_async(client: redis.asyncio.Redis) -> int:
        connection = await client.connection_pool.get_connection()
        opened = connection._writer.get_extra_info("socket")
        timeout = opened.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)
        await connection.disconnect()
        return int(timeout)

    url, options = settings.REDIS_URL, settings.CELERY_BROKER_TRANSPORT_OPTIONS
    with closing(redis_client.connect(url)) as client, Connection(url, transport_options=options) as broker:
        found = [timeout_of(client), timeout_of(broker.default_channel.client)]
    found.append(asyncio.run(timeout_of_async(redis_client.connect_async(url))))
    found.append(asyncio.run(timeout_of_async(redis.asyncio.Redis(**settings.EVENTSTREAM_REDIS))))
    assert found == [settings.TOPICS_TCP_TIMEOUT_MS] * 4


def test_it_takes_its_turn_again_when_its_session_was_ended(beats: Callable[..., Beat], queue: redis.Redis) -> None:
    beat = beats()
    until(lambda: beat.pid in senders(queue), "the beat to send")
    (before,) = holders()
    with psycopg.connect(settings.DATABASE_URL, autocommit=True) as connection:
        connection.execute("SELECT pg_terminate_backend(%s)", [before])
    until(lambda: holders() not in ([], [before]), "the beat to take its turn again")
    senders(queue)
    until(lambda: beat.pid in senders(queue), "the beat to send again")

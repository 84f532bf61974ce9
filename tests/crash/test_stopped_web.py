"""A web process that stands still in the middle of a write: its topics can be written by the others all the same."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from tests.crash.asking import ask
from tests.instances import Instance, until

WRITERS = 8
# Web processes with an open transaction that holds a lock on a head.
HOLDERS = """
SELECT split_part(application_name, ' ', 3)::int
  FROM pg_stat_activity a
 WHERE application_name LIKE 'topics web %' AND state LIKE 'idle in transaction%'
   AND EXISTS (SELECT FROM pg_locks WHERE pid = a.pid AND relation = 'topics_topichead'::regclass AND mode LIKE 'Row%Lock')
"""


@pytest.fixture
def instance(instances: Callable[..., Instance]) -> Instance:
    # The supervisor leaves the stopped process alone, as that of another host does.
    return instances(WEB_WORKERS="2", TOPICS_IDLE_TRANSACTION_TIMEOUT_MS="2000", TOPICS_FROZEN_SECONDS="0")


def write(instance: Instance, ending: list[bool]) -> None:
    """Changes the config: several statements in each transaction, behind the lock of the head."""
    for ttl_ms in itertools.count(1_000_000):
        if ending:
            return
        with contextlib.suppress(OSError):  # the process that has this connection stands still
            ask(instance.port, "PUT", "/v0/topics/t", {"ttl_ms": ttl_ms}, 1)


def stop_a_holder(instance: Instance, database: psycopg.Connection) -> int:
    """Stop a web process that holds a head in a transaction; returns its pid."""

    def stopped() -> int | None:
        for (pid,) in database.execute(HOLDERS).fetchall():
            os.kill(pid, signal.SIGSTOP)
            if (pid,) in database.execute(HOLDERS).fetchall():
                return pid
            os.kill(pid, signal.SIGCONT)  # it had sent its commit before it stopped
        return None

    return int(until(stopped, "a web process to be caught in a transaction", tick=0))


@pytest.mark.guarantee("S1")
def test_its_topic_can_be_written_again(instance: Instance) -> None:
    capped = {"discard": "reject", "cap_records": 1_000_000}
    assert ask(instance.port, "PUT", "/v0/topics/t", capped).status == 201
    ending: list[bool] = []
    with ThreadPoolExecutor(WRITERS) as threads, instance.connect() as database:
        for _ in range(WRITERS):
            threads.submit(write, instance, ending)
        try:
            pid = stop_a_holder(instance, database)
        finally:
            ending.append(True)
        try:
            until(lambda: appended(instance), "another process to append to the topic")
        finally:
            os.kill(pid, signal.SIGCONT)
    # The one that was stopped is of use again, and what it was at when it was stopped is a 503 at most.
    for _ in range(100):
        assert appended(instance, 20)
    seqs = [
        record["$seq"] for record in ask(instance.port, "POST", "/v0/topics/t/diff", {"limit": 1000}).json["records"]
    ]
    assert seqs == list(range(1, len(seqs) + 1))


def appended(instance: Instance, seconds: float = 2) -> bool:
    """Whether an append goes through. One that the stopped process took is not answered."""
    try:
        return ask(instance.port, "POST", "/v0/topics/t", {"records": [{"data": 2}]}, seconds).status == 200
    except OSError:
        return False

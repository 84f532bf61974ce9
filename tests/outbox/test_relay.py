"""The relay of a running worker, killed at any moment, beside killed clients, prepared transactions and deadlocks."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.instances import RUN_FOLDER, Instance, copy_migrated, free_port, until
from tests.log.writers import read_all

pytestmark = pytest.mark.deep


WRITERS, ROUNDS = 8, 40
RELAYS = "SELECT split_part(application_name, ' ', 3)::int FROM pg_stat_activity WHERE application_name LIKE 'topics relay %'"


@pytest.fixture(scope="module")
def instance() -> Iterator[Instance]:
    """With prepared transactions, which PostgreSQL does not have by default."""
    data = Path(tempfile.mkdtemp(prefix="topics-relay-", dir=os.environ[RUN_FOLDER]))
    copy_migrated(data)
    with (data / "postgresql" / "postgresql.auto.conf").open("a") as file:
        file.write("max_prepared_transactions = 10\n")
    instance = Instance(data, free_port(), {"TOPICS_PROCESSES": "worker", "WORKER_PROCESSES": "1", "WEB_WORKERS": "1"})
    instance.preloaded = True
    try:
        instance.start()
        yield instance
    finally:
        instance.end()
        shutil.rmtree(data, ignore_errors=True)


def arrived(instance: Instance, topic: str) -> list[Any]:
    return [record["data"] for record in read_all(instance.port, topic)]


def wait_until_moved(instance: Instance, topic: str, count: int) -> list[Any]:
    with instance.connect() as connection:
        until(lambda: connection.execute("SELECT FROM outbox_emitted LIMIT 1").fetchone() is None, "an empty outbox")
    found = arrived(instance, topic)
    assert len(found) == count
    return found


def write(instance: Instance, topic: str, who: int, chance: random.Random) -> list[int]:
    """Transactions that commit, roll back, or lose their session. Returns the numbers of those that committed."""
    committed: list[int] = []
    for number in range(who * 1000, who * 1000 + ROUNDS):
        with instance.connect() as session:
            session.execute("BEGIN")
            session.execute("SELECT topics.emit(%s, %s::text::json)", [topic, number])
            session.execute("SELECT pg_sleep(%s)", [chance.random() / 50])
            match chance.randrange(5):
                case 0:
                    session.execute("ROLLBACK")
                case 1:
                    with pytest.raises(psycopg.OperationalError):
                        session.execute("SELECT pg_terminate_backend(pg_backend_pid())")
                case _:
                    session.execute("COMMIT")
                    committed.append(number)
    return committed


@pytest.mark.guarantee("W11")
def test_killed_relays_lose_and_repeat_nothing(instance: Instance) -> None:
    stopping, killed = threading.Event(), 0

    def kill() -> None:
        nonlocal killed
        with instance.connect() as connection:
            while not stopping.wait(0.3):
                for (pid,) in connection.execute(RELAYS).fetchall():
                    os.kill(pid, signal.SIGKILL)
                    killed += 1

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        with ThreadPoolExecutor(WRITERS) as pool:
            work = [pool.submit(write, instance, "killed", who, random.Random(who)) for who in range(WRITERS)]
            committed = [number for each in work for number in each.result()]
    finally:
        stopping.set()
        killer.join()
    assert killed
    found = wait_until_moved(instance, "killed", len(committed))
    assert sorted(found) == sorted(committed)
    for who in range(WRITERS):  # the transactions of one writer do not overlap
        ours = [number for number in found if number // 1000 == who]
        assert ours == sorted(ours)


def test_a_prepared_transaction_arrives_when_it_is_committed(instance: Instance) -> None:
    with instance.connect() as session:
        for name, number in (("kept", 1), ("undone", 2)):
            session.execute("BEGIN")
            session.execute("SELECT topics.emit('prepared', %s::text::json)", [number])
            session.execute(f"PREPARE TRANSACTION '{name}'")
        session.execute("SELECT topics.emit('prepared', '3')")
        assert wait_until_moved(instance, "prepared", 1) == [3]
    with instance.connect() as session:
        session.execute("COMMIT PREPARED 'kept'")
        session.execute("ROLLBACK PREPARED 'undone'")
        session.execute("NOTIFY topics")
    assert wait_until_moved(instance, "prepared", 2) == [3, 1]


def test_the_victim_of_a_deadlock_emits_nothing(instance: Instance) -> None:
    with instance.connect() as one, instance.connect() as other:
        one.execute("CREATE TABLE IF NOT EXISTS shop_row (id int PRIMARY KEY)")
        one.execute("INSERT INTO shop_row VALUES (1), (2)")
        for number, session in enumerate((one, other), 1):
            session.execute("BEGIN")
            session.execute("SELECT FROM shop_row WHERE id = %s FOR UPDATE", [number])
            session.execute("SELECT topics.emit('deadlock', %s::text::json)", [number])

        def cross(session: psycopg.Connection[Any], id: int) -> bool:
            try:
                session.execute("SELECT FROM shop_row WHERE id = %s FOR UPDATE", [id])
            except psycopg.errors.DeadlockDetected:
                session.execute("ROLLBACK")
                return False
            session.execute("COMMIT")
            return True

        with ThreadPoolExecutor(2) as pool:
            won = list(pool.map(cross, (one, other), (2, 1)))
        assert sorted(won) == [False, True]
        assert wait_until_moved(instance, "deadlock", 1) == [won.index(True) + 1]


def test_an_operator_sees_what_waits_and_skips_it(instance: Instance) -> None:
    with instance.connect() as session:
        session.execute("""SELECT topics.emit('stopped', '1', key => 'k'), topics.emit('stopped', '2', key => 'k')""")
        session.execute("NOTIFY topics")
        until(lambda: session.execute("SELECT 1 FROM outbox_stopped").fetchone(), "a stopped topic")
        (row,) = session.execute("SELECT topic, records, code FROM topics.outbox").fetchall()
        assert row == ("stopped", 1, "idempotency_mismatch")
        _, metrics = instance.get("/v0/metrics")
        assert 'topics_outbox_waiting_records{code="idempotency_mismatch",topic="stopped"} 1.0' in metrics
        shell = [*instance.command[:2], "topics", "outbox"]
        told = subprocess.run(
            [*shell, "list"], env=instance.environment, capture_output=True, text=True, check=True
        ).stdout
        assert "idempotency key 'k' and other records" in told
        for words in (["retry"], ["skip", "stopped"]):  # nobody sits at a terminal, so nobody is asked
            subprocess.run([*shell, *words], env=instance.environment, stdin=subprocess.DEVNULL, check=True)
        until(lambda: session.execute("SELECT FROM outbox_stopped").fetchone() is None, "the topic to go on")
    assert arrived(instance, "stopped") == [1]

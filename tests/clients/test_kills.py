"""A producer, a worker, a group and a watch of the Python client at a server that is killed, stopped and started again."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from topics_client import Topics

from tests.deadlines import DEADLINE
from tests.examples import THOROUGH
from tests.instances import Instance, until
from tests.watch.wire import Api, new_name

pytestmark = pytest.mark.deep(45)


ROUNDS = 2 * THOROUGH
EACH = 60  # records and jobs of a round


def test_each_record_is_seen_once_and_each_job_is_done(instances: Callable[..., Instance]) -> None:
    server, log, queue = instances(), new_name(), new_name()
    api = Api(server.port)
    assert api.call("PUT", f"/v0/topics/{log}", {"durability": "fsync"}).status == 201
    assert api.call("PUT", f"/v0/topics/{queue}", {"durability": "fsync", "type": "queue"}).status == 201
    appended: list[int] = []
    watched: list[int] = []
    grouped: list[int] = []
    done: set[int] = set()
    topics = Topics(server.url)
    worker = topics.worker(queue, concurrency=4, lease_ms=2000)
    members = [topics.topic(log).group("billing", partitions=8, session_ms=3000, commit_ms=0) for _ in range(2)]

    @worker
    def work(job: Any) -> None:
        done.add(job.data)

    def watch() -> None:
        for record in topics.watch(log):
            watched.append(record.seq)
            if len(watched) == ROUNDS * EACH:
                return

    def consume(member: Any) -> None:
        for record in member:
            grouped.append(record.seq)

    threads = [threading.Thread(target=consume, args=(member,)) for member in members]
    threads += [threading.Thread(target=each, daemon=True) for each in (worker.run, watch)]
    for thread in threads:
        thread.start()
    for turn in range(ROUNDS):
        killer = threading.Thread(target=server.kill if turn % 2 == 0 else server.stop)
        for n in range(turn * EACH, (turn + 1) * EACH):
            if n == turn * EACH + EACH // 2:
                killer.start()
                killer.join()
                starter = threading.Thread(target=server.start)
                starter.start()
            topics.topic(queue).append(n)
            appended.append(topics.topic(log).append(n, tag=f"k:{n % 5}").seq)
        starter.join()
    until(lambda: len(watched) == ROUNDS * EACH, "the watch")
    until(lambda: set(grouped) == set(appended), "the group")
    until(lambda: len(done) == ROUNDS * EACH, "the worker")
    worker.stop()
    for member in members:
        member.stop()
    api.append(log, "last")  # ends the waits of the members
    for thread in threads:
        thread.join(DEADLINE)
        assert not thread.is_alive()
    assert watched == appended
    assert done == set(range(ROUNDS * EACH))
    # A kill takes the commit of the last record of each share at most, and a session may end meanwhile.
    assert len(grouped) - len(appended) <= ROUNDS * 8
    topics.close()

"""Somebody holds a topic's head and does not let go: reads of other topics do not wait for it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.api.clients import HttpClient
from tests.instances import Instance, until

pytestmark = pytest.mark.deep


HELD = 6  # dests whose heads are locked: more than the process has connections for reads of dests
READS = 4  # at once, of each
LOCK_MS = 4000
LOCK = "SELECT FROM topics_topichead JOIN topics_topic t ON t.id = topic_id WHERE name LIKE 'held-%' FOR UPDATE"
WAITING = "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND application_name LIKE 'topics web %'"


@pytest.fixture
def instance(instances: Callable[..., Instance]) -> Instance:
    return instances(WEB_WORKERS="1", TOPICS_LOCK_TIMEOUT_MS=str(LOCK_MS))


@pytest.mark.guarantee("S1")
def test_reads_of_other_topics_go_on(instance: Instance) -> None:
    live = HttpClient(instance.port)
    for dest in [*(f"held-{number}" for number in range(HELD)), "free"]:
        live.put(f"/v0/routers/{dest}", {"source": "source", "dest": dest})
    live.append("source", 1)
    until(lambda: live.diff("free").json["head_seq"] == 1, "the first forward")
    with instance.connect() as database, instance.connect() as other, ThreadPoolExecutor(HELD * READS) as threads:
        with database.transaction():
            database.execute(LOCK)
            live.append("source", 2)
            reads = [threads.submit(live.diff, f"held-{number % HELD}") for number in range(HELD * READS)]
            until(lambda: other.execute(WAITING).fetchall(), "a read to wait for the lock")
            meanwhile = 0  # rounds of other reads that ended while each of these waited
            while not all(read.done() for read in reads):
                for topic in ("source", "free"):
                    assert [record["data"] for record in live.diff(topic).json["records"]] == [1, 2]
                meanwhile += not any(read.done() for read in reads)
            # They have waited for as long as a lock may be waited for, and others not.
            assert {(read.result().status, read.result().code) for read in reads} == {(503, "not_ready")}
            assert meanwhile > 0
        for number in range(HELD):
            answer = until(lambda: (reply := live.diff(f"held-{number}")).status == 200 and reply.json, "the dest")  # noqa: B023
            assert [record["data"] for record in answer["records"]] == [1, 2]

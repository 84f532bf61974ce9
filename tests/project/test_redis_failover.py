"""A failover of Redis whose former master continues as a replica: it answers, keeps its connections, and takes no writes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from django.conf import settings

from tests.clients.proxy import Proxy, proxy
from tests.instances import WHOLE, Instance, until
from tests.project.test_doctor import lines
from tests.redis_servers import OwnRedis, own_redis
from tests.watch.wire import Api

WAITERS = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND objid = 7001 AND NOT granted"
OFTEN_SECONDS = 5.0  # between two runs of a task of beat that the test waits for


class Pair:
    """Two servers of Redis behind an address that leads new connections to the master."""

    def __init__(self, address: Proxy, first: OwnRedis, second: OwnRedis) -> None:
        self.address, self.first, self.second = address, first, second
        self.url = f"redis://127.0.0.1:{address.url.rpartition(':')[2]}/0"
        second.client.replicaof("127.0.0.1", str(first.port))
        until(lambda: second.client.info("replication")["master_link_status"] == "up", "the replica to follow")

    def fail_over(self) -> None:
        self.second.client.replicaof("NO", "ONE")
        self.address.port = self.second.port
        self.first.client.replicaof("127.0.0.1", str(self.second.port))


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    with own_redis(tmp_path) as first, own_redis(tmp_path) as second, proxy(first.port) as address:
        yield Pair(address, first, second)


def test_everything_follows_to_the_new_master(pair: Pair, instances: Callable[..., Instance]) -> None:
    server = instances(**WHOLE, REDIS_URL=pair.url)
    api, prefix = Api(server.port), server.redis_prefix
    api.done("PUT", "/v0/routers/r", {"source": "a", "dest": "b"})

    def is_ready() -> bool:
        return "degraded" not in api.done("GET", "/v0/ready")

    def forwarded() -> bool:
        return bool(api.done("GET", "/v0/topics/b")["count"] == api.done("GET", "/v0/topics/a")["count"])

    api.append("a", 1)
    until(forwarded, "the router")
    until(is_ready, "all processes")
    often = [entry for entry in settings.CELERY_BEAT_SCHEDULE.values() if entry["schedule"] <= OFTEN_SECONDS]
    marks = [f"{prefix}ran:{entry['task']}" for entry in often]
    until(lambda: any(pair.first.client.exists(mark) for mark in marks), "a task of beat")
    pair.fail_over()
    pair.second.client.delete(*marks)
    for mark in marks:
        until(lambda mark=mark: pair.second.client.exists(mark), f"{mark} at the new master")
    api.append("a", 2)
    until(forwarded, "the router")
    until(is_ready, "Redis to be as before")
    assert lines(server)["Redis"].startswith("ok ")
    for log in (server.data / "logs").glob("*.log"):
        assert "Traceback" not in log.read_text(), log.read_text()


def test_a_worker_whose_processes_are_all_busy_follows_too(pair: Pair, instances: Callable[..., Instance]) -> None:
    """Its tasks begin before the failover and end after it, so the former master refuses to note their ends."""
    server = instances(TOPICS_PROCESSES="worker,beat", WORKER_PROCESSES="1", REDIS_URL=pair.url)
    api, mark = Api(server.port), f"{server.redis_prefix}ran:topics.reclaim"
    api.done("PUT", "/v0/routers/r", {"source": "a", "dest": "b"})
    until(lambda: pair.first.client.exists(mark), "a task of beat")
    with server.connect() as holder:
        holder.execute("SELECT pg_advisory_lock(7001)")  # a step of a router waits for it
        api.append("a", 1)
        until(lambda: holder.execute(WAITERS).fetchone(), "a task to wait")
        pair.fail_over()
    log = server.data / "logs" / "worker.log"
    until(lambda: "Couldn't ack" in log.read_text(), "a message whose end is not noted")
    pair.second.client.delete(mark)
    until(lambda: pair.second.client.exists(mark), "a task of beat at the new master")

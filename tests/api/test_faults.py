"""PostgreSQL or Redis away: what still works, what is told, and that it heals by itself."""

import contextlib
import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from tests.api.doors import Lane
from tests.instances import Instance, until


@contextlib.contextmanager
def without(server: Instance, pid: int, number: signal.Signals) -> Iterator[None]:
    """One embedded server gone for as long as this lasts: its guard, which would bring it back, sleeps."""
    guards = server.pids("topics_project.embedded")
    for guard in guards:
        os.kill(guard, signal.SIGSTOP)
    try:
        os.kill(pid, number)
        yield
    finally:
        for guard in guards:
            os.kill(guard, signal.SIGCONT)


@pytest.mark.parametrize("fast_lane", ["1", "0"])
def test_postgresql_goes_and_comes_back(instances, fast_lane: str) -> None:
    server = instances(TOPICS_FAST_LANE=fast_lane)
    door = Lane(server.port)
    door.append("t", 1)
    postmaster = int((server.data / "postgresql" / "postmaster.pid").read_text().split()[0])

    def calls() -> list[Any]:
        return [
            door.append("t", 2),
            door.append("new", 2),
            door.diff("t"),
            door.get("/v0/topics/t"),
            door.get("/v0/topics"),
            door.get("/v0/topics/t/records"),
            door.get("/v0/topics/t/records/1"),
            door.put("/v0/topics/t", {}),
            door.put("/v0/topics/t/cursors/c", {"seq": 1}),
            door.post("/v0/topics/t/delete", {"before_seq": 1}),
            door.get("/v0/metrics"),
            door.get("/v0/ready"),
            door.get("/readyz"),
            door.delete("/v0/topics/none"),
        ]

    assert {reply.status for reply in calls()} <= {200, 201}
    with without(server, postmaster, signal.SIGINT):
        until(lambda: door.get("/v0/ready").status == 503, "PostgreSQL to be gone")
        for _ in range(2):
            for reply in calls():
                assert (reply.status, reply.code) == (503, "not_ready")
                assert reply.headers["retry-after"] == "1"
        assert door.get("/v0/health").status == 200
    until(lambda: door.get("/v0/ready").status == 200, "PostgreSQL to be back")

    def healed() -> bool:
        """Each thread and each connection finds out for itself."""
        return all({reply.status for reply in calls()} <= {200, 201} for _ in range(20))

    until(healed, "every process to have connected again")
    seqs = [record["$seq"] for record in door.diff("t", limit=1000).json["records"]]
    assert seqs == list(range(1, len(seqs) + 1))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_redis_goes_or_hangs_and_appends_and_reads_still_work(instances, number: signal.Signals) -> None:
    server = instances()
    door = Lane(server.port)
    door.put("/v0/routers/r", {"source": "a", "dest": "b"})
    door.append("a", 0)
    (redis,) = server.pids("redis-server")
    with without(server, redis, number):
        for n in range(1, 30):
            assert door.append("a", n).status == 200
            assert door.diff("a").json["head_seq"] == n + 1
        # A reader moves the router itself, since no worker hears of it.
        assert door.diff("b").json["head_seq"] == 30
        assert door.get("/v0/ready").status == 200
        assert door.put("/v0/topics/c").status == 201
        if number is signal.SIGSTOP:
            os.kill(redis, signal.SIGCONT)
    door.append("a", 30)
    until(lambda: door.get("/v0/routers/r").json["lag"] == 0, "forwarding to catch up")
    assert door.diff("b").json["head_seq"] == 31

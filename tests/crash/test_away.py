"""PostgreSQL dies or stops under load: every request is answered all the same, and the service heals by itself."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from tests.crash.asking import Call, ask, load
from tests.instances import WHOLE, Instance, until

pytestmark = pytest.mark.deep(33)


# What reaches PostgreSQL on each of a process's ways: batches, readers, readers that forward first, and Django's threads.
CALLS: dict[str, Callable[[int], Call]] = {
    "append": lambda n: ("POST", f"/v0/topics/t{n % 3}", {"records": [{"data": n}]}),
    "durable": lambda n: ("POST", "/v0/topics/durable", {"records": [{"data": n}]}),
    "diff": lambda n: ("POST", "/v0/topics/t0/diff", {"from_seq": 0, "limit": 10}),
    "dest": lambda n: ("POST", "/v0/topics/dest/diff", {"from_seq": 0, "limit": 10}),
    "keyed": lambda n: (
        "POST",
        "/v0/topics/keyed",
        {"records": [{"data": n}], "idempotency_key": f"{os.urandom(8).hex()}"},
    ),
    "get": lambda n: ("GET", "/v0/topics/t0", None),
}
KILLS = int(os.environ.get("TESTS_KILLS", "3"))  # of a backend; more of them by hand


@pytest.fixture
def instance(instances: Callable[..., Instance]) -> Instance:
    made = instances(**WHOLE)
    for name, config in (("t0", {}), ("t1", {}), ("t2", {}), ("keyed", {}), ("durable", {"durability": "fsync"})):
        assert ask(made.port, "PUT", f"/v0/topics/{name}", config).status == 201
    assert ask(made.port, "PUT", "/v0/routers/r", {"source": "t0", "dest": "dest"}).status == 201
    return made


def web_backends(instance: Instance) -> list[int]:
    """The backends that serve the web processes, those that work right now first."""
    with contextlib.suppress(psycopg.Error), instance.connect() as database:
        named = "SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'topics web %' ORDER BY state <> 'active', random()"
        return [pid for (pid,) in database.execute(named).fetchall()]
    return []  # PostgreSQL recovers just now


@pytest.mark.guarantee("S1")
def test_a_backend_that_is_killed_under_load_leaves_no_request_without_an_answer(instance: Instance) -> None:
    with load(instance.port, 40, CALLS) as running:
        for _ in range(KILLS):
            running.until_more(200, 5)
            os.kill(until(lambda: web_backends(instance), "a backend")[0], signal.SIGKILL)
            until(instance.is_ready, "the server to be ready again")
        running.until_more(200, 50)
    assert running.late == []
    assert {status for _, status in running.statuses} <= {200, 201, 503}, running.statuses


@contextlib.contextmanager
def stopped(instance: Instance) -> Iterator[list[int]]:
    """Every process of PostgreSQL stopped, and its guard, which would end what does not answer."""
    postmaster = int((instance.data / "postgresql" / "postmaster.pid").read_text().split()[0])
    pids = [*instance.pids("-m embedded"), postmaster, *children(postmaster)]
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
    try:
        yield pids
    finally:
        for pid in reversed(pids):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def children(parent: int) -> list[int]:
    with open(f"/proc/{parent}/task/{parent}/children") as file:
        return [int(pid) for pid in file.read().split()]


SOON = 10.0  # seconds after which an answer is late; three where the machine has nothing else to do
EVERY_WAY: list[tuple[str, str, Any]] = [
    ("GET", "/v0/ready", None),
    ("GET", "/readyz", None),
    *(call(1) for call in CALLS.values()),
    ("PUT", "/v0/topics/t0", {}),
    ("GET", "/v0/topics/t0/records", None),
    ("GET", "/v0/topics/t0/records?from_seq=1000000&wait_ms=5000", None),
    ("GET", "/v0/metrics", None),
    ("DELETE", "/v0/topics/nothing", None),
]


@pytest.mark.guarantee("S1")
@pytest.mark.parametrize("end", ["continued", "killed"])
def test_a_postgresql_that_stands_still_is_told_soon(instances: Callable[..., Instance], end: str) -> None:
    instance = instances(TOPICS_PROCESSES="worker,beat", WEB_THREADS="4")
    ask(instance.port, "PUT", "/v0/topics/t0", {})
    ask(instance.port, "PUT", "/v0/routers/r", {"source": "t0", "dest": "dest"})
    for method, path, body in EVERY_WAY:
        ask(instance.port, method, path, body)
    with stopped(instance) as pids, load(instance.port, 10, CALLS, threads=3) as running:
        # The first of them find out; whoever comes later is told at once.
        for method, path, body in EVERY_WAY * 3:
            answer = ask(instance.port, method, path, body, SOON)
            assert (answer.status, answer.json["error"]["code"]) == (503, "not_ready"), (method, path)
        assert ask(instance.port, "GET", "/v0/health", None, 10).status == 200
        running.until_more(503, 5)
        if end == "killed":
            for pid in pids:
                if pid not in instance.pids("-m embedded"):
                    os.kill(pid, signal.SIGKILL)
    assert running.late == []
    until(instance.is_ready, "the server to be ready again", 60)
    with load(instance.port, 30, CALLS) as running:
        running.until_more(200, 20)
    assert running.late == []
    for method, path, body in EVERY_WAY:
        assert ask(instance.port, method, path, body).status == 200, (method, path)

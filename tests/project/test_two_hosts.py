"""Two sets of processes on one database, as on two hosts: the second joins, and takes nothing from the first."""

from __future__ import annotations

import json
import os
import signal
import sys
import urllib.request
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from store.serving import LOCK
from tests.deadlines import DEADLINE
from tests.instances import ROOT, Instance, until
from tests.preloaded import run

SERVED = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = %s AND mode = 'ShareLock' AND granted"


def post(instance: Instance, path: str, body: Any, method: str = "POST") -> Any:
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(instance.url + path, json.dumps(body).encode(), headers, method=method)
    with urllib.request.urlopen(request, timeout=DEADLINE) as response:
        return json.load(response)


def records(instance: Instance) -> list[Any]:
    return [record["data"] for record in post(instance, "/v0/topics/now/diff", {})["records"]]


@pytest.fixture
def first(instances: Callable[..., Instance]) -> Instance:
    """An instance with records in an `ephemeral` topic."""
    first = instances()
    post(first, "/v0/topics/now", {"durability": "ephemeral"}, "PUT")
    post(first, "/v0/topics/now", {"records": [{"data": 1}, {"data": 2}]})
    return first


def joining(first: Instance) -> dict[str, str]:
    """The settings of a host that uses the first one's servers."""
    servers = first.servers
    return {"DATABASE_URL": servers.database_url, "REDIS_URL": servers.redis_url, "SECRET_KEY": first.secret}


def started(first: Instance) -> str:
    """What `manage.py topics_started` says on another host."""
    argv = [sys.executable, "manage.py", "topics_started"]
    environment = {**first.environment, **joining(first)}
    return run(argv, environment, ROOT).stdout


@pytest.mark.guarantee("W4")
def test_a_second_host_joins_and_ephemeral_topics_stay(first: Instance, instances: Callable[..., Instance]) -> None:
    second = instances(**joining(first))
    assert "other processes already serve this database" in second.output
    assert records(first) == records(second) == [1, 2]
    post(second, "/v0/topics/now", {"records": [{"data": 3}]})
    assert records(first) == [1, 2, 3]
    assert started(first) == "a server already uses this database: ephemeral records stay\n"
    second.stop()
    assert records(first) == [1, 2, 3]


def test_when_the_last_web_server_was_killed_the_service_starts_anew(first: Instance) -> None:
    assert first.process is not None
    with psycopg.connect(joining(first)["DATABASE_URL"], autocommit=True) as connection:

        def connections_that_serve() -> int:
            row = connection.execute(SERVED, [LOCK]).fetchone()
            assert row is not None
            return int(row[0])

        assert connections_that_serve()
        first.process.send_signal(signal.SIGSTOP)  # or it would start the web server again
        for pid in first.pids("topics_project.web"):
            os.kill(pid, signal.SIGKILL)
        until(lambda: not connections_that_serve(), "PostgreSQL to notice")
        assert started(first) == "deleted 2 ephemeral records\n"
    first.process.send_signal(signal.SIGCONT)
    until(first.is_ready, "the web server to be started again")
    assert records(first) == []

"""PgBouncer between the product and PostgreSQL: session mode works, and a mode that shares sessions is refused in one line."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from base.processes import die_with_parent
from tests.api.clients import HttpClient
from tests.deadlines import DEADLINE
from tests.docs.process import ask, environment
from tests.instances import ROOT, Instance, free_port, start, until
from tests.preloaded import run
from topics_project.supervisor import PROCESSES

SHARED = "topics: DATABASE_URL is a pooler that shares PostgreSQL's sessions: set its pool"
CONF = """
[databases]
topics = host=127.0.0.1 port={port} dbname=topics user=topics password={password}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {listen}
unix_socket_dir =
auth_type = any
pool_mode = {mode}
default_pool_size = 100
"""
pytestmark = pytest.mark.skipif(
    shutil.which("pgbouncer") is None, reason="NOT TRIED: there is no pgbouncer here (apt-get install pgbouncer)"
)


@pytest.fixture(scope="module")
def servers() -> Iterator[Instance]:
    """An instance for its PostgreSQL and its Redis."""
    with start() as instance:
        yield instance


@contextlib.contextmanager
def pgbouncer(servers: Instance, mode: str, folder: Path, listen: int = 0) -> Iterator[dict[str, str]]:
    """The settings of a host that reaches the servers through PgBouncer in that mode. `listen`: its port."""
    port = re.search(r"127\.0\.0\.1:(\d+)", servers.servers.jdbc_url)
    assert port
    listen, parent = listen or free_port(), os.getpid()
    file = folder / "pgbouncer.ini"
    file.write_text(CONF.format(port=port[1], password=servers.servers.jdbc_password, listen=listen, mode=mode))
    # It does not run as root: it gives that up when it has read its file.
    user = ["-u", "nobody"] if os.geteuid() == 0 else []
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            ["pgbouncer", *user, str(file)], stdout=log, stderr=log, preexec_fn=lambda: die_with_parent(parent)
        )

    def listens() -> bool:
        assert process.poll() is None, (folder / "log").read_text()
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", listen)) == 0

    try:
        until(listens, "PgBouncer to listen")
        yield through_port(servers, listen)
    finally:
        process.kill()
        process.wait()


def through_port(servers: Instance, listen: int) -> dict[str, str]:
    return {
        "DATABASE_URL": f"postgresql://topics@127.0.0.1:{listen}/topics",
        "REDIS_URL": servers.servers.redis_url,
        "SECRET_KEY": (servers.data / "secret-key").read_text().strip(),
    }


def test_in_session_mode_it_works(servers: Instance, instances: Callable[..., Instance], tmp_path: Path) -> None:
    with pgbouncer(servers, "session", tmp_path) as through:
        live = HttpClient(instances(**through).port)
        assert live.put("/v0/topics/orders", {}).status == 201
        assert live.put("/v0/routers/r", {"source": "orders", "dest": "copy"}).status == 201
        for number in range(20):
            assert live.append("orders", number, idempotency_key=f"k{number}").status == 200
        assert [record["data"] for record in live.diff("copy").json["records"]] == list(range(20))


@pytest.mark.parametrize("mode", ["transaction", "statement"])
@pytest.mark.parametrize("command", [["prepare"], ["run", "web"]], ids=" ".join)
def test_a_mode_that_shares_sessions_is_refused(
    servers: Instance, mode: str, command: list[str], tmp_path: Path
) -> None:
    with pgbouncer(servers, mode, tmp_path) as through:
        argv = [sys.executable, str(ROOT / "manage.py"), *command]
        refused = run(argv, environment(tmp_path / "data", **through))
    assert refused.returncode == 1
    assert refused.stderr.startswith(SHARED)
    assert refused.stderr.count("\n") == 1


def test_a_process_that_started_before_the_pooler_is_refused_too(servers: Instance, tmp_path: Path) -> None:
    listen, port = free_port(), free_port()
    env = environment(tmp_path / "data", PORT=str(port), **through_port(servers, listen))
    with contextlib.ExitStack() as stack:
        started = {name: stack.enter_context(process(tmp_path / name, name, env)) for name in PROCESSES}
        until(lambda: ask(port, "/v0/health") == 200, "the web server, which does not wait")
        for name in started:
            until(lambda name=name: "waiting for PostgreSQL" in (tmp_path / name).read_text(), f"{name} to wait")
        stack.enter_context(pgbouncer(servers, "transaction", tmp_path, listen))
        for name, each in started.items():
            assert each.wait(DEADLINE) == 1, name
            said = (tmp_path / name).read_text()
            assert said.splitlines()[-1].startswith(SHARED), said
            assert "Traceback" not in said


@contextlib.contextmanager
def process(output: Path, name: str, env: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    with output.open("wb") as file:
        argv = [sys.executable, str(ROOT / "manage.py"), "run", name]
        started = subprocess.Popen(argv, env=env, stdout=file, stderr=file)
    try:
        yield started
    finally:
        started.terminate()
        started.wait()

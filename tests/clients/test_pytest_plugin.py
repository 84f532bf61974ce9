"""The plugin of the Python client for pytest: a server for a session, and topics of its own for each test."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.deadlines import DEADLINE
from tests.instances import ROOT, Instance
from tests.watch.wire import Api

TESTS = """
import os
from topics_client import Topics

def test_one(topics):
    topics.topic("orders").append(1)
    assert [record.data for record in topics.topic("orders").read().records] == [1]

def test_other(topics, topics_server):
    assert os.environ["TOPICS_URL"] == topics_server
    topics.topic("orders").append(2)
    name = topics.topic("orders").name
    assert [record.data for record in Topics().topic(name).read().records] == [2]
    assert next(topics.watch("orders", start={"orders": 0})).data == 2
    topics.topic("kept").append(3)
"""


def run(folder: Path, tests: str = TESTS, **environment: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_it.py").write_text(tests)
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    plugins = ["-p", "topics_client.pytest_plugin", "-p", "no:django"]
    environment = {**kept, "PYTHONPATH": str(ROOT / "clients" / "python"), **environment}
    command = [sys.executable, "-m", "pytest", "-q", *plugins, str(folder)]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=2 * DEADLINE)


def test_it_starts_a_server_for_the_session_that_takes_nothing_of_the_application(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text(f"[pytest]\ntopics_command = {sys.executable} {ROOT}/manage.py run\n")
    of_application = {"DATABASE_URL": "postgresql://shop@127.0.0.1:1/shop", "REDIS_URL": "redis://127.0.0.1:1/0"}
    of_application |= {"SECRET_KEY": "short", "ALLOWED_HOSTS": "shop.example", "TOPICS_API_KEYS": "a-secret:read"}
    done = run(tmp_path, **of_application, DJANGO_SETTINGS_MODULE="shop.settings")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout


def test_it_starts_the_server_of_its_own_environment(tmp_path: Path) -> None:
    """There, the command `topics` can be that of the client, which has no `run`."""
    path = f"{ROOT / 'clients' / 'python'}{os.pathsep}{ROOT}"
    done = run(tmp_path, "def test_it(topics): topics.topic('t').append(1)", PYTHONPATH=path)
    assert "1 passed" in done.stdout, done.stdout + done.stderr


def test_it_uses_a_server_that_runs_and_leaves_nothing_there(server: Instance, tmp_path: Path) -> None:
    api, of_tests = Api(server.port), "/v0/topics?prefix=test-"
    before = api.call("GET", of_tests).body["topics"]  # of other tests
    done = run(tmp_path, TOPICS_URL=server.url)
    assert "2 passed" in done.stdout
    assert api.call("GET", of_tests).body["topics"] == before


def test_it_says_what_is_missing(tmp_path: Path) -> None:
    done = run(tmp_path, "def test_it(topics): pass", PATH="/nowhere")
    assert "topics is not here: pip install 'topics[embedded]', or set TOPICS_URL or topics_command" in done.stdout

"""Fixtures of pytest: a server for the test session, and topics of its own for each test.

The server is the one of TOPICS_URL. Without it, the plugin starts the one of this environment (`pip install 'topics[embedded]'`),
or one with the command of the ini option `topics_command`. It has its own folder, servers and port, and ends with the session.
"""

from __future__ import annotations

import os
import secrets
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import httpx
import pytest

from topics_client.client import Topics
from topics_client.topic import Topic

START_SECONDS, END_SECONDS = 120, 30
# Variables of the application under test. The server would take them for its own, and create its tables in that database.
OF_APPLICATION = (
    *("DATABASE_URL", "DATABASE_PASSWORD", "REDIS_URL", "SECRET_KEY", "TOPICS_API_KEYS"),
    *("ALLOWED_HOSTS", "CSRF_TRUSTED_ORIGINS", "CORS_ALLOWED_ORIGINS", "DEBUG", "DJANGO_SETTINGS_MODULE"),
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("topics_command", "starts a topics server on HOST and PORT (default: topics run)", default="")


def command_of(config: pytest.Config) -> list[str]:
    """Returns the command that starts a server. The command `topics` of this client has no `run`, and can hide the server's."""
    if given := config.getini("topics_command"):
        return shlex.split(given)
    return [sys.executable, "-m", "topics_project", "run"] if find_spec("topics_project") else ["topics", "run"]


class TopicsOfTest(Topics):
    """A client that puts a prefix before each name of a topic that it gets, so that tests share a server.

    Routers and webhooks keep the names that they get.
    """

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.prefix = f"test-{secrets.token_hex(6)}."

    def topic(self, name: str) -> Topic[Any]:
        return super().topic(self.prefix + name)

    def watch(self, *topics: str, **options: Any) -> Any:
        if isinstance(start := options.get("start"), dict):
            options["start"] = {self.prefix + name: seq for name, seq in start.items()}
        return super().watch(*(self.prefix + name for name in topics), **options)


@pytest.fixture(scope="session")
def topics_server(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a server. It is TOPICS_URL while the session runs, so the code under test finds it, too."""
    if url := os.environ.get("TOPICS_URL"):
        yield url
        return
    folder = tmp_path_factory.mktemp("topics")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    dropped = {*OF_APPLICATION, *(f"{name}_FILE" for name in OF_APPLICATION)}
    environment = {name: value for name, value in os.environ.items() if name not in dropped}
    environment |= {"HOST": "127.0.0.1", "PORT": str(port), "TOPICS_DATA": str(folder / "data")}
    command = command_of(pytestconfig)
    with (folder / "output").open("wb") as output:
        try:
            process = subprocess.Popen(command, env=environment, stdout=output, stderr=output, start_new_session=True)
        except FileNotFoundError:
            pytest.fail(
                f"{command[0]} is not here: pip install 'topics[embedded]', or set TOPICS_URL or topics_command"
            )
    try:
        wait_for(url, process, folder / "output")
        os.environ["TOPICS_URL"] = url
        yield url
    finally:
        os.environ.pop("TOPICS_URL", None)
        process.terminate()
        try:
            process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:  # and what it has started, which is in its session
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def wait_for(url: str, process: subprocess.Popen[bytes], output: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            if httpx.get(f"{url}/v0/ready").status_code == 200:
                return
        except httpx.HTTPError:
            pass
        time.sleep(0.1)
    pytest.fail(f"the topics server did not start: {output.read_text()[-2000:]}")


@pytest.fixture
def topics(topics_server: str) -> Iterator[TopicsOfTest]:
    """A client whose topics have a prefix of this test alone (`topics.prefix`). They are deleted in the end."""
    client = TopicsOfTest(topics_server)
    with client:
        yield client
        for each in client.topics(client.prefix):
            Topics.topic(client, each["topic"]).delete()

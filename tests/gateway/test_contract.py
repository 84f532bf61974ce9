"""The wire's own tests, and the bus's, unchanged: through a virtual cluster of one server, and of two."""

import os
import subprocess
import sys

import pytest

from tests.instances import ROOT, RUN_FOLDER

FILES = {
    "the log": ("tests/api/test_append.py", "tests/api/test_diff.py", "tests/api/test_list_topics.py"),
    "HTTP": ("tests/api/test_http.py",),
    "watches": ("tests/watch/test_sessions.py", "tests/watch/test_eventstream.py"),
    "the bus": ("tests/push/test_contract.py",),
}


@pytest.mark.parametrize(
    ("what", "servers"), [("the log", "1"), ("the log", "2"), ("HTTP", "1"), ("watches", "2"), ("the bus", "2")]
)
def test_the_contract_holds_through_a_gateway(what: str, servers: str) -> None:
    # A test run of its own, with a folder of its own.
    inherited = {name: value for name, value in os.environ.items() if name != RUN_FOLDER and "PYTEST" not in name}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "tests.gateway.through",
        "-p",
        "no:cacheprovider",
        *FILES[what],
    ]
    done = subprocess.run(
        command, cwd=ROOT, env={**inherited, "GATEWAY_OF": servers}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-5000:]

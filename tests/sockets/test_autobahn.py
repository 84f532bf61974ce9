"""Autobahn's test suite for WebSockets, where its program `wstest` is installed.

The suite (github.com/crossbario/autobahn-testsuite) sends its cases to an echo (echo.py). `AUTOBAHN_CASES=5.*,6.*` names some of
the cases. The cases with binary messages are left out, because a socket takes text alone.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deadlines import DEADLINE
from tests.instances import ROOT, Instance, free_port, is_free, until
from tests.processes import child_process

BINARY = ["1.2.*", "9.2.*", "9.4.*", "9.6.*", "9.8.*", "12.2.*", "12.3.*", "12.5.*"]  # their messages are binary
# NON-STRICT and INFORMATIONAL name a choice that RFC 6455 leaves. UNIMPLEMENTED: compression is off.
PASSED = {"OK", "NON-STRICT", "INFORMATIONAL", "UNIMPLEMENTED"}


@pytest.fixture(params=["0", "1"], ids=["plain", "deflate"])
def echo(server: Instance, request: pytest.FixtureRequest) -> Iterator[str]:
    """The URL of an echo."""
    port, stores = free_port(), server.servers
    own = {
        "PORT": str(port),
        "WEB_WORKERS": "1",
        "TOPICS_WS_DEFLATE": request.param,
        "SECRET_KEY": secrets.token_hex(32),
    }
    urls = {"DATABASE_URL": stores.database_url, "REDIS_URL": stores.redis_url}
    environment = {**server.environment, **urls, **own}
    with child_process([sys.executable, "-m", "tests.sockets.echo"], env=environment, cwd=ROOT) as process:
        until(lambda: not is_free(port) or process.poll() is not None, "the echo")
        assert process.poll() is None
        yield f"ws://127.0.0.1:{port}/v0/ws"
        process.terminate()


@pytest.mark.skipif(
    shutil.which("wstest") is None, reason="wstest is not here: pip install autobahntestsuite, on Python 2.7"
)
def test_the_suite_finds_no_fault(echo: str, tmp_path: Path) -> None:
    asked = {
        "outdir": str(tmp_path / "reports"),
        "servers": [{"agent": "topics", "url": echo}],
        "cases": os.environ.get("AUTOBAHN_CASES", "*").split(","),
        "exclude-cases": BINARY,
    }
    (tmp_path / "fuzzingclient.json").write_text(json.dumps(asked))
    command = ["wstest", "-m", "fuzzingclient", "-s", str(tmp_path / "fuzzingclient.json")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30 * DEADLINE, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "reports" / "index.json").read_text())["topics"]
    assert len(found) > 0
    failed = [f"{case} {each['behavior']}" for case, each in found.items() if each["behavior"] not in PASSED]
    assert failed == []

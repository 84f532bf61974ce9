"""A web process as a supervisor of one's own starts it, on servers that are given."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from tests.deadlines import DEADLINE
from tests.instances import OURS, ROOT, free_port, until


def environment(data: Path, **settings: str) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if name not in OURS}
    return {**inherited, "TOPICS_DATA": str(data), "WEB_WORKERS": "1", **settings}


@contextlib.contextmanager
def web(data: Path, **settings: str) -> Iterator[int]:
    """`manage.py run web` with these settings. Yields its port once it is ready."""
    port = free_port()
    argv = [sys.executable, str(ROOT / "manage.py"), "run", "web"]
    with subprocess.Popen(argv, env=environment(data, PORT=str(port), **settings)) as process:
        try:
            until(lambda: process.poll() is not None or ask(port, "/v0/ready") == 200, "the web process")
            assert process.poll() is None
            yield port
        finally:
            process.terminate()


def ask(port: int, path: str, secret: str = "") -> int:
    """The status of a GET; 0 where nobody answers."""
    headers = {"Authorization": f"Bearer {secret}"} if secret else {}
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=DEADLINE) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code
    except OSError:
        return 0

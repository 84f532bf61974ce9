"""Runs a page's curl lines as they are printed, in a shell, against a running instance."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.instances import OURS, Instance

MARK = "\u0001"  # ends each answer, before its status
CURLRC = f'silent\nshow-error\nmax-time = 30\nwrite-out = "{MARK}%{{http_code}}{MARK}"\n'


@dataclass
class Answer:
    status: int
    json: Any


def run(script: str, url: str, home: Path, **settings: str) -> list[Answer]:
    """Returns the answer of each curl of the script. `$TOPICS` is the instance, `home` where it is run."""
    (home / ".curlrc").write_text(CURLRC)
    inherited = {name: value for name, value in os.environ.items() if name not in OURS}
    environment = {**inherited, "TOPICS": url, "CURL_HOME": str(home), **settings}
    done = subprocess.run(
        ["bash", "-euc", script], env=environment, cwd=home, capture_output=True, text=True, check=False
    )
    said = home / "said"  # by commands other than curl (printed.py)
    assert done.returncode == 0, "\n".join([done.stdout, done.stderr, said.read_text() if said.exists() else ""])
    parts = done.stdout.split(MARK)[:-1]
    return [Answer(int(status), json.loads(body)) for body, status in zip(parts[::2], parts[1::2], strict=True)]


def free(names: Collection[str], server: Instance, home: Path) -> None:
    """Delete the routers and topics of these names, and the last heads that the names keep. A page must not find the rest of
    another page under a name that it uses."""
    with server.connect() as connection:
        found = connection.execute(
            """
            SELECT 'routers/' || name FROM routers_router WHERE name = ANY(%(names)s)
            UNION ALL
            SELECT 'topics/' || name FROM topics_topic WHERE name = ANY(%(names)s)
            """,
            {"names": list(names)},
        ).fetchall()
    run("\n".join(f"curl -X DELETE $TOPICS/v0/{place}" for (place,) in found), server.url, home)
    with server.connect() as connection:
        connection.execute("DELETE FROM topics_lasthead WHERE name = ANY(%s)", (list(names),))

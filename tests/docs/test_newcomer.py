"""The first hour, in one go: a clone, `make run`, what the README prints, the admin, Ctrl-C, and another start on the same data.

What comes later in that hour has tests of its own: the site of the docs (test_site.py), a backup that is restored (test_backup.py), a
client that is generated (tests/api/test_generated_client.py), and what Compose sets (tests/deploy/test_manifests.py).
"""

from __future__ import annotations

import os
import re
import shlex
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deadlines import DEADLINE
from tests.docs.printed import commands, run_commands
from tests.docs.test_site import LINK
from tests.instances import Instance, free_port, until
from tests.project.signing_in import ask, log_in

pytestmark = pytest.mark.deep(35)


MAKE_RUN = [shlex.split(line, comments=True) for line in commands("README.md") if re.search(r"\bmake run\b", line)]


@pytest.fixture
def instance(clone: Path) -> Iterator[Instance]:
    made = Instance(clone / ".data", free_port(), {"WEB_WORKERS": "1"})
    yield made
    made.kill()


def begin(instance: Instance, clone: Path, line: list[str]) -> None:
    """Start it by this line, typed in the clone."""
    *before, run = line
    instance.command = ["env", *before, "-C", str(clone), run]
    instance.start()
    assert "Installing" not in instance.output


def end(instance: Instance) -> None:
    """Ctrl-C: a terminal sends it to everything that runs there."""
    assert instance.process is not None
    os.killpg(instance.process.pid, signal.SIGINT)
    instance.process.wait(2 * DEADLINE)
    until(lambda: not instance.pids(), "every process to end")


def test_the_first_hour(instance: Instance, clone: Path) -> None:
    first, elsewhere = MAKE_RUN
    begin(instance, clone, first)
    answers = run_commands("README.md", instance, clone)
    assert [answer.status for answer in answers if answer.status >= 300] == []
    signposts = re.findall(r'href="(/[^"]*)"', ask(instance, "GET", "/", Accept="text/html").body)
    assert {"/v0/docs", "/admin/"} <= set(signposts)
    assert [path for path in signposts if ask(instance, "GET", path).status not in (200, 302)] == []
    assert [path for path, _ in LINK.findall((clone / "README.md").read_text()) if not (clone / path).exists()] == []
    password = re.search(r"user admin, password (\S+)", instance.output)
    assert password
    assert log_in(instance, password[1]).status == 302
    left = ask(instance, "GET", "/v0/topics/orders/records").body.partition('"performance"')[0]
    assert '"data"' in left
    end(instance)

    instance.settings["PORT"], instance.port = str(instance.port), free_port()  # the line has the last word
    here = {"/srv/topics": str(instance.data), "4100": str(instance.port)}
    begin(instance, clone, [re.sub("|".join(here), lambda found: here[found[0]], word) for word in elsewhere])
    assert ask(instance, "GET", "/v0/topics/orders/records").body.startswith(left)
    assert log_in(instance, password[1]).status == 302
    end(instance)

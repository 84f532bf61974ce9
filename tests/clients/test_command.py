"""`topics` of the client's wheel works with a server elsewhere, and needs nothing of the server's packages."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from shell.cli import ONLY_HERE, program
from tests.instances import OURS, ROOT, Instance

# Everything that a machine with the wheel lacks. The other packages here are those of the wheel's dependencies.
LACKING = ("django", "rest_framework", "psycopg", "redis", "celery", "base", "shell", "wire", "topics", "store")
RUN = f"""
import sys
for name in {LACKING}:
    sys.modules[name] = None
sys.argv[0] = "topics"
from topics_client.__main__ import main
main()
"""
Command = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The unpacked wheel, built from the source distribution, as an index would have both."""
    made = tmp_path_factory.mktemp("client")
    build = [sys.executable, "-m", "hatchling", "build", "-d", str(made)]
    subprocess.run([*build, "-t", "sdist"], cwd=ROOT / "clients" / "python", check=True, capture_output=True)
    subprocess.run(["tar", "-xzf", str(next(made.glob("*.tar.gz"))), "-C", str(made)], check=True)
    source = next(each for each in made.iterdir() if each.is_dir())
    subprocess.run([*build, "-t", "wheel"], cwd=source, check=True, capture_output=True)
    zipfile.ZipFile(next(made.glob("*.whl"))).extractall(made / "site")
    return made / "site"


@pytest.fixture
def topics(folder: Path, tmp_path: Path) -> Command:
    inherited = {name: value for name, value in os.environ.items() if name not in (*OURS, "TOPICS_DATA")}

    def run(*arguments: str, url: str = "", given: str = "") -> subprocess.CompletedProcess[str]:
        environment = {**inherited, "PYTHONPATH": str(folder), **({"TOPICS_URL": url} if url else {})}
        command = [sys.executable, "-c", RUN, *arguments]
        return subprocess.run(command, env=environment, cwd=tmp_path, input=given, capture_output=True, text=True)

    return run


def test_it_appends_and_reads_at_a_server_elsewhere(topics: Command, server: Instance) -> None:
    name = f"command-{secrets.token_hex(6)}"
    done = topics("append", name, url=server.url, given='{"id": 7}\n{"id": 8}\n')
    assert done.returncode == 0, done.stderr
    assert "2 records appended" in done.stderr
    assert topics("tail", name, "--url", server.url).stdout == '{"id": 7}\n{"id": 8}\n'
    assert topics("create", f"{name}.jobs", "--type", "queue", url=server.url).returncode == 0
    assert name in topics("ls", name, "--quiet", url=server.url).stdout.split()


def test_it_has_every_command_that_needs_no_database_here(topics: Command) -> None:
    help = topics("--help").stdout
    listed = {line.split()[0] for line in help.partition("Commands:\n")[2].splitlines()}
    assert listed == set(program.commands) - set(ONLY_HERE)
    assert listed | set(ONLY_HERE) == set(program.commands)
    assert topics("schedules", "put", "--help").returncode == 0


def test_without_a_server_it_says_how_to_name_one(topics: Command) -> None:
    refused = topics("ls")
    assert (refused.returncode, refused.stderr) == (
        1,
        "topics: no server: set TOPICS_URL, or give --url https://host\n",
    )

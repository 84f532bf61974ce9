"""`topics` with standard streams that are closed, or that take nothing, as on a full disk."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.deadlines import DEADLINE
from tests.instances import ROOT, Instance
from tests.shell.conftest import Shell
from tests.shell.test_work import counts

pytestmark = pytest.mark.deep


Redirected = Callable[..., tuple[int, str, str]]


@pytest.fixture
def redirected(server: Instance) -> Redirected:
    """`redirected("<&-", "ls")`: exit code, output and messages of a command whose streams a shell redirects."""
    environment = {**os.environ, "TOPICS_URL": server.url}
    environment.pop("PYTHONUNBUFFERED", None)  # with it, nothing would be left for the exit of Python

    def run(redirection: str, *arguments: str, stdin: bytes = b"") -> tuple[int, str, str]:
        argv = ["sh", "-c", f'exec "$@" {redirection}', "sh", sys.executable, str(ROOT / "manage.py"), "topics"]
        done = subprocess.run(
            [*argv, *arguments], env=environment, input=stdin, capture_output=True, timeout=DEADLINE, check=False
        )
        return done.returncode, done.stdout.decode(), done.stderr.decode()

    return run


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (("append", "a"), "Error: standard input is closed: name a FILE, or send lines to standard input"),
        (("uninstall",), "Error: standard input is closed, so nobody can answer the question: add --yes"),
    ],
)
def test_a_command_that_needs_a_closed_standard_input_is_wrong(
    redirected: Redirected, call: tuple[str, ...], told: str
) -> None:
    code, out, err = redirected("<&-", *call)
    assert (code, out, err.splitlines()[-1]) == (2, "", told)
    assert "Traceback" not in err


def test_other_commands_need_no_standard_input(
    redirected: Redirected, elsewhere: Shell, name: str, tmp_path: Path
) -> None:
    """A delete does not ask, because nobody sits at a terminal."""
    file = tmp_path / "lines"
    file.write_bytes(b"1\n2\n")
    assert redirected("<&-", "append", name, str(file))[0] == 0
    assert elsewhere("export", name).out == b"1\n2\n"
    assert redirected("<&-", "delete", name) == (0, f"{name} is deleted\n", "")


@pytest.mark.parametrize("command", ["create", "append", "export"])
def test_a_closed_standard_output_is_told_before_the_command_does_anything(
    redirected: Redirected, elsewhere: Shell, name: str, command: str
) -> None:
    told = "Error: standard output is closed: redirect it to a file, or to /dev/null\n"
    assert redirected(">&-", command, name, stdin=b"1\n") == (2, "", told)
    assert "does not exist" in elsewhere("get", name).err


@pytest.mark.parametrize("redirection", ["2>&-", "2>/dev/full"])
def test_a_command_works_although_nobody_gets_its_messages(
    redirected: Redirected, elsewhere: Shell, name: str, tmp_path: Path, redirection: str
) -> None:
    """Messages about invalid lines come before the other lines are appended."""
    bad = tmp_path / "bad"
    assert redirected(redirection, "append", name, "--skip-bad", str(bad), stdin=b"{\n1\n2\n") == (0, "", "")
    assert bad.read_bytes() == b"{\n"
    assert elsewhere("export", name).out == b"1\n2\n"
    assert redirected(redirection, "get", f"{name}-absent")[0] != 0
    assert redirected(redirection, "get")[0] == 2


def test_a_job_is_done_although_nobody_gets_the_messages_of_its_command(
    redirected: Redirected, server: Instance, elsewhere: Shell, name: str
) -> None:
    """They are more than a pipe holds, so the command ends only if they are read to their end."""
    elsewhere("create", name, "--type", "queue")
    elsewhere("append", name, stdin=b"1\n")
    assert redirected("2>/dev/full", "work", name, "--once", "--", "sh", "-c", "head -c 200000 /dev/zero >&2")[0] == 0
    assert counts(server, name) == {"ready": 0, "in_flight": 0, "dead_lettered": 0}


@pytest.mark.parametrize("program", [("manage.py", "topics"), ("-c", "from shell.elsewhere import main; main()")])
def test_a_character_that_the_encoding_of_the_output_lacks_is_escaped(
    server: Instance, elsewhere: Shell, name: str, program: tuple[str, ...]
) -> None:
    elsewhere("create", name, "--type", "queue")
    job = ("--not-before", "2099-01-01T00:00Z", "--data", "1", "--tag", "日本")
    assert elsewhere("schedules", "put", name, "later", *job).code == 0
    shown = in_latin_1(server, *program, "schedules", "get", name, "later")
    assert (shown.returncode, shown.stderr) == (0, b"")
    assert rb"\u65e5\u672c" in shown.stdout


def test_the_usage_is_printed_in_each_encoding(server: Instance) -> None:
    shown = in_latin_1(server, "manage.py", "--help")
    assert (shown.returncode, shown.stderr) == (0, b"")


def in_latin_1(server: Instance, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    """A command at a terminal whose encoding has 256 characters."""
    environment = {**os.environ, "TOPICS_URL": server.url, "PYTHONIOENCODING": "latin-1"}
    argv = [sys.executable, *arguments]
    return subprocess.run(argv, cwd=ROOT, env=environment, capture_output=True, timeout=DEADLINE, check=False)


@pytest.mark.parametrize("call", [("ls",), ("tail",), ("export",), ("completion", "bash"), ("--help",)])
def test_a_full_disk_is_one_line(redirected: Redirected, elsewhere: Shell, name: str, call: tuple[str, ...]) -> None:
    elsewhere("append", name, stdin=b"1\n")
    arguments = (*call, name) if call[0] in ("tail", "export") else call
    assert redirected(">/dev/full", *arguments) == (1, "", "topics: a file: No space left on device\n")

"""Every example that a help text prints runs as it is printed."""

import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from shell.cli import program as commands
from shell.command import ShellCommand
from tests.deadlines import DEADLINE
from tests.docs.shell import free
from tests.groups.member import session_of
from tests.instances import ROOT, Instance
from tests.shell.conftest import Shell
from tests.shell.test_completion import program
from tests.watch.wire import Api

pytestmark = pytest.mark.deep(41)


__all__ = ["program"]  # a fixture
EXAMPLE = re.compile(r"^  (.*\btopics .*)$", re.MULTILINE)
PAGE = (ROOT / "docs" / "cli.md").read_text()
ORDERS = b'{"id": 1, "total": 5.5}\n{"id": 2, "total": 7}\n'


def calls(group: click.Group, *path: str) -> Iterator[tuple[str, ...]]:
    """Each command there is, in the order in which they were declared."""
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from calls(command, *path, name)
        else:
            yield (*path, name)


def command_of(call: tuple[str, ...]) -> ShellCommand:
    found: click.Command = commands
    for name in call:
        assert isinstance(found, click.Group)
        found = found.commands[name]
    assert isinstance(found, ShellCommand)
    return found


def test_every_help_has_examples_that_run(
    elsewhere: Shell, program: dict[str, str], server: Instance, tmp_path: Path
) -> None:
    (tmp_path / "events.jsonl").write_bytes(ORDERS)
    free(("orders", "payments", "audit", "jobs", "jobs-dead"), server, tmp_path)
    Api(server.port).done("PUT", "/v0/topics/orders", {})
    session_of(server.port, "orders", "billing")
    environment = {**program, "TOPICS_URL": server.url}
    lines, follows = [], []
    for call in calls(commands):
        _, _, examples = elsewhere(*call, "--help").out.decode().partition("\nExample")
        found = EXAMPLE.findall(examples)
        assert found, f"topics {' '.join(call)} has no example"
        assert all(f"topics {' '.join(call)}" in line for line in found if not line.startswith("source ")), call
        lines += [
            line
            for line in found
            if not re.search(r" (?:-f|usage|backup|restore|mirror|outbox|rights|uninstall) ?", line)
        ]
        follows += [line for line in found if " -f " in line]
    done = subprocess.run(
        ["bash", "--norc", "-euo", "pipefail", "-c", "\n".join(lines)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=5 * DEADLINE,
        check=False,
    )
    assert (done.returncode, done.stderr.count("\nUsage")) == (0, 0), done.stderr
    assert (tmp_path / "orders.jsonl").read_bytes().startswith(b'{"id": 2')
    for topic in ("orders", "payments"):
        elsewhere("delete", topic)
        elsewhere("append", topic, stdin=b'"seen"\n')
    assert len(follows) == 1
    with subprocess.Popen(
        ["bash", "--norc", "-c", f"exec {follows[0]}"],
        env=environment,
        stdout=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as tail:
        assert tail.stdout is not None
        try:
            seen = [tail.stdout.readline() for _ in range(4)]
            assert seen == [b"==> orders <==\n", b'"seen"\n', b"==> payments <==\n", b'"seen"\n']
            tail.send_signal(signal.SIGINT)
            assert tail.wait(DEADLINE) == 130
        finally:
            tail.kill()


def test_the_reference_prints_what_runs() -> None:
    lines = re.findall(r"^    ((?:topics|echo) .*)$", PAGE, re.MULTILINE)
    examples = {example for call in calls(commands) for example in command_of(call).examples}
    assert len(lines) > 10
    assert {line for line in lines if not line.startswith("topics completion ")} <= examples


@pytest.mark.parametrize("name", ["--url", "--key", "--json"])
def test_the_reference_names_the_options_of_all_commands(name: str) -> None:
    assert f"`{name}" in PAGE

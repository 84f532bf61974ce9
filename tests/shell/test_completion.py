"""Completion of commands, options and names, asked for as a shell asks."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.instances import ROOT, Instance
from tests.shell.conftest import Shell

# What readline does for `complete -F`, for each line that is read, up to its end.
ASK = """
source <(topics completion bash)
complete -p topics
while IFS= read -r line; do
    COMP_WORDS=($line)
    [[ $line == *" " ]] && COMP_WORDS+=("")
    COMP_CWORD=$(( ${#COMP_WORDS[@]} - 1 ))
    COMPREPLY=()
    _topics_completion topics
    echo "${COMPREPLY[*]}"
done
"""
Ask = Callable[..., list[str]]


@pytest.fixture
def program(tmp_path: Path) -> dict[str, str]:
    """An environment in which `topics` is the program, and has no servers of its own."""
    script = tmp_path / "bin" / "topics"
    script.parent.mkdir()
    script.write_text(f'#!/bin/sh\nexec {sys.executable} {ROOT}/manage.py topics "$@"\n')
    script.chmod(0o755)
    inherited = {name: value for name, value in os.environ.items() if name not in ("DATABASE_URL", "REDIS_URL")}
    return {**inherited, "PATH": f"{script.parent}:{os.environ['PATH']}", "TOPICS_DATA": str(tmp_path / "none")}


def test_bash_completes_commands_options_and_names(
    program: dict[str, str], server: Instance, elsewhere: Shell, name: str, tmp_path: Path
) -> None:
    elsewhere("append", f"{name}-a", stdin=b"1\n")
    elsewhere("cursors", "put", f"{name}-a", "reader", "--at", "head")
    lines = [
        "topics t",
        "topics append --skip",
        "topics cursors l",
        f"topics tail -f {name}-",
        f"topics cursors get {name}-a r",
        "topics create x --durability ",
        f"topics --url http://127.0.0.1:1 tail {name}",  # not there: nothing is offered, and nothing said
    ]
    done = subprocess.run(
        ["bash", "--norc", "-c", ASK],
        input="\n".join(lines) + "\n",
        env={**program, "TOPICS_URL": server.url},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    registered, *found = done.stdout.splitlines()
    assert registered == "complete -o nosort -F _topics_completion topics"
    assert found == ["tail trim", "--skip-bad", "list", f"{name}-a", "reader", "fsync disk memory ephemeral", ""]
    assert done.stderr == ""
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    ("kind", "begins"), [("bash", "_topics_completion()"), ("zsh", "#compdef topics"), ("fish", "function")]
)
def test_every_shell_gets_its_script(elsewhere: Shell, tmp_path: Path, kind: str, begins: str) -> None:
    done = elsewhere("completion", kind)
    assert done.code == 0
    assert done.out.decode().startswith(begins)
    assert b"_TOPICS_COMPLETE=" in done.out
    if program := shutil.which(kind):
        script = tmp_path / "script"
        script.write_bytes(done.out)
        subprocess.run([program, "-n", script], check=True, timeout=60)

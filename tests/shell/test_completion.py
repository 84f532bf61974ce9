"""Completion of commands, options and names, asked for as a shell asks, and typed in a terminal."""

import contextlib
import fcntl
import os
import pty
import re
import shutil
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.deadlines import DEADLINE
from tests.docs.printed import text_of
from tests.instances import ROOT, Instance, until
from tests.shell.conftest import Shell

pytestmark = pytest.mark.deep


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
    elsewhere("create", f"q{name}", "--type", "queue")
    elsewhere("schedules", "put", f"q{name}", "nightly", "--cron", "0 3 * * *", "--data", "1")
    lines = [
        "topics t",
        "topics append --skip",
        "topics cursors l",
        f"topics tail -f {name}-",
        f"topics cursors get {name}-a r",
        f"topics schedules delete q{name} n",
        "topics create x --durability ",
        f"topics --url http://127.0.0.1:1 tail {name}",  # not there: nothing is offered, and nothing said
    ]
    done = subprocess.run(
        ["bash", "--norc", "-c", ASK],
        input="\n".join(lines) + "\n",
        env={**program, "TOPICS_URL": server.url},
        capture_output=True,
        text=True,
        timeout=2 * DEADLINE,
        check=True,
    )
    registered, *found = done.stdout.splitlines()
    assert registered == "complete -o nosort -F _topics_completion topics"
    assert found == [
        "tail trim",
        "--skip-bad",
        "list",
        f"{name}-a",
        "reader",
        "nightly",
        "fsync disk memory ephemeral",
        "",
    ]
    assert done.stderr == ""
    assert not (tmp_path / "none").exists()


# What makes Ctrl-G, in each shell, put the line as it has become into the file `typed`, and begin a new one.
CTRL_G = {
    "bash": """dump() { echo "$READLINE_LINE" >> typed; READLINE_LINE=; }; bind -x '"\\C-g": dump'""",
    "zsh": """dump() { print -r -- "$BUFFER" >> typed; BUFFER=; }; zle -N dump; bindkey '^G' dump""",
    "fish": """bind \\cg 'commandline >> typed; commandline -r ""'""",
}


@pytest.mark.parametrize("kind", CTRL_G)
def test_a_shell_completes_what_is_typed(
    program: dict[str, str], server: Instance, elsewhere: Shell, name: str, tmp_path: Path, kind: str
) -> None:
    """Set up as the page says, in the home of somebody who has nothing yet."""
    topic = f"{name}:a"
    elsewhere("append", topic, stdin=b"1\n")
    elsewhere("cursors", "put", topic, "reader", "--at", "head")
    (line,) = re.findall(rf"^    (.*topics completion {kind} .*)$", text_of("docs/cli.md"), re.MULTILINE)
    kept = {key: value for key, value in program.items() if not key.startswith(("XDG_", "ZDOTDIR"))}
    # Without this folder fish begins to read all manual pages of the machine in the background.
    (tmp_path / ".local/share/fish/generated_completions").mkdir(parents=True)
    home = {**kept, "HOME": str(tmp_path), "TERM": "xterm", "TOPICS_URL": server.url}
    subprocess.run(["bash", "-euc", line], env=home, check=True, timeout=DEADLINE)
    if shutil.which(kind) is None:
        pytest.skip(f"NOT TRIED: there is no {kind} here (apt-get install {kind})")
    with typing(kind, home, tmp_path) as completed:
        assert completed("topics us") == "topics usage"
        assert completed("topics append --skip") == "topics append --skip-bad"
        assert completed("topics create x --durability f") == "topics create x --durability fsync"
        assert completed(f"topics tail -f {name}") == f"topics tail -f {topic}"
        assert completed(f"topics cursors get {topic} r") == f"topics cursors get {topic} reader"


@contextlib.contextmanager
def typing(kind: str, environment: dict[str, str], home: Path) -> Iterator[Callable[[str], str]]:
    """A shell in a terminal. Yields what types the beginning of a line and Tab, and returns the line that came of it."""
    terminal, inside = pty.openpty()
    os.set_blocking(terminal, False)
    said, typed = bytearray(), home / "typed"

    def lines() -> list[str]:
        with contextlib.suppress(BlockingIOError):  # what it prints has to be taken, or it would wait
            said.extend(os.read(terminal, 65536))
        return typed.read_text().splitlines() if typed.exists() else []

    def completed(line: str) -> str:
        before = len(lines())
        os.write(terminal, f"{line}\t\a".encode())
        until(lambda: len(lines()) > before, f"{kind} to complete {line!r}")
        return lines()[before].rstrip()

    with subprocess.Popen(
        [kind, "-i"],
        env=environment,
        cwd=home,
        stdin=inside,
        stdout=inside,
        stderr=inside,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # fish asks whose terminal it is
    ) as process:
        try:
            os.write(terminal, f"{CTRL_G[kind]}; echo ready > typed\n".encode())
            until(lambda: lines() == ["ready"], f"{kind} to listen")
            yield completed
        finally:
            print(said.decode(errors="replace"))
            process.kill()
            os.close(inside)
            os.close(terminal)

"""Finds the commands that a page prints, and runs them as printed."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from tests.docs.shell import Answer, run
from tests.instances import ROOT, Instance

# A line of a block that begins with a program, after settings perhaps, and what its backslashes carry on.
PROGRAMS = r"alias|curl|make|docker|topics|python3|pg_\w+|touch|promtool|export|echo|printf|git|pip|\.venv/bin/[\w-]+|\$\w+/\w+|\w+=\$\((?:curl|echo)"
COMMAND = re.compile(rf"^    ((?:[A-Z_]+=\S+ )*(?:{PROGRAMS})(?=[ (])(?:.*\\\n)*.*)$", re.MULTILINE)
FENCED = re.compile(r"^```(\w*).*?\n(.*?)^```", re.MULTILINE | re.DOTALL)
# Runs on until it is stopped: it has done what it is printed for as soon as it has said something.
# A stream begins with a line that says when to connect again, and with an empty one.
# The file is emptied before the command starts: else grep could find the output of the stream before.
ENDLESS = """: > endless; {command} >> endless 2>> said & pid=$!
until grep -qvE '^(retry: .*)?$' endless || ! kill -0 $pid; do sleep 0.05; done
kill $pid; wait $pid || true; [ -s endless ]"""


def text_of(page: str) -> str:
    return (ROOT / page).read_text()


def commands(page: str) -> list[str]:
    """The commands of a page, in its order."""
    return COMMAND.findall(text_of(page))


def is_chore(command: str) -> bool:
    """What has a test of its own, since it sets up a whole machine: `make` (tests/project), `docker` (tests/deploy)."""
    return bool(re.match(r"(?:[A-Z_]+=\S+ )*(?:make|docker)\b", command))


def snippets(page: str, language: str) -> list[str]:
    """The fenced blocks of a page in that language, in its order."""
    return [code for name, code in FENCED.findall(text_of(page)) if name == language]


def run_commands(page: str, server: Instance, home: Path) -> list[Answer]:
    """Run the page's commands one after the other in a shell, but for `make` and `docker`. Returns what each call of curl answered;
    the first other command that fails raises CalledProcessError."""
    for name in (".venv", "manage.py", "docs"):
        if not (home / name).exists():  # a clone has them
            (home / name).symlink_to(ROOT / name)
    script = script_of([command for command in commands(page) if not is_chore(command)])
    script = script.replace("http://localhost:4000", "$TOPICS").replace("localhost:4000", "$TOPICS")
    return run(f"shopt -s expand_aliases\n{named()}\n{script}", server.url, home, TOPICS_DATA=str(server.data))


def named() -> str:
    """The line of the README that gives the command line its short name, which every page uses."""
    return next(command for command in commands("README.md") if command.startswith("alias "))


def script_of(commands: Iterable[str]) -> str:
    """The commands one after the other. What another program than curl prints goes into the file `said`."""
    lines = []
    for command in commands:
        if re.search(r"curl -N|tail (?:-\S+ )*-f", command):
            lines.append(ENDLESS.format(command=command.partition("  #")[0]))
        elif re.match(r"alias|curl|\w+=\$|export", command):
            lines.append(command)
        else:
            lines.append(f"{{ {command}\n}} >> said 2>&1 < /dev/null")
    return "\n".join(lines)

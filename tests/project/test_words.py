"""`.ci/words.py` holds pages, comments and messages to plain English, and refuses retired words."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from django.conf import settings

from tests.deadlines import DEADLINE

CHECK = Path(settings.BASE_DIR, ".ci/words.py")
RETIRED = """\
## Retired words

| not | but |
|---|---|
| sign of life, pulse | heartbeat |
"""


@pytest.fixture
def check(tmp_path: Path) -> Path:
    """Returns a copy of the check, for a folder with a plain page."""
    (tmp_path / ".ci").mkdir()
    (tmp_path / "docs").mkdir()
    (tmp_path / "CONTRIBUTING.md").write_text(RETIRED)
    (tmp_path / "README.md").write_text(
        "The server stores records in topics. You read the records in the order of seqs.\n"
    )
    return Path(shutil.copy(CHECK, tmp_path / ".ci/words.py"))


def run(check: Path, *arguments: str) -> tuple[int, str]:
    done = subprocess.run([sys.executable, check, *arguments], capture_output=True, text=True, timeout=DEADLINE)
    return done.returncode, done.stdout + done.stderr


def test_plain_text_passes(check: Path) -> None:
    assert run(check)[0] == 0


@pytest.mark.parametrize(
    ("file", "text", "fault"),
    [
        ("README.md", "Who reads what is there goes on with what comes.\n", "README.md: Who reads what is there"),
        ("log.py", '"""Whoever asks is told what there is."""\n', "log.py:1: Whoever asks"),
        ("log.py", "# What is told here is what it is.\nx = 1\n", "log.py:1: What is told here"),
        ("log.sql", "-- What is told here is what it is.\n", "log.sql:1: What is told here"),
        ("log.py", 'x = "who reads, and what is there"\n', "log.py:1: who reads, and what"),
        ("tests/test_log.py", '"""Whoever asks is told what there is."""\n', "tests/test_log.py:1: Whoever asks"),
        ("log.js", "// What is told here is what it is.\n", "log.js:1: What is told here"),
        (
            "tests/test_log.py",
            "def test_who_reads_what_is_there(): ...\n",
            "tests/test_log.py:1: Who reads what is there",
        ),
        ("README.md", "A process without a sign of life stops.\n", "“sign of life” is retired: write heartbeat"),
        ("log.py", 'x = "The pulse of this process was late."\n', "log.py:1: “pulse” is retired: write heartbeat"),
        ("docs/concepts.md", "| **head** | a seq |\n| **head** | another seq |\n", "**head** is defined twice"),
    ],
)
def test_it_refuses(check: Path, file: str, text: str, fault: str) -> None:
    path = check.parent.parent / file
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    code, said = run(check)
    assert (code, fault in said) == (1, True), said


def test_code_in_backquotes_may_have_a_retired_word(check: Path) -> None:
    (check.parent.parent / "README.md").write_text("The field `pulse` has the time of the heartbeat.\n")
    assert run(check)[0] == 0


def test_limits_only_become_tighter(check: Path) -> None:
    before = check.read_text()
    (check.parent.parent / "log.py").write_text("# Whoever asks is told what there is, and what it is.\nx = 1\n")
    run(check, "--tighten")
    tightened = check.read_text()
    assert [row.split()[0] for row in tightened.splitlines()[3:8]] == ["docs", "comments", "messages", "tests", "names"]
    assert tightened.splitlines()[3].split() == ["docs", "0.00", "0.0"]
    assert tightened.splitlines()[4].split()[1] == before.splitlines()[4].split()[1], "the figure is above this limit"
    run(check, "--tighten")
    assert check.read_text() == tightened

"""A test that fails beside other tests runs once more, alone (.ci/tests.py)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.deadlines import DEADLINE
from tests.instances import ROOT

pytestmark = pytest.mark.deep(56)


SIDE_BY_SIDE = ("--numprocesses", "1", "--maxprocesses", "1", "--dist", "loadscope")
FAILS_ONCE = """
from pathlib import Path

def test_first():
    met = Path("met")
    assert met.exists() or met.touch(), "not met yet"

def test_other():
    assert True
"""
FAILS = """
import pytest

@pytest.mark.parametrize("n", range({}))
def test_each(n):
    assert n < 0
"""


def run(folder: Path, text: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_it.py").write_text(text)
    command = [sys.executable, str(ROOT / ".ci" / "tests.py"), *arguments]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "DJANGO_"))}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=5 * DEADLINE)


def test_a_test_that_passes_alone_is_named(tmp_path: Path) -> None:
    done = run(tmp_path, FAILS_ONCE, *SIDE_BY_SIDE)
    assert done.returncode == 0, done.stdout
    assert "1 failed, 1 passed" in done.stdout
    told = done.stdout.partition("PASSED ONLY THE SECOND TIME, ALONE:")[2]
    assert told.split("\n")[1].strip() == "FAILED test_it.py::test_first - AssertionError: not met yet"


@pytest.mark.parametrize("failures", [1, 10, 11])
def test_a_test_that_fails_again_fails_the_run(tmp_path: Path, failures: int) -> None:
    done = run(tmp_path, FAILS.format(failures), *SIDE_BY_SIDE)
    assert done.returncode == 1
    assert done.stdout.count(f"{failures} failed") == (2 if failures <= 10 else 1)
    assert "SECOND TIME" not in done.stdout


@pytest.mark.parametrize("arguments", [(), (*SIDE_BY_SIDE, "-x"), (*SIDE_BY_SIDE, "--maxfail=1")])
def test_a_run_alone_and_one_that_ends_early_have_no_second(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    done = run(tmp_path, FAILS_ONCE, *arguments)
    assert done.returncode != 0
    assert "once more" not in done.stdout

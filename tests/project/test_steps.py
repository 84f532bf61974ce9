"""The end of the output of `.ci/run` is its report (.ci/steps.py)."""

from __future__ import annotations

import signal
import subprocess
import sys

from tests.deadlines import DEADLINE
from tests.instances import ROOT, until

PROGRAM = """
import sys
sys.path.insert(0, ".ci")
from steps import Step, run
sys.exit(run([Step(f"step-{n}", ["sh", "-c", text]) for n, text in enumerate(sys.argv[1:])]))
"""


def begin(*scripts: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", PROGRAM, *scripts]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def report(*scripts: str) -> tuple[int, list[str]]:
    """Returns the exit code of a run of these steps, and the lines of its report."""
    process = begin(*scripts)
    printed, _ = process.communicate(timeout=5 * DEADLINE)
    return process.returncode, printed.partition("== The report\n")[2].splitlines()


def test_each_step_has_its_minutes_and_its_verdict() -> None:
    code, lines = report("echo FAILED but not really", "true")
    assert code == 0
    assert lines[:3] == [
        "step-0            0.0 min  passed",
        "step-1            0.0 min  passed",
        "all               0.0 min  PASSED",
    ]
    assert "GiB of memory at most" in lines[3]
    assert "GiB left." in lines[3]


def test_the_first_step_that_fails_ends_the_run_with_its_failures() -> None:
    failing = """
        echo 'FAILED tests/a.py::test_b - AssertionError: no'
        echo 'a.py:3: error: Name "x" is not defined  [name-defined]'
        echo 'nothing twice: orders (2)'
        echo 'BROKEN: 2 violations'
        echo '157 passed in 3 s'
        exit 3"""
    code, lines = report("true", failing, "true")
    assert code == 1
    assert lines[:8] == [
        "step-0            0.0 min  passed",
        "step-1            0.0 min  FAILED with 3",
        "    FAILED tests/a.py::test_b - AssertionError: no",
        '    a.py:3: error: Name "x" is not defined  [name-defined]',
        "    nothing twice: orders (2)",
        "    BROKEN: 2 violations",
        "step-2            0.0 min  not run",
        "all               0.0 min  FAILED",
    ]


def test_what_passed_only_the_second_time_and_what_was_not_tried_is_told() -> None:
    passing = """
        echo 'NOT TRIED, since they are not here: PostgreSQL 14.'
        echo 'SLOW: the gateway healed after 31 s'
        printf '\\nPASSED ONLY THE SECOND TIME, ALONE:\\n    FAILED tests/a.py::test_b - Error: x\\n'"""
    code, lines = report(passing)
    assert code == 0
    assert lines[:4] == [
        "step-0            0.0 min  passed; 1 faults healed late",
        "    NOT TRIED, since they are not here: PostgreSQL 14.",
        "    PASSED ONLY THE SECOND TIME, ALONE:",
        "    FAILED tests/a.py::test_b - Error: x",
    ]


def test_a_run_that_is_stopped_reports() -> None:
    with begin("echo begun; sleep 300", "true") as process:
        assert process.stdout is not None
        read: list[str] = []
        until(lambda: read.append(process.stdout.readline()) or "begun\n" in read, "the step")
        process.send_signal(signal.SIGTERM)
        lines = process.stdout.read().partition("== The report\n")[2].splitlines()
    assert lines[0].endswith("INTERRUPTED")
    assert lines[1].endswith("not run")
    assert process.returncode == 128 + signal.SIGTERM

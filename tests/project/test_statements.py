"""Each statement is executed by an operation of bench/growth, is named by a test of plans, or has a reason (CONTRIBUTING.md)."""

from __future__ import annotations

import subprocess
import sys

from tests.deadlines import DEADLINE
from tests.instances import ROOT


def test_each_statement_stands_in_a_plan() -> None:
    argv = [sys.executable, "-m", "bench.growth.statements"]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False, timeout=5 * DEADLINE)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]

"""In a small store, no operation of bench/growth reads more than the store's logarithm allows, or it has a reason. Each statement
is executed by an operation, is named by a test of plans, or has a reason (CONTRIBUTING.md).
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.deadlines import DEADLINE
from tests.instances import ROOT

pytestmark = pytest.mark.deep(94)


def test_nothing_grows_and_each_statement_stands_in_a_plan() -> None:
    argv = [sys.executable, "-m", "bench.growth", "--small"]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False, timeout=15 * DEADLINE)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]

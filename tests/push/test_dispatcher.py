"""The dispatcher of a worker and the tasks that ask it for something, in a process of their own, which ends as a worker does."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.instances import ROOT
from tests.pipeline.filling import database_url

ASKS = """
import django
django.setup()
from push.running import start
dispatcher = start()
print(dispatcher.sweep(), flush=True)
dispatcher.stop()
print(dispatcher.sweep())
"""


@pytest.mark.django_db(transaction=True)
def test_a_sweep_that_comes_after_the_end_waits_for_nothing() -> None:
    """Beat asks for one a second, also while a worker stops, which would not end before the task did."""
    done = subprocess.run(
        [sys.executable, "-c", ASKS],
        cwd=ROOT,
        env={**os.environ, "DATABASE_URL": database_url()},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "0\n0\n"), done.stderr

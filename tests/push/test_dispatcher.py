"""The dispatcher of a worker and the tasks that ask it for something, in a process of their own, which ends as a worker does."""

from __future__ import annotations

import os
import sys

import pytest

from tests.instances import ROOT
from tests.pipeline.filling import database_url
from tests.preloaded import run

ASKS = """
import django
django.setup()
from push.delivery.running import start
dispatcher = start()
print(dispatcher.sweep(), flush=True)
dispatcher.stop()
print(dispatcher.sweep())
"""

# The file of certificates is just being replaced at the first start.
STARTS_TWICE = """
import django
django.setup()
from django.conf import settings
from push.delivery.running import start
settings.PUSH_CALLBACK_CA = "absent.pem"
try:
    start()
except FileNotFoundError as error:
    print(error, flush=True)
settings.PUSH_CALLBACK_CA = ""
dispatcher = start()
print(dispatcher.sweep(), flush=True)
dispatcher.stop()
"""


@pytest.mark.django_db(transaction=True)
def test_a_dispatcher_that_could_not_start_starts_with_the_next_sweep() -> None:
    done = run([sys.executable, "-c", STARTS_TWICE], {**os.environ, "DATABASE_URL": database_url()}, ROOT)
    assert (done.returncode, done.stdout) == (0, "[Errno 2] No such file or directory\n0\n"), done.stderr


@pytest.mark.django_db(transaction=True)
def test_a_sweep_that_comes_after_the_end_waits_for_nothing() -> None:
    """Beat asks for one a second, also while a worker stops, which would not end before the task did."""
    done = run([sys.executable, "-c", ASKS], {**os.environ, "DATABASE_URL": database_url()}, ROOT)
    assert (done.returncode, done.stdout) == (0, "0\n0\n"), done.stderr

"""What the supervisor starts does not outlive it, whenever it dies."""

import os
import signal
import subprocess

import pytest

from topics_project.children import die_with_parent


def sleeper(parent: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(["sleep", "60"], preexec_fn=lambda: die_with_parent(parent, signal.SIGTERM))


def test_a_child_whose_parent_died_while_it_started_ends() -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    assert sleeper(gone.pid).wait(10) == -signal.SIGTERM


def test_a_child_whose_parent_lives_goes_on() -> None:
    child = sleeper(os.getpid())
    with pytest.raises(subprocess.TimeoutExpired):
        child.wait(0.2)
    child.kill()
    child.wait()

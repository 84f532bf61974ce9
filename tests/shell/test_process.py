"""`manage.py topics` as a process: a terminal's progress bar, Ctrl-C, and a database that is away or empty."""

import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from django.db import connection

from tests import preloaded
from tests.deadlines import DEADLINE
from tests.instances import ROOT, free_port, until
from topics.models import TopicHead

pytestmark = pytest.mark.deep


Start = Callable[..., "subprocess.Popen[bytes]"]


def head_seq(name: str) -> int:
    head = TopicHead.objects.filter(topic__name=name).first()
    return head.head_seq if head else 0


def read_all(terminal: int) -> str:
    """Returns the output on a terminal until its last writer has exited."""
    seen = b""
    while True:
        try:
            chunk = os.read(terminal, 4096)
        except OSError:  # how Linux says that nobody writes any more
            chunk = b""
        if not chunk:
            return seen.decode()
        seen += chunk


def test_a_terminal_gets_a_progress_bar_and_a_pipe_does_not(process: Start, tmp_path: Path) -> None:
    file = tmp_path / "lines"
    file.write_bytes(b"1\n" * 30_000)
    terminal, writer = pty.openpty()
    append = process("append", "a", file, stderr=writer)
    os.close(writer)
    seen = read_all(terminal)
    append.communicate(timeout=DEADLINE)
    assert append.returncode == 0
    assert "░" in seen
    assert "% " in seen
    assert seen.rstrip().splitlines()[-1].endswith("/s")
    out, err = process("append", "b", file).communicate(timeout=DEADLINE)
    assert out == b""
    assert err.count(b"\n") == 1
    assert b"\r" not in err


def test_ctrl_c_says_how_far_it_came(process: Start, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    append = process("append", "stopped", pipe, "--batch", 10)
    with pipe.open("wb") as feed:
        feed.write(b"1\n" * 25)
        feed.flush()
        until(lambda: head_seq("stopped") == 20, "two batches")
        append.send_signal(signal.SIGINT)
        _, err = append.communicate(timeout=DEADLINE)
    assert append.returncode == 130
    # PostgreSQL may have stored the second batch before the command has its answer.
    assert re.search(rb"[12]0 records appended to stopped", err)
    assert b"run the same command again" in err
    assert b"Traceback" not in err


def run(url: str, *arguments: str) -> tuple[int, str]:
    argv = [sys.executable, str(ROOT / "manage.py"), "topics", *arguments]
    done = preloaded.run(argv, {**os.environ, "DATABASE_URL": url}, stdin=b"1\n")
    assert done.stdout == ""
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    "call", [("ls",), ("export", "a"), ("tail", "a"), ("append", "a"), ("usage",), ("backup", "a.dump")]
)
def test_a_database_that_is_away_is_one_line(call: tuple[str, ...]) -> None:
    code, err = run(f"postgresql://nobody@127.0.0.1:{free_port()}/none", *call)
    assert code == 1
    assert err.splitlines()[-1] == "topics: PostgreSQL is not reachable"
    assert "Traceback" not in err


def test_a_database_without_tables_is_one_line(db: None) -> None:
    settings = connection.settings_dict
    host, port = settings["HOST"], settings["PORT"]
    secret = f":{settings['PASSWORD']}" if settings["PASSWORD"] else ""
    code, err = run(f"postgresql://{settings['USER']}{secret}@:{port}/template1?host={host}", "ls")
    assert code == 1
    missing = 'the database lacks what this version needs (relation "topics_topic" does not exist)'
    assert err == f"topics: {missing}: run `manage.py migrate`; if that changes nothing, restore it\n"
    assert "Traceback" not in err


def test_a_folder_that_no_instance_has_used_is_one_line(tmp_path: Path) -> None:
    """The reader probably meant another folder, so no servers start in this one."""
    inherited = {name: value for name, value in os.environ.items() if name not in ("DATABASE_URL", "REDIS_URL")}
    folder = tmp_path / "none"
    argv = [sys.executable, str(ROOT / "manage.py"), "topics", "ls"]
    done = preloaded.run(argv, inherited | {"TOPICS_DATA": str(folder)})
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(
        f"topics: no instance has run in {folder} yet: run `make run` or `manage.py run` first."
    )
    assert "TOPICS_URL" in done.stderr
    assert not folder.exists()

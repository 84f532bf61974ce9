"""`manage.py topics …` in this process, as most tests run it, and as a process of its own, for those that end it."""

import contextlib
import io
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from django.db import connection
from psycopg.conninfo import make_conninfo

from shell.cli import main
from shell.command import LocalInstance
from tests.instances import ROOT, Instance
from topics_project.shell import backup, installed, restore, uninstall


@dataclass
class Result:
    code: int
    out: bytes
    err: str


Shell = Callable[..., Result]


@pytest.fixture
def shell(db: None, capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> Shell:
    """`shell("append", "a", stdin=b"1")`: what it wrote and how it ended, on this test's database."""
    return runner(HERE, capsysbinary, monkeypatch)


@pytest.fixture
def over_http(capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> Shell:
    """The same without a database: for a server that TOPICS_URL or `--url` names."""
    return runner(NOWHERE, capsysbinary, monkeypatch)


@pytest.fixture
def elsewhere(over_http: Shell, server: Instance, monkeypatch: pytest.MonkeyPatch) -> Shell:
    """The same on the shared instance: use topic names of your own."""
    monkeypatch.setenv("TOPICS_URL", server.url)
    return over_http


@pytest.fixture(params=["shell", "elsewhere"])
def either(request: pytest.FixtureRequest, db: None, server: Instance) -> Shell:
    """Both, one after the other: what a command does here, it does over HTTP.

    What both need is named here, because it is looked for before the tests run: pytest-django makes the test database only if a
    fixture names it, and the shared instance rests beside a test that does not.
    """
    ran: Shell = request.getfixturevalue(request.param)
    return ran


@pytest.fixture
def name() -> str:
    """A name that no other test uses."""
    return f"s-{uuid.uuid4().hex[:12]}"


def runner(site: LocalInstance, captured: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> Shell:
    def run(*arguments: object, stdin: bytes = b"") -> Result:
        with open_pipe(stdin) as source:
            monkeypatch.setattr(sys, "stdin", source)
            code, message = 0, ""
            try:
                main([str(each) for each in arguments], "topics", site)
            except SystemExit as error:
                code, message = (error.code, "") if isinstance(error.code, int) else (1, str(error.code))
        out, err = captured.readouterr()
        return Result(code, out, err.decode() + message)

    return run


def not_to_be_entered() -> contextlib.AbstractContextManager[None]:
    raise AssertionError("the database of this machine is none of its business")


HERE = LocalInstance(contextlib.nullcontext, lambda: True, backup, restore, installed, uninstall)  # Django is set up
NOWHERE = LocalInstance(not_to_be_entered, lambda: False, backup, restore, installed, uninstall)


def open_pipe(content: bytes) -> io.TextIOWrapper:
    """A pipe that holds this, like `printf … |`: small enough for its buffer."""
    reader, writer = os.pipe()
    os.write(writer, content)
    os.close(writer)
    return os.fdopen(reader)


@pytest.fixture
def process(transactional_db: None) -> Callable[..., subprocess.Popen[bytes]]:
    """Start it as a process on this test's database."""
    options = {k: v for k, v in connection.get_connection_params().items() if k in ("dbname", "user", "host", "port")}
    secret = connection.settings_dict["PASSWORD"]
    url = make_conninfo(**options, **({"password": secret} if secret else {}))

    def start(*arguments: object, **pipes: object) -> subprocess.Popen[bytes]:
        argv = [sys.executable, str(ROOT / "manage.py"), "topics", *map(str, arguments)]
        given = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **pipes}
        # Where the tests run in the background, Ctrl-C is ignored, and what they start would inherit that.
        given["preexec_fn"] = lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)
        return subprocess.Popen(argv, env={**os.environ, "DATABASE_URL": url}, **given)  # type: ignore[call-overload]

    return start

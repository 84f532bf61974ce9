"""`topics --url`: what only a server elsewhere can do, or do wrong."""

import http.server
import io
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from base.errors import TopicsError, Unauthorized
from shell.follower import Follower
from shell.printing import PrintedTail
from shell.remote import Remote
from tests.deadlines import DEADLINE
from tests.instances import ROOT, Instance, until
from tests.shell.conftest import Shell
from tests.shell.test_following import lines, told
from tests.shell.test_resume import numbers

pytestmark = pytest.mark.deep


SECRET = "only-for-reading"


def test_an_append_is_taken_up_again(elsewhere: Shell, name: str, tmp_path: Path) -> None:
    file = tmp_path / "lines"
    file.write_bytes(numbers(1, 20) + b"broken\n")
    done = elsewhere("append", name, file, "--batch", 5)
    assert (done.code, "20 records appended" in done.err) == (1, True)
    file.write_bytes(numbers(1, 3000))
    assert "20 lines appended before" in elsewhere("append", name, file, "--batch", 7).err
    assert "0 records appended" in elsewhere("append", name, file).err
    assert elsewhere("export", name).out == file.read_bytes()
    assert elsewhere("tail", "-n", 2, name).out == numbers(2999, 3000)


def test_it_loads_neither_django_nor_a_driver_of_postgresql(server: Instance) -> None:
    """To load them takes longer than all the rest of a command."""
    program = (
        "import sys; from topics_project.__main__ import main\n"
        "try: main()\n"
        "finally: print(sorted({'django', 'psycopg', 'asyncio'} & set(sys.modules)), file=sys.stderr)"
    )
    command = [sys.executable, "-c", program, "--url", server.url, "ls"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=DEADLINE)
    assert (done.returncode, done.stderr) == (0, "[]\n")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--url", "localhost:4000", "ls"), "invalid --url localhost:4000: expected http"),
        (("--url", "http://", "ls"), "invalid --url http://: expected http"),
        (("--url", "http://me:secret@host", "ls"), "--url contains a user name or password"),
        (("--key", "é", "ls"), "invalid --key"),
        (("usage",), "leave out --url"),
        (("backup", "a.dump"), "leave out --url"),
        (("restore", "a.dump"), "leave out --url"),
    ],
)
def test_what_cannot_be_used_is_refused(elsewhere: Shell, arguments: tuple[str, ...], told: str) -> None:
    done = elsewhere(*arguments)
    assert (done.code, done.out, told in done.err) == (1, b"", True)


def test_a_key_without_a_server_elsewhere_is_refused(shell: Shell) -> None:
    assert "--key needs --url" in shell("ls", "--key", "secret").err
    assert shell("ls").code == 0


def test_an_option_counts_before_the_environment(elsewhere: Shell, server: Instance, monkeypatch: Any) -> None:
    for before, behind in (((), ("--url", server.url)), (("--url", server.url), ())):
        monkeypatch.setenv("TOPICS_URL", "http://127.0.0.1:1")
        assert elsewhere(*before, "ls", "-q", *behind).code == 0


class Answers(http.server.BaseHTTPRequestHandler):
    """Answers of a server that is not ours or is stopping, and the requests that it got."""

    answers: list[tuple[int, bytes]] = []
    asked: list[tuple[str, str | None]] = []

    def do_GET(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        self.asked.append((f"{self.command} {self.path}", self.headers["authorization"]))
        status, body = self.answers.pop(0)
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET

    def log_message(self, *_: Any) -> None: ...


@contextmanager
def answering(*answers: tuple[int, bytes]) -> Iterator[tuple[str, list[tuple[str, str | None]]]]:
    handler = type("Some", (Answers,), {"answers": list(answers), "asked": []})
    with http.server.HTTPServer(("127.0.0.1", 0), handler) as served:
        thread = threading.Thread(target=served.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{served.server_port}/below", handler.asked  # type: ignore[attr-defined]
        finally:
            served.shutdown()
            thread.join()


NOT_READY = b'{"error": {"code": "not_ready", "message": "PostgreSQL is not reachable"}}'


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_it_is_asked_again_where_that_does_no_harm(over_http: Shell, status: int) -> None:
    with answering((status, NOT_READY), (200, b'{"topics": []}')) as (url, asked):
        assert over_http("ls", "-q", "--url", url, "--key", SECRET).code == 0
    assert asked == [("GET /below/v0/topics?prefix=&page_size=1000", f"Bearer {SECRET}")] * 2


def test_an_append_without_a_key_is_sent_once(over_http: Shell) -> None:
    with answering((503, NOT_READY)) as (url, asked):
        done = over_http("append", "a", "--url", url, stdin=b"1\n")
    assert (done.code, "topics: PostgreSQL is not reachable" in done.err, len(asked)) == (1, True, 1)


@pytest.mark.parametrize("answer", [(404, b"<html>"), (301, b""), (404, b"[]"), (501, b'{"error": "down"}')])
def test_an_address_that_is_no_topics_server_is_named(over_http: Shell, answer: tuple[int, bytes]) -> None:
    with answering(answer) as (url, _):
        done = over_http("ls", "--url", url)
    assert (done.code, done.out) == (1, b"")
    assert f"{url} answered {answer[0]} " in done.err
    assert "check that --url is the address of a topics server" in done.err


def test_a_stream_goes_on_when_its_server_comes_back(
    instances: Callable[..., Instance], tmp_path: Path, over_http: Shell, monkeypatch: Any
) -> None:
    """With a key, and a topic that is not there at the beginning. Nothing of this machine is touched."""
    instance = instances(TOPICS_API_KEYS=f"{SECRET}:read,write-and-admin-key:write+admin")
    monkeypatch.setenv("TOPICS_URL", instance.url)
    writer = ("--key", "write-and-admin-key")
    assert "this key lacks the scope" in over_http("append", "a", "--key", SECRET, stdin=b"1\n").err
    assert "unauthorized" not in over_http("create", "a", "--durability", "fsync", *writer).err
    assert over_http("append", "a", *writer, stdin=b"1\n").code == 0
    inherited = {name: value for name, value in os.environ.items() if name not in ("DATABASE_URL", "REDIS_URL")}
    environment = {**inherited, "TOPICS_DATA": str(tmp_path / "none"), "TOPICS_KEY": SECRET}
    with subprocess.Popen(
        [sys.executable, str(ROOT / "manage.py"), "topics", "tail", "-f", "a", "b"],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as tail:
        try:
            assert told(tail) == "topics: topic 'b' does not exist yet: waiting for it"
            assert lines(tail, 2) == [b"==> a <==", b"1"]
            over_http("append", "b", *writer, stdin=b"2\n")
            assert told(tail) == "topics: b exists now"
            assert lines(tail, 2) == [b"==> b <==", b"2"]
            instance.kill()
            assert told(tail).endswith("trying again")
            instance.start()
            until(instance.is_ready, "the instance to be ready")
            over_http("append", "a", *writer, stdin=b"3\n")
            assert lines(tail, 2) == [b"==> a <==", b"3"]
            tail.send_signal(signal.SIGINT)
            assert tail.wait(timeout=DEADLINE) == 130
        finally:
            tail.kill()
    assert not (tmp_path / "none").exists()


def test_a_stream_goes_on_after_an_answer_of_a_proxy(capsys: pytest.CaptureFixture[str]) -> None:
    bad, session = (502, b"<html>"), (200, b'{"stream_url": "/v0/stream"}')
    refused = (200, b'event: error\ndata: {"code": "unauthorized", "error": "the key is revoked"}\n\n')
    printed = PrintedTail(False, bytes, io.BytesIO())
    printed.seqs["a"] = 0
    answers = answering(bad, session, bad, session, refused)
    with answers as (url, asked), pytest.raises(Unauthorized, match="the key is revoked"):
        Remote(url, None).follow(Follower(printed, ()))
    watch, stream = "POST /below/v0/watch", "GET /below/v0/stream"
    assert [request for request, _ in asked] == [watch, watch, stream, watch, stream]
    assert f"{url} answered 502 Bad Gateway" in capsys.readouterr().err


def test_a_stream_ends_at_a_gateway_that_has_none() -> None:
    refused, other = (501, b'{"error": {"code": "not_supported", "message": "no sessions here"}}'), (404, b"<html>")
    printed = PrintedTail(False, bytes, io.BytesIO())
    printed.seqs["a"] = 0
    with answering(refused, other) as (url, asked), pytest.raises(TopicsError, match="no sessions here"):
        Remote(url, None).follow(Follower(printed, ()))
    assert len(asked) == 1


# The first event of the stream drops an object whose finalizer gets Ctrl-C.
INTERRUPTED_IN_A_FINALIZER = """
import io, os, signal, sys
from shell.follower import Follower
from shell.printing import PrintedTail
from shell.remote import Remote

class Dropped(io.RawIOBase):
    def close(self):
        if not self.closed:
            super().close()
            os.kill(os.getpid(), signal.SIGINT)

class Interrupted(Follower):
    def hear(self, frames):
        Dropped()

printed = PrintedTail(False, bytes, sys.stdout.buffer)
printed.seqs[sys.argv[2]] = 0
signal.signal(signal.SIGINT, signal.default_int_handler)
Remote(sys.argv[1], None).follow(Interrupted(printed, ()))
"""


def test_ctrl_c_ends_a_tail_wherever_it_is(elsewhere: Shell, server: Instance, name: str) -> None:
    elsewhere("append", name, stdin=b"1\n")
    script = [sys.executable, "-c", INTERRUPTED_IN_A_FINALIZER, server.url, name]
    assert subprocess.run(script, cwd=ROOT, timeout=DEADLINE, check=False).returncode == 130

"""`topics work`: each job of a queue gets a command, and comes back if the command fails, hangs or is killed."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from shell.remote import Remote
from shell.working import Worker
from tests.api.clients import HttpClient
from tests.clients.proxy import proxy
from tests.deadlines import DEADLINE
from tests.instances import ROOT, Instance, until
from tests.shell.conftest import Shell
from tests.threads import no_thread

pytestmark = pytest.mark.deep


# One write for each line, because several commands write to one file.
SAY = """
import os, sys
sys.stdout.write("{TOPICS_JOB_SEQ} {TOPICS_JOB_TAG} ".format(**os.environ) + sys.stdin.read().strip() + "\\n")
"""


@pytest.fixture
def queue(server: Instance, name: str) -> str:
    assert HttpClient(server.port).put(f"/v0/topics/{name}", {"type": "queue", "lease_ms": 1000}).status == 201
    return name


def counts(server: Instance, queue: str) -> Any:
    shown = HttpClient(server.port).get(f"/v0/topics/{queue}").json["queue"]
    return {name: shown[name] for name in ("ready", "in_flight", "dead_lettered")}


class Working:
    """A process of `topics work` on the shared instance, or on a proxy of it."""

    def __init__(self, url: str, folder: Path, *arguments: str) -> None:
        self.output = folder / "worked"
        environment = {**os.environ, "TOPICS_URL": url}
        with self.output.open("w") as output:
            self.process = subprocess.Popen(
                [sys.executable, str(ROOT / "manage.py"), "topics", "work", *arguments],
                env=environment,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def says(self, text: str) -> bool:
        return text in self.output.read_text()


@pytest.fixture
def working(server: Instance, tmp_path: Path) -> Iterator[Any]:
    started: list[Working] = []

    def start(*arguments: str, url: str = server.url) -> Working:
        started.append(Working(url, tmp_path, *arguments))
        return started[-1]

    yield start
    for each in started:
        with suppress(ProcessLookupError):
            os.killpg(each.process.pid, signal.SIGKILL)
        each.process.wait()


def test_each_job_gets_a_command_and_is_done(server: Instance, queue: str, working: Any) -> None:
    records = [{"data": {"n": n}, "tag": f"t{n}"} for n in range(6)]
    HttpClient(server.port).post(f"/v0/topics/{queue}", {"records": records})
    done = working("--once", "--parallel", "3", queue, "--", sys.executable, "-c", SAY)
    assert done.process.wait(DEADLINE) == 0
    lines = sorted(done.output.read_text().splitlines())
    assert lines == [f"{n + 1} t{n} {json.dumps({'n': n})}" for n in range(6)]
    assert counts(server, queue) == {"ready": 0, "in_flight": 0, "dead_lettered": 0}


def test_a_failed_job_comes_back_and_a_long_one_keeps_its_lease(server: Instance, queue: str, working: Any) -> None:
    client = HttpClient(server.port)
    client.append(queue, 1)
    program = 'import os, sys, time; time.sleep(2.5); sys.exit(int(os.environ["TOPICS_JOB_DELIVERIES"]) < 2)'
    done = working("--once", "--delay-ms", "0", queue, "--", sys.executable, "-c", program)
    assert done.process.wait(DEADLINE) == 0
    # Two deliveries, each longer than two leases: no other claim could get the job meanwhile.
    assert done.output.read_text() == "topics: job 1 failed with exit code 1 (delivery 1)\n"
    assert counts(server, queue) == {"ready": 0, "in_flight": 0, "dead_lettered": 0}


def test_a_dead_letter_says_why_its_command_failed(server: Instance, queue: str, working: Any) -> None:
    client = HttpClient(server.port)
    client.put(f"/v0/topics/{queue}", {"max_deliveries": 1, "dead_letter": f"{queue}-dead"})
    client.append(queue, 1, 2, 3)
    program = (
        'import os, sys; seq = os.environ["TOPICS_JOB_SEQ"]; seq == "3" and os.kill(os.getpid(), 9);'
        'seq == "1" and print("a\\0b", "x" * 9000, "no such image\\n\\n", sep="\\n", file=sys.stderr); sys.exit(7)'
    )
    done = working("--once", "--delay-ms", "0", queue, "--", sys.executable, "-c", program)
    assert done.process.wait(DEADLINE) == 0
    assert done.says("no such image")
    assert client.post(f"/v0/topics/{queue}/claim", {"node": "w"}).json["count"] == 0
    letters = client.diff(f"{queue}-dead").json["records"]
    errors = {each["data"]: each["meta"]["$dead_letter_error"] for each in letters}
    assert errors == {1: "exit code 7: no such image", 2: "exit code 7", 3: "signal 9"}


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_ended_worker_gives_its_job_back(server: Instance, queue: str, working: Any, number: int, code: int) -> None:
    HttpClient(server.port).append(queue, 1)
    running = working(queue, "--", "sleep", "600")
    until(lambda: counts(server, queue)["in_flight"] == 1, "the job to run")
    running.process.send_signal(number)
    assert running.process.wait(DEADLINE) == code
    assert counts(server, queue)["ready"] == 1


def test_a_refusal_that_passes_ends_no_command(server: Instance, queue: str, working: Any) -> None:
    client = HttpClient(server.port)
    client.put(f"/v0/topics/{queue}", {"lease_ms": 10_000})
    client.append(queue, 1)
    with proxy(server.port) as refusing:
        running = working("--parallel", "2", queue, "--", "sleep", "600", url=refusing.url)
        until(lambda: counts(server, queue)["in_flight"] == 1, "the job to run")
        refusing.refusals = [(429, 0)]
        until(lambda: running.process.poll() is not None or running.says("429 Too Many Requests"), "the refusal")
        client.append(queue, 2)
        until(lambda: running.process.poll() is not None or counts(server, queue)["in_flight"] == 2, "another job")
        assert not running.says("its command is ended")
        running.process.send_signal(signal.SIGTERM)
        assert running.process.wait(DEADLINE) == 143
    assert counts(server, queue)["ready"] == 2


def test_no_command_outlives_its_worker(server: Instance, queue: str, working: Any) -> None:
    """The key is revoked while three commands run, so the worker can neither keep nor give back their jobs."""
    client = HttpClient(server.port)
    client.put(f"/v0/topics/{queue}", {"lease_ms": 3_000})
    client.append(queue, 1, 2, 3)
    with proxy(server.port) as refusing:
        refusing.refused = re.compile(rb"/(extend|nack) HTTP/1.1")
        running = working("--parallel", "3", queue, "--", "sh", "-c", "echo $$; exec sleep 600", url=refusing.url)
        until(lambda: len(running.output.read_text().splitlines()) == 3, "three commands")
        commands = [int(line) for line in running.output.read_text().splitlines()]
        refusing.refusals = [(401, 0)] * 4
        assert running.process.wait(DEADLINE) == 1
    assert refusing.refusals == []
    assert [command for command in commands if Path(f"/proc/{command}").exists()] == []
    assert running.says("job 3 comes back when its lease ends")


def test_a_command_whose_lease_is_lost_is_ended(server: Instance, queue: str, working: Any) -> None:
    client = HttpClient(server.port)
    client.append(queue, 1)
    running = working(queue, "--", "sleep", "600")
    until(lambda: counts(server, queue)["in_flight"] == 1, "the job to run")
    running.process.send_signal(signal.SIGSTOP)
    claim = f"/v0/topics/{queue}/claim", {"node": "other", "lease_ms": 60_000}
    until(lambda: client.post(*claim).json["count"], "the lease to end")
    running.process.send_signal(signal.SIGCONT)
    until(lambda: running.says("job 1 has another worker now: its command is ended"), "the worker to notice")
    assert counts(server, queue) == {"ready": 0, "in_flight": 1, "dead_lettered": 0}


def test_a_program_that_cannot_start_ends_the_worker_and_makes_no_dead_letters(
    server: Instance, queue: str, working: Any, tmp_path: Path
) -> None:
    """A file without `#!` is found, but the system cannot start it."""
    client = HttpClient(server.port)
    client.put(f"/v0/topics/{queue}", {"max_deliveries": 2, "dead_letter": f"{queue}-dead"})
    client.append(queue, 1, 2, 3)
    program = tmp_path / "program"
    program.write_text("exit 0\n")
    program.chmod(0o755)
    ended = working("--once", "--parallel", "2", "--delay-ms", "0", queue, "--", str(program))
    assert ended.process.wait(DEADLINE) == 1
    assert ended.output.read_text() == f"topics: the command did not start: [Errno 8] Exec format error: '{program}'\n"
    assert counts(server, queue) == {"ready": 3, "in_flight": 0, "dead_lettered": 0}


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="only Linux can limit another process")
def test_jobs_wait_while_no_descriptor_is_free(server: Instance, queue: str, working: Any, tmp_path: Path) -> None:
    """The first command runs meanwhile. It ends when the file appears, and those of the others find it."""
    client, go = HttpClient(server.port), tmp_path / "go"
    client.put(f"/v0/topics/{queue}", {"lease_ms": 600_000, "max_deliveries": 1000})
    client.append(queue, 1)
    program = f"until [ -e {go} ]; do sleep 0.05; done"
    running = working("--once", "--parallel", "2", "--delay-ms", "0", queue, "--", "sh", "-c", program)
    until(lambda: counts(server, queue)["in_flight"] == 1, "the first job to run")
    before = resource.prlimit(running.process.pid, resource.RLIMIT_NOFILE)
    used = {int(each) for each in os.listdir(f"/proc/{running.process.pid}/fd")}
    first = min(set(range(len(used) + 1)) - used)  # free. A command needs more than three, and a call one
    resource.prlimit(running.process.pid, resource.RLIMIT_NOFILE, (first + 3, before[1]))
    client.append(queue, 2)
    until(lambda: running.says("did not start") or running.process.poll() is not None, "a command that does not start")
    resource.prlimit(running.process.pid, resource.RLIMIT_NOFILE, before)
    go.touch()
    assert running.process.wait(DEADLINE) == 0
    assert "job 2: the command did not start: [Errno 24] Too many open files" in running.output.read_text()
    assert counts(server, queue) == {"ready": 0, "in_flight": 0, "dead_lettered": 0}


def test_jobs_wait_while_no_thread_is_free(
    server: Instance, queue: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command of a job that is given back has not run."""
    HttpClient(server.port).append(queue, 1)
    runs = tmp_path / "runs"
    command = ["sh", "-c", f"echo run >> {runs}; echo no such image >&2"]
    worker = Worker(Remote(server.url, None), queue, "w", command, 1, 0, once=True)
    with no_thread():
        worker.turn()
    assert "job 1: the command did not start: [Errno 11] can't start new thread" in capsys.readouterr().err
    assert not runs.exists()
    worker.run()
    assert runs.read_text() == "run\n"
    until(lambda: "no such image" in capsys.readouterr().err, "the output of the command")
    assert counts(server, queue) == {"ready": 0, "in_flight": 0, "dead_lettered": 0}


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("work", "a-log", "--", "cat"), 1, "topic 'a-log' is a log: expected a queue"),
        (("work", "absent", "--", "cat"), 1, "absent"),
        (("work", "a-log", "--", "no-such-program"), 1, "there is no program 'no-such-program'"),
        (("work", "a-log"), 2, "Missing argument"),
    ],
)
def test_what_cannot_work_is_refused(elsewhere: Shell, arguments: tuple[str, ...], code: int, said: str) -> None:
    elsewhere("create", "a-log")
    refused = elsewhere(*arguments)
    assert refused.code == code
    assert said in refused.err


def test_it_works_on_the_database_of_this_machine(shell: Shell, name: str) -> None:
    shell(
        "create",
        name,
        "--type",
        "queue",
        "--lease-ms",
        "5000",
        "--max-deliveries",
        "3",
        "--dead-letter",
        f"{name}-dead",
    )
    shell("append", name, stdin=b"1\n2\n")
    assert shell("work", name, "--once", "--", "true").code == 0
    assert json.loads(shell("get", name, "--json").out)["queue"]["ready"] == 0

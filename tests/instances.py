"""An instance of the product as `make run` starts it: own folder, own port, real processes that can be killed."""

import contextlib
import fcntl
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import psycopg

import embedded
from base.processes import die_with_parent
from embedded.programs import POSTGRES_WHEELS, wheel_folders
from tests.deadlines import DEADLINE
from tests.preloaded import begin
from tests.runs import kill_processes, processes_of
from tests.shared_memory import free_shared_memory, remove_sockets
from topics_project.forks import Fork

ROOT = Path(__file__).resolve().parent.parent
# What the session's own servers are called must not reach an instance: it has its own.
OURS = ("DATABASE_URL", "REDIS_URL", "SECRET_KEY", "TOPICS_API_KEYS", "TOPICS_INSECURE", "DJANGO_SETTINGS_MODULE")
WHOLE = {"WEB_WORKERS": "2", "TOPICS_PROCESSES": "worker,push,beat"}  # every process of the product
RUN_FOLDER = "TESTS_FOLDER"  # in the environment: the folder that all processes of one test run share
# What an instance leaves in its folder that is about that one run of it: another one begins without.
OF_ONE_RUN = ("output", "logs", "metrics", "redis", "postgresql-port", "redis-port")
PORTS = range(12_000, 32_000)  # below those that the kernel gives to connections and to who asks for any (32768 up)
_ports_given: set[int] = set()


def until(condition: Callable[[], Any], what: str, seconds: float = DEADLINE, tick: float | None = None) -> Any:
    """The first true value of `condition`, or a failed test that says what was waited for.

    It looks ever more seldom, unless `tick` says after how many seconds: a look may be a request, or at a page of a browser,
    and other tests need the core.
    """
    deadline, pause = time.monotonic() + seconds, 0.02
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {seconds:.0f} s for {what}")
        time.sleep(pause if tick is None else tick)
        pause = min(pause * 1.25, 0.15)
    return value


def free_port() -> int:
    """Returns a port that stays free until who asked listens on it: each process of a test run has numbers of its
    own, and gives each of them once."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    ours = PORTS[worker :: int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))]
    while True:
        port = secrets.choice(ours)
        if port not in _ports_given and is_free(port):
            _ports_given.add(port)
            return port


def choose_ports(data: Path) -> None:
    """Says which ports the embedded servers of a folder take. A port that they chose themselves could be given to a connection of
    another process before they listen on it."""
    for name in ("postgresql-port", "redis-port"):
        (data / name).write_text(str(free_port()))


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def newest() -> Path:
    """The folder of the newest PostgreSQL that came as a wheel."""
    return max(folder for pattern in POSTGRES_WHEELS for folder in wheel_folders(pattern))


@dataclass
class Instance:
    data: Path
    port: int
    settings: dict[str, str] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | Fork | None = None
    command: Sequence[str] = (sys.executable, str(ROOT / "manage.py"), "run")
    preloaded: bool = False

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def output(self) -> str:
        """Everything `manage.py run` has printed so far."""
        path = self.data / "output"
        return path.read_text() if path.exists() else ""

    @property
    def servers(self) -> embedded.Servers:
        servers = embedded.running(self.data)
        assert servers is not None, "the instance is not running"
        return servers

    @property
    def environment(self) -> dict[str, str]:
        inherited = {name: value for name, value in os.environ.items() if name not in OURS}
        given = {"TOPICS_DATA": str(self.data), "HOST": "127.0.0.1", "PORT": str(self.port)}
        # The newest PostgreSQL, unless `make postgres` names another, so that what is found or measured is so everywhere.
        return {"TOPICS_POSTGRESQL": str(newest()), **inherited, **given, **self.settings}

    def run(self, *arguments: str) -> None:
        """Start it, without waiting."""
        self.data.mkdir(exist_ok=True)
        if self.preloaded:
            (self.data / "output").write_bytes(b"")  # an earlier run's lines are not this run's
            self.process = begin([*self.command, *arguments], self.environment, self.data, self.data / "output")
            return
        parent = os.getpid()
        with (self.data / "output").open("wb") as output:
            self.process = subprocess.Popen(
                [*self.command, *arguments],
                env=self.environment,
                stdout=output,
                stderr=output,
                start_new_session=True,
                cwd=self.data,
                # Whoever kills the tests must not be left with the servers.
                preexec_fn=lambda: die_with_parent(parent, signal.SIGTERM),
            )

    def start(self) -> None:
        """Start it and wait until it is ready."""
        self.run()
        until(lambda: "topics is up" in self.output or self.exited() is not None, "the instance to start")
        assert self.exited() is None, self.output

    def exited(self) -> int | None:
        return self.process.poll() if self.process else None

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Ask it to stop and wait until it and its servers are gone."""
        assert self.process is not None
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(number)
        code = self.process.wait(2 * DEADLINE)
        until(lambda: not self.pids(), "every process of the instance to end")
        return code

    def kill(self) -> None:
        """SIGKILL every process of it at once: supervisor, web, worker, beat, guard, PostgreSQL and Redis."""
        kill_processes(self.data)
        if self.process:
            self.process.wait()

    def end(self) -> None:
        """Ends every process of it for good, at once: PostgreSQL will not start again, and free its shared memory then."""
        self.kill()
        postmaster = self.data / "postgresql" / "postmaster.pid"
        free_shared_memory(postmaster)
        remove_sockets(postmaster)

    @property
    def secret(self) -> str:
        """Its SECRET_KEY."""
        return (self.data / "secret-key").read_text().strip()

    @property
    def redis_prefix(self) -> str:
        """What its keys in Redis begin with."""
        return f"topics:{sha256(self.secret.encode()).hexdigest()[:8]}:"

    def pids(self, name: str = "") -> list[int]:
        """Its processes with `name` in their command line."""
        return processes_of(self.data, name)

    def connect(self, **options: Any) -> psycopg.Connection[Any]:
        """Its database, for a look behind the wire. `options`: parameters of libpq."""
        return psycopg.connect(self.servers.database_url, autocommit=True, **options)

    def get(self, path: str) -> tuple[int, str]:
        request = urllib.request.Request(self.url + path)
        try:
            with urllib.request.urlopen(request, timeout=DEADLINE) as response:
                return response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def is_ready(self) -> bool:
        try:
            return self.get("/v0/ready")[0] == 200
        except OSError:
            return False


@contextlib.contextmanager
def start(command: Sequence[str] = Instance.command, **settings: str) -> Iterator[Instance]:
    """A running instance with these settings in its environment; gone with everything it kept at the end.

    Within a test run its folder is a copy of one that is migrated, and it is one web worker alone unless more is asked
    for (`**WHOLE`), with its libraries loaded beforehand (preloaded.py). `Instance(…).start()` starts everything, from
    nothing, and so does the benchmark, which is no test run.
    """
    within = RUN_FOLDER in os.environ
    if within:
        settings = {"WEB_WORKERS": "1", "TOPICS_PROCESSES": "", **settings}
    folder = Path(tempfile.mkdtemp(prefix="topics-instance-", dir=os.environ.get(RUN_FOLDER)))
    instance = Instance(folder, free_port(), settings, command=command, preloaded=within)
    try:
        if within:
            copy_migrated(instance.data)
        instance.start()
        yield instance
    finally:
        instance.end()
        shutil.rmtree(instance.data, ignore_errors=True)


def copy_migrated(folder: Path) -> None:
    """Fill an empty folder with what an instance has after its first start."""
    # cp keeps the owners: PostgreSQL does not run as root.
    subprocess.run(["cp", "-a", f"{migrated()}/.", folder], check=True)
    choose_ports(folder)


def migrated() -> Path:
    """Returns the folder of an instance that has started from nothing once and was stopped. Made by the first process of
    a test run that asks; the others wait for it."""
    run = Path(os.environ[RUN_FOLDER])
    made = run / "migrated"
    with (run / "making").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            first = Instance(run / "first", free_port(), {"WEB_WORKERS": "1", "TOPICS_PROCESSES": ""})
            try:
                first.start()
                assert first.stop() == 0, first.output
            finally:
                first.kill()
            for name in OF_ONE_RUN:
                shutil.rmtree(first.data / name, ignore_errors=True)
                (first.data / name).unlink(missing_ok=True)
            first.data.rename(made)
    return made

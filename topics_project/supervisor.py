"""Runs one instance in the foreground: migrates, creates the first admin, and runs web, worker, push and beat until a signal.

The supervisor restarts children that exit. A second supervisor in the same folder is refused. PostgreSQL and Redis are not
children of this process. Their guard (embedded/servers.py) runs until the last user of the servers exits.
"""

import errno
import fcntl
import gc
import os
import secrets
import shutil
import sys
import threading
import time
from importlib import import_module
from pathlib import Path

import psycopg
from django.conf import settings
from django.db import connection

import embedded
from base.locks import take_lock
from base.refusal import Refusal
from base.signals import on_signals
from embedded.children import Begin, Child, answers, execute, stop_all
from embedded.folder import bind, last_line, make, usable
from store.sessions import check_sessions, wait_for_sessions
from topics_project import heartbeats, late_check
from topics_project.forks import fork
from topics_project.heartbeats import Watch
from topics_project.operations.prepare import Say, first_admin, one_at_a_time, prepare_database

TICK = 0.25  # seconds between two checks of the children
# Outside of Linux, a fork cannot rely on the system's libraries, so each child loads the code itself.
BEGIN: Begin = fork if sys.platform == "linux" else execute


def run(say: Say) -> None:
    data: Path = settings.TOPICS_DATA
    stopping = on_signals()
    os.umask(0o077)  # also for the children: only this user can read their files
    make(data)
    with usable():
        held = take_lock(data / "locks" / "run", fcntl.LOCK_EX | fcntl.LOCK_NB)
    if held is None:
        raise Refusal(f"already running on {data}: stop it, or set TOPICS_DATA to another folder.")
    check_address()
    ours = embedded.ensure(data) if embedded.guarded(data) else None
    with one_at_a_time():
        prepare_database(say)
    with usable():
        clear_metrics(data)
        frozen = Watch(heartbeats.make(data), settings.TOPICS_FROZEN_SECONDS)
    if BEGIN is fork:
        load()
    children = [supervised(name, data) for name in PROCESSES if name == "web" or name in settings.TOPICS_PROCESSES]
    try:
        # The web server starts first, because people wait for the web server.
        connection.close()
        start(children[0])
        with one_at_a_time():
            login = first_admin(data)
        connection.close()
        if wait_until_ready(children[0], stopping):
            say(welcome(data, login))
            for child in children[1:]:
                start(child)
        watch(children, frozen, data, ours, stopping, say)
    finally:
        stop_all(children)
        os.close(held)


def check_address() -> None:
    try:
        bind(settings.HOST, settings.PORT)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise Refusal(f"port {settings.PORT} is in use: set PORT to another port.") from error
        where = f"{settings.HOST}, port {settings.PORT}"
        raise Refusal(f"cannot listen on {where} ({error.strerror}): set HOST and PORT.") from error


def load() -> None:
    """Loads the code of all children once, and excludes its objects from garbage collection.

    Otherwise the collector would copy the memory pages of each child.
    """
    for module in (settings.ROOT_URLCONF, "celery.bin.celery", "celery.apps.worker", "kombu.transport.redis"):
        import_module(module)
    gc.collect()
    gc.freeze()
    gc.set_threshold(700)  # Python's default, for the children: rare collections are long


def clear_metrics(data: Path) -> None:
    """Deletes the metrics of the previous run. The processes of an instance add up their counts in these files."""
    shutil.rmtree(data / "metrics", ignore_errors=True)
    (data / "metrics").mkdir(mode=0o700)


def web() -> list[str]:
    return [sys.executable, "-m", "topics_project.web"]


def worker() -> list[str]:
    argv = [sys.executable, "-m", "celery", "-A", "topics_project.celery", "worker", "--loglevel", "WARNING"]
    return [*argv, "--concurrency", str(settings.WORKER_PROCESSES), "--without-gossip", "--without-mingle"]


def push() -> list[str]:
    """Returns the command of the push worker.

    The dispatcher (push/delivery/dispatcher.py) delivers to callbacks. The Celery threads run the tasks of beat.
    """
    argv = [sys.executable, "-m", "celery", "-A", "topics_project.celery", "worker", "--loglevel", "WARNING"]
    argv += ["--queues", settings.CELERY_TASK_ROUTES["push.*"]["queue"], "--pool", "threads"]
    argv += ["--hostname", f"push-{secrets.token_hex(4)}@%h"]
    return [*argv, "--concurrency", "2", "--without-gossip", "--without-mingle"]


def beat() -> list[str]:
    argv = [sys.executable, "-m", "celery", "-A", "topics_project.celery", "beat", "--loglevel", "WARNING"]
    return [*argv, "--pidfile", ""]


PROCESSES = {"web": web, "worker": worker, "push": push, "beat": beat}


def become(name: str, say: Say) -> None:
    """Turns this process into one of the processes, for a machine whose own supervisor (systemd, Docker) runs each process."""
    os.umask(0o077)
    make(settings.TOPICS_DATA)
    if embedded.guarded(settings.TOPICS_DATA):
        raise Refusal(f"run {name} starts no servers: set DATABASE_URL and REDIS_URL, or run without {name}.")
    argv = PROCESSES[name]()
    if name == "web":
        argv += checked()
    else:
        wait_for_sessions(say)
    os.execve(argv[0], argv, {**os.environ, **found_anywhere()})


def checked() -> list[str]:
    """Returns the option of a web process that is to check its sessions later, because PostgreSQL is away.

    A web process does not wait, because `/v0/health` must answer without PostgreSQL, too.
    """
    try:
        check_sessions()
    except psycopg.OperationalError:
        return [late_check.OPTION]
    return []


def found_anywhere() -> dict[str, str]:
    """Returns the environment variables that let Python find this code from any working directory."""
    return {"PYTHONPATH": os.pathsep.join([str(settings.BASE_DIR), *filter(None, [os.getenv("PYTHONPATH")])])}


def supervised(name: str, data: Path) -> Child:
    """Returns a child whose own children exit with the child (web.py, celery.py)."""
    env = {"TOPICS_SUPERVISED": "1", **found_anywhere()}
    if name == "web":
        env["PROMETHEUS_MULTIPROC_DIR"] = str(data / "metrics")
    return Child(name, PROCESSES[name](), data / "logs" / f"{name}.log", env, begin=BEGIN)


def start(child: Child) -> None:
    """Starts a child for the first time. Raises Refusal if this machine has no process, memory or file for it."""
    try:
        child.start()
    except OSError as error:
        raise Refusal(f"{child.name} did not start: {error.strerror} ({error.filename or child.log}).") from error


def wait_until_ready(child: Child, stopping: threading.Event) -> bool:
    deadline = time.monotonic() + 45
    while not stopping.is_set():
        if answers(reachable_host(), settings.PORT, "/v0/ready"):
            return True
        if child.exited() is not None or time.monotonic() > deadline:
            raise Refusal(f"the web server did not start: {last_line(child.log)} ({child.log})")
        stopping.wait(0.05)
    return False


def reachable_host() -> str:
    everywhere = {"0.0.0.0": "127.0.0.1", "::": "::1"}
    host = settings.HOST.strip("[]")
    return everywhere.get(host, host)


def welcome(data: Path, login: str) -> str:
    host = reachable_host()
    base = f"http://[{host}]:{settings.PORT}" if ":" in host else f"http://{host}:{settings.PORT}"
    lines = [
        "topics is up. Ctrl-C stops it; the data stays.",
        f"  API    {base}/v0/topics",
        f"  docs   {base}/docs/",
        f"  try    {base}/v0/docs",
        f"  admin  {base}/admin/   {login}",
        f"  data   {data}   (logs in {data / 'logs'})",
    ]
    return "\n".join(lines)


def watch(
    children: list[Child],
    frozen: Watch,
    data: Path,
    ours: embedded.Servers | None,
    stopping: threading.Event,
    say: Say,
) -> None:
    """Looks after all processes until `stopping` is set. `ours`: the embedded servers, if this instance has them."""
    while not stopping.wait(TICK):
        frozen.end_frozen(say)
        for child in children:
            child.revive(time.monotonic(), say)
            child.bound_log()
        if ours and not embedded.guarded(data):
            bring_back(ours, data, stopping, say)


def bring_back(ours: embedded.Servers, data: Path, stopping: threading.Event, say: Say) -> None:
    """Starts another guard. Raises Refusal if its servers are not where `ours` were, because no process would find them."""
    say("the guard of the embedded servers exited: starting another")
    try:
        found = embedded.ensure(data)
    except (SystemExit, OSError) as error:  # a full disk, for example, can have room again later
        say(f"{str(error).rstrip('.')}. Next attempt in 5 s")
        stopping.wait(5)
        return
    if found != ours:
        raise Refusal("the embedded servers have another port or password than before: start again.")

"""One instance in the foreground: migrate, make the first admin, run web, worker and beat until a signal.

A child that dies is started again; a second supervisor on the same folder is refused. PostgreSQL and Redis are not
children of this process: their guard (embedded/servers.py) outlives it until the last user has left.
"""

import contextlib
import errno
import fcntl
import gc
import http.client
import os
import secrets
import shutil
import signal
import sys
import tempfile
import threading
import time
from importlib import import_module
from pathlib import Path

import psycopg
from django.conf import settings
from django.db import connection

from base.locks import take_lock
from base.refusal import Refusal
from store.sessions import check_sessions
from topics_project import embedded, heartbeats
from topics_project.embedded.children import Begin, Child, execute, stop_all
from topics_project.embedded.folder import bind, last_line, make
from topics_project.forks import fork
from topics_project.heartbeats import Watch
from topics_project.prepare import Say, first_admin, one_at_a_time, prepare_database

TICK = 0.25  # seconds between two looks at the children
# Elsewhere than on Linux, a fork cannot count on the libraries of the system: there each child loads its code itself.
BEGIN: Begin = fork if sys.platform == "linux" else execute
STREAMS_PER_WORKER = 16_384  # requests a web worker holds at once; TOPICS_MAX_STREAMS is the limit people meet
CONNECTION_BYTES = 208 * 1024
# To granian's own allocator: what is free for a second goes back to the system, with the next few hundred requests. At
# once would cost each request its page faults, and a large answer a fifth of its time.
GIVE_BACK = ("_RJEM_MALLOC_CONF", "dirty_decay_ms:1000,muzzy_decay_ms:0")


def run(say: Say) -> None:
    data: Path = settings.TOPICS_DATA
    stopping = on_signals()
    os.umask(0o077)  # for the children, too: what they write is for us alone
    make(data)
    held = take_lock(data / "locks" / "run", fcntl.LOCK_EX | fcntl.LOCK_NB)
    if held is None:
        raise Refusal(f"already running on {data}: stop that one, or set TOPICS_DATA to another folder.")
    check_address()
    with one_at_a_time():
        prepare_database(say)
    clear_metrics(data)
    if BEGIN is fork:
        load()
    frozen = Watch(heartbeats.make(data), settings.TOPICS_FROZEN_SECONDS)
    children = [supervised(name, data) for name in PROCESSES if name == "web" or name in settings.TOPICS_PROCESSES]
    try:
        # The web server alone at first: people wait for it.
        connection.close()
        children[0].start()
        with one_at_a_time():
            login = first_admin(data)
        connection.close()
        if wait_until_ready(children[0], stopping):
            say(welcome(data, login))
            for child in children[1:]:
                child.start()
        watch(children, frozen, data, stopping, say)
    finally:
        stop_all(children)
        os.close(held)


def on_signals() -> threading.Event:
    stopping = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # From a thread of its own: a handler may interrupt the event's wait() while that holds the event's lock.
        signal.signal(number, lambda *_: threading.Thread(target=stopping.set, daemon=True).start())
    return stopping


def check_address() -> None:
    try:
        bind(settings.HOST, settings.PORT)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise Refusal(f"port {settings.PORT} is taken: set PORT=… to another one.") from error
        where = f"{settings.HOST}, port {settings.PORT}"
        raise Refusal(f"cannot listen on {where} ({error.strerror}): set HOST and PORT.") from error


def load() -> None:
    """All the code that the children run, once for all of them; out of sight of the garbage collector, which would have
    each of them copy it only by looking at it."""
    for module in (settings.ROOT_URLCONF, "celery.bin.celery", "celery.apps.worker", "kombu.transport.redis"):
        import_module(module)
    gc.collect()
    gc.freeze()
    gc.set_threshold(700)  # as Python has it, for who serves: a rare look is a long one


def clear_metrics(data: Path) -> None:
    """What the processes of an instance count starts at nothing with it; between them it adds up in these files."""
    shutil.rmtree(data / "metrics", ignore_errors=True)
    (data / "metrics").mkdir(mode=0o700)


def web() -> list[str]:
    argv = [sys.executable, "-m", "granian", "--interface", "asgi", "--loop", "uvloop", "--http", "auto"]
    argv += ["--host", settings.HOST.strip("[]"), "--port", str(settings.PORT), "--workers", str(settings.WEB_WORKERS)]
    argv += ["--backlog", "4096", "--backpressure", str(STREAMS_PER_WORKER), "--http2-max-concurrent-streams", "1000"]
    # Of each connection, what is read and not yet parsed, and what is written and not yet taken: no more than a head
    # with the longest Last-Event-ID, and what a stream may hold (watch/outflow.py).
    argv += ["--http1-buffer-size", str(CONNECTION_BYTES), "--http2-max-send-buffer-size", str(CONNECTION_BYTES)]
    # Streams never end by themselves: after five seconds a stopping worker is ended with those it still holds.
    argv += ["--respawn-failed-workers", "--respawn-interval", "0.5", "--workers-kill-timeout", "5"]
    return [*argv, "--no-access-log", "--log-level", "warning", "topics_project.asgi:application"]


def worker() -> list[str]:
    argv = [sys.executable, "-m", "celery", "-A", "topics_project.celery", "worker", "--loglevel", "WARNING"]
    return [*argv, "--concurrency", str(settings.WORKER_PROCESSES), "--without-gossip", "--without-mingle"]


def push() -> list[str]:
    """Delivers to callbacks, in a courier beside these threads (push/courier.py); the threads are for what beat asks for."""
    argv = [sys.executable, "-m", "celery", "-A", "topics_project.celery", "worker", "--loglevel", "WARNING"]
    argv += ["--queues", "push", "--hostname", f"push-{secrets.token_hex(4)}@%h", "--pool", "threads"]
    return [*argv, "--concurrency", "4", "--without-gossip", "--without-mingle"]


def beat() -> list[str]:
    argv = [sys.executable, "-m", "celery", "-A", "topics_project.celery", "beat", "--loglevel", "WARNING"]
    return [*argv, "--pidfile", ""]


PROCESSES = {"web": web, "worker": worker, "push": push, "beat": beat}


def become(name: str) -> None:
    """This process turns into one of them, for a machine whose own supervisor (systemd, Docker) runs them singly."""
    os.umask(0o077)
    make(settings.TOPICS_DATA)
    if embedded.guarded(settings.TOPICS_DATA):
        raise Refusal(f"run {name} does not bring servers: set DATABASE_URL and REDIS_URL, or run all of it.")
    with contextlib.suppress(psycopg.OperationalError):  # PostgreSQL is away: the process waits for it
        check_sessions()
    argv = PROCESSES[name]()
    if name == "beat":  # it answers `celery inspect ping` while it ticks, for who looks after its health
        argv.append("--enable-remote-control")
    if name == "web":
        os.environ.setdefault(*GIVE_BACK)
        # Its workers add up what they count in there.
        os.environ.setdefault("PROMETHEUS_MULTIPROC_DIR", tempfile.mkdtemp(prefix="topics-metrics-"))
    os.execve(argv[0], argv, {**os.environ, **found_anywhere()})


def found_anywhere() -> dict[str, str]:
    """The environment in which this code is found from any working directory."""
    return {"PYTHONPATH": os.pathsep.join([str(settings.BASE_DIR), *filter(None, [os.getenv("PYTHONPATH")])])}


def supervised(name: str, data: Path) -> Child:
    """With its own children told to end with it (asgi.py, celery.py)."""
    env = {"TOPICS_SUPERVISED": "1", **found_anywhere()}
    if name == "web":
        env["PROMETHEUS_MULTIPROC_DIR"] = str(data / "metrics")
        env[GIVE_BACK[0]] = os.environ.get(*GIVE_BACK)
    return Child(name, PROCESSES[name](), data / "logs" / f"{name}.log", env, begin=BEGIN)


def wait_until_ready(child: Child, stopping: threading.Event) -> bool:
    deadline = time.monotonic() + 45
    while not stopping.is_set():
        if is_ready():
            return True
        if child.exited() is not None or time.monotonic() > deadline:
            raise Refusal(f"the web server did not start: {last_line(child.log)} ({child.log})")
        stopping.wait(0.05)
    return False


def is_ready() -> bool:
    client = http.client.HTTPConnection(reachable_host(), settings.PORT, timeout=5)
    try:
        client.request("GET", "/v0/ready")
        return client.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        client.close()


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
        f"  docs   {base}/v0/docs",
        f"  admin  {base}/admin/   {login}",
        f"  data   {data}   (logs in {data / 'logs'})",
    ]
    return "\n".join(lines)


def watch(children: list[Child], frozen: Watch, data: Path, stopping: threading.Event, say: Say) -> None:
    ours = embedded.guarded(data)
    while not stopping.wait(TICK):
        frozen.end_frozen(say)
        for child in children:
            child.revive(time.monotonic(), say)
            child.bound_log()
        if ours and not embedded.guarded(data):
            bring_back(data, stopping, say)


def bring_back(data: Path, stopping: threading.Event, say: Say) -> None:
    say("the guard of the embedded servers is gone; starting another")
    try:
        embedded.ensure(data)
    except SystemExit as refusal:  # a full disk, say: it may have room again later
        say(f"{refusal}; again in 5 s")
        stopping.wait(5)

"""The embedded servers of a folder: PostgreSQL and Redis for a machine without them. Several processes share the servers.

Every user process holds a shared lock on `locks/users` until the process exits. Each folder has one guard process, which holds
`locks/guard`. The guard runs the servers, restarts a server that exits, and stops with the servers when `locks/users` is free.
Locks end with their processes, so a kill -9 of any process leaves nothing to repair by hand.
"""

import contextlib
import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from base.locks import is_locked, take_lock
from base.refusal import Refusal
from base.secret import given
from embedded.children import LONGEST_LOG
from embedded.folder import LEAST_SECRET, data_dir, keep_secret, last_line, make, open_log, shorten, usable, write
from embedded.postgres import USER, Postgres
from embedded.redis import RedisServer

PATIENCE = 90.0  # seconds for the start or the stop of a guard
TICK = 0.3  # seconds between two checks of the guard
NEAR_TICK = 0.03  # seconds between two checks on a nearly full disk: at 200 MB/s the disk fills quickly
NEAR = 512 * 2**20  # bytes of room that count as nearly full
ENOUGH = 48 * 2**20  # bytes of room that appends need again after a full disk; more than one checkpoint frees


@dataclass(frozen=True)
class Servers:
    database_url: str
    redis_url: str
    jdbc_url: str
    jdbc_user: str
    jdbc_password: str


def running(data: Path | None = None) -> Servers | None:
    """Returns the addresses of the folder's servers, or None without a guard.

    None also while the guard is about to repair the file with the addresses.
    """
    data = data or data_dir()
    if guarded(data):
        with contextlib.suppress(OSError, ValueError, TypeError):
            return Servers(**json.loads((data / "servers.json").read_text()))
    return None


def is_used(data: Path | None = None) -> bool:
    """Returns whether an instance has ever run in the folder. It then has a cluster of PostgreSQL."""
    return ((data or data_dir()) / "postgresql").exists()


def guarded(data: Path) -> bool:
    """Returns whether a guard runs the servers of the folder, or is about to."""
    try:
        return is_locked(data / "locks" / "guard")
    except OSError:  # no guard can hold a lock file that cannot be opened
        return False


@contextlib.contextmanager
def use(data: Path | None = None) -> Iterator[Servers]:
    """Provides the folder's servers within this block, and starts missing servers.

    After the block the servers stop, unless other processes use the servers.
    """
    data = data or data_dir()
    make(data)
    # This waits only for a guard that is stopping. Such a guard holds the lock exclusively until its servers have stopped.
    user = _lock(data / "locks" / "users", fcntl.LOCK_SH)
    try:
        yield ensure(data)
    finally:
        os.close(user)
        _wait_until_stopped(data)


def ensure(data: Path) -> Servers:
    """Returns the servers for a user, and starts a missing guard."""
    # If two users start at once, the second waits here, and then finds the servers of the first.
    starting = _lock(data / "locks" / "starting", fcntl.LOCK_EX)
    deadline = time.monotonic() + PATIENCE
    try:
        # A guard without the file is about to write the file, or is stopping. A second guard would wait for the first anyway.
        while guarded(data):
            if (servers := running(data)) is not None:
                return servers
            if time.monotonic() > deadline:
                raise Refusal(f"the guard of {data} does not report its servers: stop the guard, and start again.")
            time.sleep(0.05)
        return _start_guard(data)
    finally:
        os.close(starting)


def _wait_until_stopped(data: Path) -> None:
    users, deadline = data / "locks" / "users", time.monotonic() + PATIENCE
    while guarded(data) and time.monotonic() < deadline:
        # Other users hold the lock if the lock can be shared. A stopping guard holds the lock exclusively.
        if is_locked(users) and not is_locked(users, fcntl.LOCK_SH):
            return
        time.sleep(0.05)


@contextlib.contextmanager
def environment() -> Iterator[None]:
    """Sets DATABASE_URL, REDIS_URL and SECRET_KEY to the embedded servers' values, if the variables are missing.

    A shell whose DATABASE_URL is already the embedded server's, as docs/pipeline.md prints it, gets the same secret key.
    """
    if given("DATABASE_URL") and given("REDIS_URL"):
        yield
        return
    data = data_dir()
    with use(data) as servers:
        if not given("DATABASE_URL"):
            os.environ["DATABASE_URL"] = servers.database_url
        if os.environ.get("DATABASE_URL") == servers.database_url and not given("SECRET_KEY"):
            os.environ["SECRET_KEY"] = keep_secret(data / "secret-key", LEAST_SECRET)
        if not given("REDIS_URL"):
            os.environ["REDIS_URL"] = servers.redis_url
        yield


def _lock(path: Path, operation: int) -> int:
    with usable():
        descriptor = take_lock(path, operation)
    assert descriptor is not None, "a blocking flock returns when it has the lock"
    return descriptor


def _start_guard(data: Path) -> Servers:
    log = data / "logs" / "embedded.log"
    with usable():
        (data / "servers.json").unlink(missing_ok=True)
        output = open_log(log)
    with output:
        argv = [sys.executable, "-m", "embedded", str(data)]
        root = Path(__file__).parent.parent
        code = subprocess.call(argv, stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=root)
    servers = running(data)
    if code or servers is None:
        raise SystemExit(last_line(log))  # the guard's own Refusal
    return servers


# -- The guard --------------------------------------------------------------------------------------------------------


def detach(data: Path) -> None:
    """Runs the guard as a daemon in its own session. This process exits when the servers answer, or when the start fails."""
    reader, writer = os.pipe()
    if os.fork():
        os.close(writer)
        os._exit(0 if os.read(reader, 1) else 1)
    os.close(reader)
    os.setsid()
    guard(data, ready=lambda: os.write(writer, b"."))


def guard(data: Path, ready: Callable[[], object]) -> None:
    """Runs the servers until no process uses the servers, or until SIGTERM."""
    stopping = False

    def stop(*_: object) -> None:
        nonlocal stopping
        stopping = True

    signal.signal(signal.SIGTERM, stop)
    os.umask(0o077)
    _held = _lock(data / "locks" / "guard", fcntl.LOCK_EX)
    postgres, redis = Postgres(data), RedisServer(data)
    full: int | None = None
    try:
        postgres.start()
        redis.start()
        where = json.dumps(asdict(_servers(postgres, redis)))
        write(data / "servers.json", where)
        ready()
        while not stopping and not _unused(data):
            for child in (postgres.child, redis.child):
                if child:
                    child.revive(time.monotonic(), _say)
                    child.bound_log()
            keep(data / "servers.json", where)
            shorten(data / "logs" / "embedded.log", LONGEST_LOG)
            room = postgres.room()
            full = mind_disk(data / "locks" / "full", room, full)
            time.sleep(NEAR_TICK if 0 < room < NEAR else TICK)
    finally:
        (data / "servers.json").unlink(missing_ok=True)
        redis.stop()
        postgres.stop()


def keep(path: Path, text: str) -> None:
    """Restores a file that was changed. Each call is one bounded step. The next step retries a failed step."""
    try:
        if path.read_text(errors="replace") == text:
            return
    except OSError:
        pass  # the file was removed, or cannot be read
    with contextlib.suppress(OSError):
        write(path, text)
        _say(f"{path} was changed: restored its content")


def mind_disk(path: Path, room: int, held: int | None) -> int | None:
    """Holds a lock while the disk has no room for records. Returns the lock's descriptor, or None.

    Appends check the lock (store/disk.py). `room` is in bytes. A lock needs no room on the disk, and ends with this process.
    """
    if room > (0 if held is None else ENOUGH):
        if held is not None:
            os.close(held)
            _say("the disk has space again: appends are accepted")
        return None
    if held is None:
        # A process that checks the lock can hold the lock briefly. The next round then takes the lock.
        held = take_lock(path, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _say("the disk is full: appends are refused until space is free")
    return held


def _unused(data: Path) -> bool:
    """Returns True if the last user has left. The guard then keeps the lock, so new users wait until the guard has exited."""
    return take_lock(data / "locks" / "users", fcntl.LOCK_EX | fcntl.LOCK_NB) is not None


def _servers(postgres: Postgres, redis: RedisServer) -> Servers:
    return Servers(postgres.url, redis.url, postgres.jdbc_url, USER, postgres.password)


def _say(message: str) -> None:
    print(time.strftime("%Y-%m-%d %H:%M:%S"), message, flush=True)

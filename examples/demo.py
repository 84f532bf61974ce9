"""The common part of the demos: one folder, ports side by side, and processes that run until Ctrl-C."""

import fcntl
import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from base.locks import take_lock
from base.refusal import Refusal
from embedded.children import Child, answers
from embedded.folder import bind, last_line

ROOT = Path(__file__).parent.parent
HOST = "127.0.0.1"
START_SECONDS = 180.0  # the first start makes databases
TICK = 0.25  # seconds between two looks at the processes
NEXT_PORTS = ("", " The next port must be free, too.", " The next two ports must be free, too.")  # by their number


def free_ports(first: int, count: int) -> list[int]:
    """Returns `count` ports side by side, from PORT on (default `first`). Raises Refusal for one that is taken."""
    given = os.environ.get("PORT", "").strip() or str(first)
    most = 65536 - count
    if not given.isdecimal() or not 1 <= int(given) <= most:
        raise Refusal(f"PORT={given} is not a whole number from 1 to {most} (default {first}).")
    ports = [int(given) + place for place in range(count)]
    for port in ports:
        try:
            bind(HOST, port)
        except OSError as error:
            raise Refusal(f"port {port} is in use: set PORT to a free port.{NEXT_PORTS[count - 1]}") from error
    return ports


@contextmanager
def folder(name: str) -> Iterator[Path]:
    """Gives the folder of all data, TOPICS_DATA or this one in the clone, to one demo at a time. Raises Refusal."""
    data = Path(os.environ.get("TOPICS_DATA", "").strip() or ROOT / name).expanduser().absolute()
    try:
        data.mkdir(mode=0o711, parents=True, exist_ok=True)  # an embedded PostgreSQL of root's is another user
        (data / "lock").touch(mode=0o600)
    except OSError as error:
        raise Refusal(f"the data folder {data} cannot be used ({error.strerror}): set TOPICS_DATA.") from error
    held = take_lock(data / "lock", fcntl.LOCK_EX | fcntl.LOCK_NB)
    if held is None:
        raise Refusal(f"the demo already runs on {data}: stop it, or set TOPICS_DATA to another folder.")
    try:
        yield data
    finally:
        os.close(held)


def forget_settings(*names: str) -> None:
    for name in names:
        os.environ.pop(name, None)
        os.environ.pop(f"{name}_FILE", None)


def listen_on(port: int) -> dict[str, str]:
    return {"HOST": HOST, "PORT": str(port)}


def wait_until_ready(child: Child, port: int, path: str, stopping: threading.Event) -> None:
    """Wait until it is ready, or until the demo is stopped. Raises Refusal if the process ended."""
    deadline = time.monotonic() + START_SECONDS
    while not stopping.is_set() and not answers(HOST, port, path):
        if child.exited() is not None or time.monotonic() > deadline:
            raise Refusal(f"{child.name} did not start: {last_line(child.log)} ({child.log})")
        stopping.wait(TICK)


def keep_running(children: Sequence[Child], stopping: threading.Event) -> None:
    """Starts each process again that ends, until the demo is stopped."""
    while not stopping.wait(TICK):
        for child in children:
            child.revive(time.monotonic(), say)
            child.bound_log()


def shown(file: Path) -> Path:
    """The file as it is typed in the clone."""
    return file.relative_to(ROOT) if file.is_relative_to(ROOT) else file


def say(text: str) -> None:
    """Also at once where the output is a file. The line is one write, because several threads of an example may speak."""
    print(text + "\n", end="", flush=True)

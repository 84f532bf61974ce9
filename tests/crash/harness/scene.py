"""The shared part of the runs with servers and gateways of their own: their processes, their folder and their command line."""

from __future__ import annotations

import argparse
import os
import signal
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random, SystemRandom
from typing import Any

from tests.gateway.running import Running
from tests.instances import RUN_FOLDER, Instance, copy_migrated
from tests.runs import begin_run

ALONE = {"WEB_WORKERS": "1", "TOPICS_PROCESSES": ""}
Say = Callable[[str], None]


class Broken(Exception):
    """The servers did what docs/gateway.md excludes."""


def judge(faults: Iterable[str]) -> None:
    """Raises Broken if an oracle found faults."""
    if told := list(faults):
        raise Broken("\n".join(told[:10]))


class Scene:
    """Servers and gateways in one folder. They end with `stack`."""

    def __init__(self, folder: Path, chance: Random, stack: ExitStack) -> None:
        self.folder, self.chance, self.stack = folder, chance, stack

    def start_server(
        self, name: str, port: int, settings: dict[str, str] | None = None, *, preloaded: bool = True
    ) -> Instance:
        server = Instance(self.folder / name, port, {**ALONE, **(settings or {})}, preloaded=preloaded)
        copy_migrated(server.data)
        self.stack.callback(server.end)
        server.start()
        return server

    def start_gateway(self, number: int, configuration: dict[str, Any]) -> Running:
        folder = self.folder / f"gateway-{number}"
        folder.mkdir()
        gateway = Running(folder, configuration)
        self.stack.callback(gateway.kill)
        return gateway.start()


@contextmanager
def frozen(pids: Iterable[int]) -> Iterator[None]:
    """These processes stand still, so that connections open and nothing answers."""
    stopped = list(pids)
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)


@contextmanager
def folder_of_servers() -> Iterator[tuple[Path, ExitStack]]:
    """A folder for the servers of a run, and the stack with which they end."""
    folder = begin_run("crash")
    os.environ.setdefault(RUN_FOLDER, str(folder))
    with ExitStack() as stack:
        yield folder, stack


def main(run: Callable[[int, int, Say], str], prog: str, description: str | None, counted: str, default: int) -> int:
    """The command line of a run: its seed, and the number of what it counts. Returns the exit code."""
    parser = argparse.ArgumentParser(prog=prog, description=description)
    parser.add_argument(f"--{counted}", dest="number", type=int, default=default)
    parser.add_argument("--seed", type=int, help="replays the order of a run (default: another each time)")
    arguments = parser.parse_args()
    seed = SystemRandom().randrange(10**6) if arguments.seed is None else arguments.seed
    began = time.monotonic()
    print(f"{arguments.number} {counted}, SEED={seed}", flush=True)

    def say(line: str) -> None:
        print(f"{time.monotonic() - began:7.1f} s  {line}", flush=True)

    try:
        told = run(seed, arguments.number, say)
    except (Broken, AssertionError) as error:
        traceback.print_exc()
        print(f"BROKEN: {error}. SEED={seed} replays the order")
        return 1
    print(f"Nothing broke: {told}. SEED={seed}, {time.monotonic() - began:.0f} s")
    return 0

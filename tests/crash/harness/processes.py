"""Who is who among the processes of an instance: by command line and parent, as /proc has them now."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from tests.instances import Instance


class Process(NamedTuple):
    pid: int
    parent: int
    command: str


class Processes:
    """One look at an instance. A process that has ended since is in no list of later looks."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.all = [found for pid in sorted(instance.pids()) if (found := look(pid)) is not None]

    def with_command(self, *words: str) -> list[Process]:
        return [each for each in self.all if all(word in each.command for word in words)]

    def children_of(self, parents: Iterable[Process]) -> list[Process]:
        pids = {each.pid for each in parents}
        return [each for each in self.all if each.parent in pids]

    @property
    def guard(self) -> list[Process]:
        return self.with_command("-m embedded")

    @property
    def web(self) -> list[Process]:
        """The server that the web workers are children of."""
        return self._parents(self.with_command("topics_project.web"))

    @property
    def web_workers(self) -> list[Process]:
        return [each for each in self.children_of(self.web) if "topics_project.web" in each.command]

    @property
    def worker(self) -> list[Process]:
        return [each for each in self._parents(self.with_command("celery", " worker ")) if each not in self.push]

    @property
    def push(self) -> list[Process]:
        """Returns the processes that deliver to callbacks."""
        return self.with_command("celery", " worker ", "--queues topics.push")

    @property
    def pool(self) -> list[Process]:
        """Returns the processes in which the worker runs tasks."""
        return [each for each in self.children_of(self.worker) if "celery" in each.command]

    @property
    def beat(self) -> list[Process]:
        return self.with_command("celery", " beat ")

    @property
    def redis(self) -> list[Process]:
        return self.with_command("redis-server")

    @property
    def postmaster(self) -> list[Process]:
        return self.with_command("bin/postgres", "-D")

    @property
    def postgres(self) -> list[Process]:
        """All of PostgreSQL."""
        return self.postmaster + self.with_command("postgres: ")

    @property
    def backends(self) -> list[Process]:
        return self.with_command("postgres: topics ")

    @property
    def helpers(self) -> list[Process]:
        """Those of PostgreSQL's that serve no connection: checkpointer, walwriter and so on."""
        return [each for each in self.with_command("postgres: ") if each not in self.backends]

    def _parents(self, family: list[Process]) -> list[Process]:
        pids = {each.pid for each in family}
        return [each for each in family if each.parent not in pids]


def children_of(parent: int) -> list[Process]:
    """The processes that this one has begun and that have not ended."""
    pids = [int(entry.name) for entry in Path("/proc").glob("[0-9]*")]
    return [found for pid in pids if (found := look(pid)) is not None and found.parent == parent and found.command]


def look(pid: int) -> Process | None:
    """None: it has ended."""
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # The name in parentheses may hold anything; the parent is the second field behind it.
    return Process(pid, int(status.rpartition(")")[2].split()[1]), command)


def send(number: signal.Signals, processes: Iterable[Process]) -> None:
    for each in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(each.pid, number)

"""An instance whose web processes serve by turns with and without traces: `python -m bench.turns run`.

Each process writes the CPU time of its turns into the folder `turns` of the instance.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from collections.abc import Awaitable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, cast

from http1 import Answering, Handler, Request

if TYPE_CHECKING:
    from wire.observers.traced import Traced

TURN_SECONDS = 0.25
LEAST_REQUESTS = 200  # of a turn under load
EXPORTER = "OtelBatch"  # the begin of the name of the exporter's thread


class Turn(NamedTuple):
    """One turn of a process. CPU times are of the event loop's thread and of the exporter's, in µs; `micros` is for a request."""

    traced: bool
    requests: int
    micros: float
    exporter_micros: float


class ByTurns:
    """A handler that changes between a handler with traces and the handler within."""

    def __init__(self, traced: Traced, file: Path) -> None:
        self.traced, self.file = traced, file
        self.handler: Handler = traced
        self.requests, self.began, self.exported = 0, 0, 0
        self.turn()

    def __call__(self, request: Request) -> Answering | Awaitable[Answering]:
        self.requests += 1
        return self.handler(request)

    def turn(self) -> None:
        """Ends a turn, and begins the next one."""
        is_traced, exported = self.handler is self.traced, exporter_ns()
        if self.requests >= LEAST_REQUESTS:
            micros = (time.thread_time_ns() - self.began) / 1000 / self.requests
            with self.file.open("a") as file:
                print(int(is_traced), self.requests, micros, (exported - self.exported) / 1000, file=file)
        self.handler = self.traced.handler if is_traced else self.traced
        self.requests, self.exported, self.began = 0, exported, time.thread_time_ns()
        asyncio.get_running_loop().call_later(TURN_SECONDS, self.turn)


def exporter_ns() -> int:
    """Returns the CPU time (ns) of the exporter's thread."""
    threads = [each.native_id for each in threading.enumerate() if each.name.startswith(EXPORTER)]
    return sum(int(Path(f"/proc/self/task/{each}/schedstat").read_text().split()[0]) for each in threads)


def turns(data: Path) -> list[list[Turn]]:
    """Returns the turns of each process since the last call, without those at the begin and the end of the load."""
    found = []
    for file in (data / "turns").iterdir():
        rows = [line.split() for line in file.read_text().splitlines()][1:-1]
        found.append([Turn(row[0] == "1", int(row[1]), float(row[2]), float(row[3])) for row in rows])
        file.unlink()
    return found


def serve() -> int:
    """Runs the web server."""
    from topics_project import serve, web

    whole = serve.handler
    folder = Path(os.environ["TOPICS_DATA"]) / "turns"
    folder.mkdir(exist_ok=True)

    def handler() -> Handler:
        traced = cast("Traced", whole())  # the variables OTEL_… are set
        return ByTurns(traced, folder / str(os.getpid()))

    serve.handler = handler
    return web.main()


def run() -> None:
    """Runs an instance with this web server."""
    from topics_project import __main__ as command_line
    from topics_project import forks

    run_module = forks.run
    forks.run = lambda argv: run_module(["bench.turns" if each == "topics_project.web" else each for each in argv])
    command_line.main()


if __name__ == "__main__":
    run() if sys.argv[1:] == ["run"] else sys.exit(serve())

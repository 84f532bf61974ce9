"""Servers of Redis that the product did not start, as a team already has them."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import redis

from embedded import programs
from tests.instances import free_port, until
from tests.processes import child_process


class OwnRedis:
    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self.client = redis.Redis(port=self.port)
        self.running = contextlib.ExitStack()

    def start(self) -> None:
        command = [str(programs.redis().path), "--port", str(self.port), "--save", "", "--dir", str(self.folder)]
        process = self.running.enter_context(child_process(command, stdout=subprocess.DEVNULL))
        self.running.callback(process.kill)
        until(self.answers, "Redis")

    def stop(self) -> None:
        self.running.close()

    def answers(self) -> bool:
        try:
            return bool(self.client.ping())
        except redis.RedisError:
            return False


@contextlib.contextmanager
def own_redis(folder: Path) -> Iterator[OwnRedis]:
    made = OwnRedis(folder)
    made.start()
    try:
        yield made
    finally:
        made.stop()

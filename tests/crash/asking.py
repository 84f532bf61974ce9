"""Requests with a deadline each, alone and as a load: one that is not answered in time fails its test."""

from __future__ import annotations

import contextlib
import http.client
import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from tests.deadlines import DEADLINE
from tests.instances import until

Call = tuple[str, str, Any]  # method, path, body


class Answered(NamedTuple):
    status: int
    json: Any


def ask(port: int, method: str, path: str, body: Any = None, seconds: float = DEADLINE) -> Answered:
    """The answer on a connection of its own. Raises OSError when the server is not there, TimeoutError when it is late."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=seconds)
    try:
        payload = None if body is None else json.dumps(body).encode()
        headers = {"accept": "application/json", **({"content-type": "application/json"} if payload else {})}
        connection.request(method, path, payload, headers)
        answer = connection.getresponse()
        return Answered(answer.status, json.loads(answer.read() or b"null"))
    finally:
        connection.close()


class Load:
    """Threads that send requests without a pause, and their answers."""

    def __init__(self, port: int, seconds: float, names: list[str]) -> None:
        self.port, self.seconds, self.names = port, seconds, names
        self.statuses: Counter[tuple[str, int]] = Counter()  # by call and status
        self.late: list[str] = []
        self.ending = threading.Event()

    def repeat(self, name: str, call: Callable[[int], Call]) -> None:
        number = 0
        while not self.ending.is_set():
            number += 1
            method, path, body = call(number)
            try:
                answer = ask(self.port, method, path, body, self.seconds)
            except TimeoutError:
                self.late.append(f"{method} {path}")
            except (OSError, http.client.HTTPException):
                self.statuses[name, 0] += 1
            else:
                self.statuses[name, answer.status] += 1

    def until_more(self, status: int, more: int, seconds: float = DEADLINE) -> None:
        """Come back when each call was answered so as many times more."""
        before = {name: self.statuses[name, status] for name in self.names}
        until(
            lambda: all(self.statuses[name, status] >= count + more for name, count in before.items()),
            f"every call to be answered {status}",
            seconds,
        )


@contextlib.contextmanager
def load(port: int, seconds: float, calls: dict[str, Callable[[int], Call]], threads: int = 2) -> Iterator[Load]:
    """Each of the calls, by so many threads, for as long as this lasts; none may take longer than these seconds."""
    running = Load(port, seconds, list(calls))
    workers = [
        threading.Thread(target=running.repeat, args=(name, call))
        for name, call in calls.items()
        for _ in range(threads)
    ]
    for worker in workers:
        worker.start()
    try:
        yield running
    finally:
        running.ending.set()
        for worker in workers:
            worker.join()

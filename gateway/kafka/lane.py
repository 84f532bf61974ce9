"""A lane: appends wait in it, and its thread takes them in rounds. The thread begins with the first append."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator
from typing import Generic, TypeVar

from base.errors import ShuttingDown

Waiting = TypeVar("Waiting")
Round = TypeVar("Round")


class KafkaLane(ABC, Generic[Waiting, Round]):
    """`thread_name`: of the thread, for operators."""

    thread_name: str

    def __init__(self) -> None:
        self.waiting: deque[Waiting] = deque()
        self.changed = threading.Condition()
        self.thread: threading.Thread | None = None
        self.closed = False

    def put(self, append: Waiting) -> None:
        """Has an append wait for the next round. Raises ShuttingDown, and what `admit` raises."""
        with self.changed:
            if self.closed:
                raise ShuttingDown("this gateway is shutting down: send again to another gateway")
            self.admit(append)
            self.waiting.append(append)
            if self.thread is None:
                self.thread = threading.Thread(target=self.run, name=self.thread_name, daemon=True)
                self.thread.start()
            self.changed.notify()

    def close(self) -> None:
        """The appends that wait are still written."""
        with self.changed:
            self.closed = True
            self.changed.notify()

    def join(self) -> None:
        """Waits until a closed lane has written its appends. Blocks."""
        if self.thread is not None:
            self.thread.join()

    def rounds(self) -> Iterator[Round]:
        """Yields round after round, until the lane is closed and empty."""
        while True:
            with self.changed:
                while not self.waiting and not self.closed:
                    self.changed.wait()
                if not self.waiting:
                    return
                chosen = self.next_round()
            yield chosen

    def admit(self, append: Waiting) -> None:
        """Counts an append that is about to wait, or raises TopicsError. The caller holds the lock."""

    @abstractmethod
    def next_round(self) -> Round:
        """Takes the appends of the next round. The caller holds the lock."""

    @abstractmethod
    def run(self) -> None:
        """Writes the rounds, in the lane's thread."""

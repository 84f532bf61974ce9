"""A lane: appends wait in it, and its thread takes them in rounds. The thread begins with the first append."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sized
from typing import Generic, Protocol, TypeVar

from base.errors import NotReady, ShuttingDown, Throttled

MOST_WAITING_BYTES = 64 * 1024 * 1024  # of a lane
MOST_ROUND_BYTES = 16 * 1024 * 1024
MOST_ROUND_RECORDS = 50_000


class WaitingAppend(Protocol):
    """`size`: bytes of its messages, at most."""

    @property
    def size(self) -> int: ...
    @property
    def messages(self) -> Sized: ...


Waiting = TypeVar("Waiting", bound=WaitingAppend)
Round = TypeVar("Round")


class KafkaLane(ABC, Generic[Waiting, Round]):
    """`thread_name`: of the thread, for operators."""

    thread_name: str

    def __init__(self) -> None:
        self.waiting: deque[Waiting] = deque()
        self.bytes = 0  # of those that wait
        self.changed = threading.Condition()
        self.thread: threading.Thread | None = None
        self.closed = False

    def put(self, append: Waiting) -> None:
        """Has an append wait for the next round. Raises ShuttingDown, Throttled, NotReady."""
        with self.changed:
            if self.closed:
                raise ShuttingDown("this gateway is shutting down: send again to another gateway")
            if self.bytes + append.size > MOST_WAITING_BYTES:
                raise Throttled(
                    f"appends of {MOST_WAITING_BYTES} bytes wait for Kafka: send again later",
                    limit="waiting_bytes",
                    max=MOST_WAITING_BYTES,
                )
            self.thread = self.thread or self.started()
            self.bytes += append.size
            self.waiting.append(append)
            self.changed.notify()

    def started(self) -> threading.Thread:
        """Starts the lane's thread. Raises NotReady if the machine has none to give for a while."""
        made = threading.Thread(target=self.run, name=self.thread_name, daemon=True)
        try:
            made.start()
        except RuntimeError as error:
            raise NotReady(f"this gateway cannot write to Kafka now: {error}") from error
        return made

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

    def choose(self, fits: Callable[[Waiting], bool]) -> None:
        """Takes the appends of a round from the line. Those that do not fit stay, in order.

        `fits` tells whether the round has room for an append, and then counts it.
        """
        left: list[Waiting] = []
        size = records = 0
        while self.waiting and size < MOST_ROUND_BYTES and records < MOST_ROUND_RECORDS:
            append = self.waiting.popleft()
            if fits(append):
                size += append.size
                records += len(append.messages)
            else:
                left.append(append)
        self.waiting.extendleft(reversed(left))
        self.bytes -= size

    @abstractmethod
    def next_round(self) -> Round:
        """Takes the appends of the next round. The caller holds the lock."""

    @abstractmethod
    def run(self) -> None:
        """Writes the rounds, in the lane's thread."""

"""SIGTERM and SIGINT end a worker or a member between two jobs or records. A second signal ends the process as usual."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from types import FrameType

SIGNALS = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def handled(receive: Callable[[], None]) -> Iterator[None]:
    """Calls `receive` in the main thread at the first signal. Does nothing in other threads, which get no signals."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {each: signal.getsignal(each) for each in SIGNALS}

    def restore() -> None:
        for each, handler in before.items():
            signal.signal(each, handler)

    def received(number: int, frame: FrameType | None) -> None:
        restore()
        receive()

    for each in SIGNALS:
        signal.signal(each, received)
    try:
        yield
    finally:
        restore()


def on_signal(stop: Callable[[], None]) -> AbstractContextManager[None]:
    """Calls `stop` in a thread of its own at the first signal, so that it can wait for a lock that the main thread holds."""
    return handled(lambda: threading.Thread(target=stop).start())


@contextmanager
def on_loop_signal(stop: Callable[[], None]) -> Iterator[None]:
    """As `on_signal`, in an event loop."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()

    def received() -> None:
        remove()
        stop()

    def remove() -> None:
        for each in SIGNALS:
            loop.remove_signal_handler(each)

    for each in SIGNALS:
        loop.add_signal_handler(each, received)
    try:
        yield
    finally:
        remove()


class Stopped(Exception):
    """A signal has ended a wait."""


class Interrupt:
    """Ends a wait of the main thread at a signal: `with interrupt.waiting()`. Outside of waits it sets `is_set` alone."""

    def __init__(self) -> None:
        self.is_set = self.is_waiting = False

    def set(self) -> None:
        self.is_set = True

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Raises Stopped within the block, also if a signal came before."""
        if self.is_set:
            raise Stopped
        self.is_waiting = True
        try:
            yield
        finally:
            self.is_waiting = False

    def installed(self) -> AbstractContextManager[None]:
        """Handles the signals."""
        return handled(self.receive)

    def receive(self) -> None:
        self.is_set = True
        if self.is_waiting:
            raise Stopped

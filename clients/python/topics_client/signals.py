"""SIGTERM and SIGINT end a worker or a member between two jobs or records. A second signal ends the process as usual."""

from __future__ import annotations

import asyncio
import signal
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from weakref import WeakKeyDictionary

SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Handling(ABC):
    """Handles the signals for all workers and members of the main thread, or of an event loop: the first signal ends them all."""

    def __init__(self) -> None:
        self.calls: list[Callable[[], None]] = []

    @contextmanager
    def calling(self, call: Callable[[], None]) -> Iterator[None]:
        """Calls `call` at the first signal. Does nothing in other threads than the main one, which get no signals."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        self.calls.append(call)
        if len(self.calls) == 1:
            self.install()
        try:
            yield
        finally:
            with suppress(ValueError):  # a signal has taken it
                self.calls.remove(call)
            if not self.calls:
                self.restore()

    def receive(self) -> None:
        self.restore()
        calls, self.calls = self.calls, []
        with ExitStack() as each:  # also if one of them raises
            for call in calls:
                each.callback(call)

    @abstractmethod
    def install(self) -> None: ...

    @abstractmethod
    def restore(self) -> None: ...


class MainHandling(Handling):
    """For workers and loops of the main thread."""

    def install(self) -> None:
        self.before = {each: signal.getsignal(each) for each in SIGNALS}
        for each in SIGNALS:
            signal.signal(each, lambda number, frame: self.receive())

    def restore(self) -> None:
        for each, handler in self.before.items():
            signal.signal(each, handler)


class LoopHandling(Handling):
    """For the tasks of an event loop."""

    def install(self) -> None:
        for each in SIGNALS:
            asyncio.get_running_loop().add_signal_handler(each, self.receive)

    def restore(self) -> None:
        for each in SIGNALS:
            asyncio.get_running_loop().remove_signal_handler(each)


_main = MainHandling()
_loops: WeakKeyDictionary[asyncio.AbstractEventLoop, LoopHandling] = WeakKeyDictionary()


def on_signal(stop: Callable[[], None]) -> AbstractContextManager[None]:
    """Calls `stop` in a thread of its own at the first signal, so that it can wait for a lock that the main thread holds."""
    return _main.calling(lambda: threading.Thread(target=stop).start())


def on_loop_signal(stop: Callable[[], None]) -> AbstractContextManager[None]:
    """As `on_signal`, in an event loop."""
    return _loops.setdefault(asyncio.get_running_loop(), LoopHandling()).calling(stop)


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
        return _main.calling(self.receive)

    def receive(self) -> None:
        self.is_set = True
        if self.is_waiting:
            raise Stopped

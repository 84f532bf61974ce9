"""SIGTERM and SIGINT end a worker or a member between two jobs or records. A second signal ends the process as usual."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from types import FrameType
from typing import Any

SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Handling:
    """Handles the signals for all workers and members of the main thread, or of an event loop: the first signal ends them all.

    A handler of the application for SIGTERM is called at once, too. Its exception, such as SystemExit, is raised after the last
    of them has ended, because otherwise it would cut off running jobs. `soon`: calls a function outside of the handler of a
    signal.
    """

    def __init__(self, soon: Callable[[Callable[[], None]], object] = lambda call: call()) -> None:
        self.soon = soon
        self.calls: list[Callable[[], None]] = []
        self.before: dict[signal.Signals, Any] = {}
        self.blocks = 0
        self.raised: BaseException | None = None

    @contextmanager
    def calling(self, call: Callable[[], None]) -> Iterator[None]:
        """Calls `call` at the first signal. Does nothing in other threads than the main one, which get no signals."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        self.blocks += 1
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
            self.blocks -= 1
            if not self.blocks and (raised := self.raised):
                self.raised = None
                raise raised

    def install(self) -> None:
        self.before = {each: signal.getsignal(each) for each in SIGNALS}
        for each in SIGNALS:
            signal.signal(each, self.handle)

    def restore(self) -> None:
        for each, handler in self.before.items():
            if handler is not None:  # it is not of Python
                signal.signal(each, handler)
        self.before = {}

    def handle(self, number: int, frame: FrameType | None) -> None:
        theirs = self.before.get(signal.SIGTERM) if number == signal.SIGTERM else None
        self.restore()
        try:
            self.soon(self.receive)
        finally:
            if callable(theirs):
                try:
                    theirs(number, frame)
                except BaseException as error:
                    self.raised = error

    def receive(self) -> None:
        calls, self.calls = self.calls, []
        with ExitStack() as each:  # also if one of them raises
            for call in calls:
                each.callback(call)


_main = Handling()
_loops: dict[asyncio.AbstractEventLoop, Handling] = {}


def on_signal(stop: Callable[[], None]) -> AbstractContextManager[None]:
    """Calls `stop` in a thread of its own at the first signal, so that it can wait for a lock that the main thread holds."""
    return _main.calling(lambda: threading.Thread(target=stop).start())


@contextmanager
def on_loop_signal(stop: Callable[[], None]) -> Iterator[None]:
    """Calls `stop` in the event loop at the first signal."""
    loop = asyncio.get_running_loop()
    handling = _loops.setdefault(loop, Handling(loop.call_soon_threadsafe))
    try:
        with handling.calling(stop):
            yield
    finally:
        if not handling.blocks:
            _loops.pop(loop, None)


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

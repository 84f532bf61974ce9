"""Tells a handler that waits that its client is gone, so that the wait ends.

A server whose handlers run to their end (`Limits.cancels` is False) does not cancel them, because a write must not stop in the
middle. A handler that only waits names a callback for this case. A client that has ended its side of the connection counts as
gone, too: a program that exits does just this, and no byte tells the difference. A client that still reads gets its answer early.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from weakref import WeakSet

_waits: dict[asyncio.Task[object], Callable[[], object]] = {}
_gone: WeakSet[asyncio.Task[object]] = WeakSet()


@contextmanager
def on_hang_up(callback: Callable[[], object]) -> Iterator[None]:
    """Calls `callback` if the client of the current task is gone, or hangs up in this block."""
    task = asyncio.current_task()
    assert task is not None
    if task in _gone:
        callback()
    _waits[task] = callback
    try:
        yield
    finally:
        del _waits[task]


def has_hung_up() -> bool:
    """Returns whether the client of the current task is gone."""
    return asyncio.current_task() in _gone


def hang_up(task: asyncio.Task[object]) -> None:
    """Called by a server: the client of the request that this task answers is gone."""
    _gone.add(task)
    if (callback := _waits.get(task)) is not None:
        callback()

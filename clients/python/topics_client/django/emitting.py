"""Events in the transaction of your rows, and a look at them in tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple, overload

from topics_client import sql
from topics_client.django.places import connection


class Event(NamedTuple):
    topic: str
    data: Any
    tag: str | None
    node: str | None
    meta: dict[str, Any] | None
    key: str | None


class Events(Sequence[Event]):
    """The events that were emitted, without those of savepoints and transactions that were rolled back.

    Django tells of no rollback after `set_autocommit(False)`, so an event of such a transaction stays.
    """

    def __init__(self) -> None:
        self.emitted: list[tuple[Event, Any, Callable[[], None]]] = []
        self.committed: set[int] = set()

    def add(self, event: Event) -> None:
        number, connected = len(self.emitted), connection()

        def commit() -> None:
            self.committed.add(number)

        self.emitted.append((event, connected, commit))
        if sql.runs_callbacks(connected):
            connected.on_commit(commit)
        else:
            commit()

    def _kept(self) -> list[Event]:
        # Django drops the callbacks of a savepoint when it is rolled back. Those of a TestCase wait for ever.
        return [
            event
            for number, (event, connected, commit) in enumerate(self.emitted)
            if number in self.committed or any(callback is commit for _, callback, *_ in connected.run_on_commit)
        ]

    @overload
    def __getitem__(self, index: int) -> Event: ...
    @overload
    def __getitem__(self, index: slice) -> list[Event]: ...
    def __getitem__(self, index: int | slice) -> Event | list[Event]:
        return self._kept()[index]

    def __len__(self) -> int:
        return len(self._kept())

    def __repr__(self) -> str:
        return repr(self._kept())


_captured: ContextVar[Events | None] = ContextVar("captured", default=None)


def emit(
    topic: str,
    data: Any,
    *,
    tag: str | None = None,
    node: str | None = None,
    meta: dict[str, Any] | None = None,
    key: str | None = None,
) -> None:
    """Emits a record: it arrives exactly once if the transaction of this thread commits, and never otherwise.

    `key`: an idempotency key. Raises a DatabaseError if PostgreSQL refuses the record.
    """
    event = Event(topic, data, tag, node, meta, key)
    if (events := _captured.get()) is not None:
        sql.values_of(topic, data, tag, node, meta, key)  # raises what emit would raise for data that is no JSON
        events.add(event)
    else:
        sql.emit(connection(), topic, data, tag=tag, node=node, meta=meta, key=key)


@contextmanager
def captured_events() -> Iterator[Events]:
    """Within the block, `emit` writes nothing, and the events are in a list. For tests: they need no topics."""
    token = _captured.set(events := Events())
    try:
        yield events
    finally:
        _captured.reset(token)

"""The handlers of this project: functions that get the records of a topic, or the jobs of a queue."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from topics_client.following import OnLoss

Function = TypeVar("Function", bound=Callable[..., Any])


class Handler(NamedTuple):
    """`group` is the cursor of the handler of a topic, and None for a queue."""

    function: Callable[[Any], Any]
    topic: str
    group: str | None = None
    on_loss: OnLoss = "raise"
    concurrency: int = 1
    lease_ms: int = 60_000

    @property
    def name(self) -> str:
        return f"{self.topic}:{self.group}" if self.group else self.topic

    @property
    def label(self) -> str:
        return f"{self.function.__module__}.{self.function.__qualname__}"


handlers: dict[str, Handler] = {}


def on_topic(topic: str, *, group: str, on_loss: OnLoss = "raise") -> Callable[[Function], Function]:
    """Decorates a function that gets each record of the topic, in order.

    If topics is in a database of this project, the function runs in a transaction that commits its position, too: its rows change
    exactly once for each record. Otherwise it is a member of a consumer group, and after a crash some records come again.
    `on_loss`: as in Topic.follow.
    """

    def add(function: Function) -> Function:
        register(Handler(function, topic, group, on_loss=on_loss))
        return function

    return add


def on_job(queue: str, *, concurrency: int = 1, lease_ms: int = 60_000) -> Callable[[Function], Function]:
    """Decorates a function that gets each job of the queue, in up to `concurrency` threads.

    If topics is in a database of this project, the function runs in a transaction that acks the job, too, and must end within
    `lease_ms`. Otherwise the lease is extended while it runs, and after a crash a job comes again.
    """

    def add(function: Function) -> Function:
        register(Handler(function, queue, concurrency=concurrency, lease_ms=lease_ms))
        return function

    return add


def register(handler: Handler) -> None:
    known = handlers.setdefault(handler.name, handler)
    if known is not handler:
        raise ValueError(
            f"{handler.name} has two handlers: {known.function.__qualname__} and {handler.function.__qualname__}"
        )

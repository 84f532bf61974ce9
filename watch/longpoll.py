"""The long poll of a diff: a follower for one read.

It waits in the event loop and holds neither a thread nor a connection, whichever door it came through. A view that finds
nothing to tell says so in the request's environment (PENDING), and the front calls it again when there may be something.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple, TypeVar

from watch.hub import hub
from wire import shutdown as drain

T = TypeVar("T")
AGAIN = "topics.again"  # in a request's environment: the front may ask the view again
PENDING = "topics.pending"  # what the view waits for, if it does

_waiting: set[Poll] = set()


class Pending(NamedTuple):
    """A read that has nothing to tell while the topic's head is there, and may wait so long."""

    topic_id: int
    head_seq: int
    seconds: float


class Poll:
    """Waits until a topic's head is not where it was, at most until the deadline (of the loop's clock)."""

    def __init__(self, topic_id: int, seq: int) -> None:
        self.topic_id, self.seq, self.hub = topic_id, seq, hub()
        self.moved = self.hub.loop.create_future()
        self.hub.follow(topic_id, self)
        _waiting.add(self)

    def heard(self, head_seq: int) -> None:
        if head_seq != self.seq:
            self.vanished()

    def vanished(self) -> None:
        if not self.moved.done():
            self.moved.set_result(None)

    async def wait(self, deadline: float) -> None:
        if drain.begun():
            return
        timer = self.hub.loop.call_at(deadline, self.vanished)
        try:
            await self.moved
        finally:
            timer.cancel()

    def stop(self) -> None:
        self.hub.leave(self.topic_id, self)
        _waiting.discard(self)


def release() -> None:
    """This process is about to end: nobody waits on."""
    for poll in list(_waiting):
        poll.vanished()


drain.before_the_end(release, lambda: bool(_waiting))


async def patiently(read: Callable[[bool], Awaitable[tuple[T, Pending | None]]]) -> T:
    """What `read` answers, once it has anything to tell or its time is up. It is told whether it may be asked again."""
    answer, pending = await read(True)
    if pending is None:
        return answer
    loop = hub().loop
    deadline = loop.time() + pending.seconds
    while pending is not None:
        poll = Poll(pending.topic_id, pending.head_seq)
        try:
            answer, pending = await read(True)  # once more: what moved before we followed is not heard
            if pending is not None:
                await poll.wait(deadline)
                answer, pending = await read(loop.time() < deadline and not drain.begun())
        finally:
            poll.stop()
    return answer

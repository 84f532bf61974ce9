"""The long poll of a diff (contract.md section 4): a follower for one read."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from topics.diff import Window
from topics.known import remembered
from topics.watch import drain
from topics.watch.hub import hub

_waiting: set[Poll] = set()


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


async def patiently(read: Callable[[], Awaitable[Window]], name: str, from_seq: int, seconds: float) -> Window:
    """What `read` answers, once there is anything to tell or the time is up."""
    deadline = hub().loop.time() + seconds
    window = await read()
    while not window.tells(from_seq) and hub().loop.time() < deadline and not drain.begun():
        topic = remembered.get(name)
        poll = Poll(topic.id if topic else 0, window.head_seq)
        try:
            window = await read()  # once more: what moved before we followed is not heard
            if not window.tells(from_seq) and topic is not None:
                await poll.wait(deadline)
                window = await read()
        finally:
            poll.stop()
    return window

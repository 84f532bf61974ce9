"""The long poll of a diff: a follower for one read. Waits in the event loop, without a thread or a connection."""

from __future__ import annotations

from http1.hang_up import has_hung_up, on_hang_up
from watch.hub import hub
from wire.process import shutdown

_waiting: set[Poll] = set()


class Poll:
    """Waits until a topic's head is no longer at `seq`, the topic is sealed or deleted, the client is gone, or the deadline (of
    the loop's clock) is over.

    The hub checks once a second whether the topic is sealed, and calls heard() each time.
    """

    view = None

    def __init__(self, topic_id: int, seq: int) -> None:
        self.topic_id, self.seq, self.hub = topic_id, seq, hub()
        self.moved = self.hub.loop.create_future()
        self.hub.follow(topic_id, self)
        _waiting.add(self)

    def heard(self, head_seq: int) -> None:
        if head_seq != self.seq or self.topic_id in self.hub.sealed:
            self.vanished()

    def vanished(self) -> None:
        if not self.moved.done():
            self.moved.set_result(None)

    async def wait(self, deadline: float) -> None:
        if shutdown.begun():
            return
        timer = self.hub.loop.call_at(deadline, self.vanished)
        try:
            with on_hang_up(self.vanished):
                await self.moved
        finally:
            timer.cancel()

    def stop(self) -> None:
        self.hub.leave(self.topic_id, self)
        _waiting.discard(self)


def release() -> None:
    """Ends all waits, because this process is about to exit."""
    for poll in list(_waiting):
        poll.vanished()


def busy() -> bool:
    """Returns True while long polls wait."""
    return bool(_waiting)


async def until_moved(topic_id: int, head_seq: int, seconds: float) -> bool:
    """Returns when the topic's head is not at `head_seq`, when the topic is sealed, or after `seconds`. A hook of the log
    (topics/hooks.py).

    Returns True if another wait is useful, and False after the deadline, before the process exits, or if the client is gone.
    """
    poll = Poll(topic_id, head_seq)
    deadline = poll.hub.loop.time() + seconds
    try:
        # The hub does not call heard() for an append between the caller's read and `follow`. So we query the head.
        if await poll.hub.head(topic_id) == head_seq:
            await poll.wait(deadline)
    finally:
        poll.stop()
    return poll.hub.loop.time() < deadline and not shutdown.begun() and not has_hung_up()

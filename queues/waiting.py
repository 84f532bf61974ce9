"""A claim that waits for a job: its worker need not poll. Waits in the event loop, without a thread or a connection."""

from __future__ import annotations

import time

from base.clock import now_ms
from contract.operations import LONGEST_WAIT_MS
from http1.hang_up import has_hung_up
from queues.claim import Claimed, claim
from store.script import Pause, Script
from topics.cache import topic_called
from watch.longpoll import Poll
from wire.access.entrance import check_still
from wire.access.keys import Key
from wire.process import shutdown

_polls: dict[str, set[JobPoll]] = {}  # of this process, by queue


class JobPoll(Poll):
    """Waits until a queue may have a ready job.

    An append ends the wait, and so does a job that this process gives back. Leases and delays that end are found at the hub's
    look of each second.
    """

    def __init__(self, topic: str, topic_id: int) -> None:
        super().__init__(topic_id, 0)
        self.topic = topic
        _polls.setdefault(topic, set()).add(self)

    def heard(self, head_seq: int) -> None:
        self.vanished()

    async def wait(self, deadline: float) -> None:
        await super().wait(deadline)
        self.moved = self.hub.loop.create_future()

    def stop(self) -> None:
        super().stop()
        _polls[self.topic].discard(self)
        if not _polls[self.topic]:
            del _polls[self.topic]


class Begin(Pause):
    """Returns a poll of a queue. In a thread, which cannot wait, the answer is None."""

    def __init__(self, topic: str, topic_id: int) -> None:
        self.topic, self.topic_id = topic, topic_id

    async def over(self) -> JobPoll:
        return JobPoll(self.topic, self.topic_id)


class UntilReady(Pause):
    """Waits until the queue may have a ready job, or `seconds` are over. Returns whether to claim again.

    A client that is gone gets no jobs. Raises Unauthorized if the key counts no longer.
    """

    def __init__(self, poll: JobPoll, seconds: float, key: Key) -> None:
        self.poll, self.seconds, self.key = poll, seconds, key

    async def over(self) -> bool:
        loop = self.poll.hub.loop
        deadline = loop.time() + self.seconds
        await self.poll.wait(deadline)
        await check_still(self.key)
        return loop.time() < deadline and not shutdown.begun() and not has_hung_up()


def claim_waiting(
    name: str, node: str, most_jobs: int, lease_ms: int | None, wait_ms: int, key: Key
) -> Script[Claimed]:
    """Claims as `claim` does. If the queue has no ready job, waits up to `wait_ms` for one, while the key counts."""
    ends = time.monotonic() + min(wait_ms, LONGEST_WAIT_MS) / 1000
    done = yield from claim(name, node, most_jobs, lease_ms, now_ms())
    if done.jobs or not wait_ms:
        return done
    topic = yield from topic_called(name)
    poll: JobPoll | None = yield Begin(name, topic.id)
    if poll is None:
        return done
    try:
        while True:
            # The first of these claims finds a job that came before the poll began.
            done = yield from claim(name, node, most_jobs, lease_ms, now_ms())
            left = ends - time.monotonic()
            if done.jobs or left <= 0 or not (yield UntilReady(poll, left, key)):
                return done
    finally:
        poll.stop()


def freed(topic: str) -> None:
    """Tells the claims of this process that wait that jobs were given back. Called in any thread."""
    for poll in list(_polls.get(topic, ())):
        poll.hub.loop.call_soon_threadsafe(poll.vanished)

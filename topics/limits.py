"""Caps on the number and bytes of all topics together. Above a cap: 429, like the caps of wire/limits.py. 0 turns a cap off."""

from __future__ import annotations

import time

from django.conf import settings

from base.errors import Throttled
from store.script import Script, Statement
from topics.read.totals import BYTES, TOPICS
from wire import limits, metrics

FRESH_SECONDS = 1.0
MOST_TOTAL_BYTES = settings.TOPICS_MAX_TOTAL_BYTES  # read once, because each append needs it
THERE = "SELECT FROM topics_topic WHERE name = %s"
SHARE = 16  # a process makes at most a sixteenth of the free topics before it counts again
SHARE_SECONDS = 10.0  # and counts again after this time, because other processes use the room, too
FULL_SECONDS = 0.1  # after a count without room, how long this process does not count again
_total = [0.0, 0]  # time until which the sum of all bytes counts as fresh, and the sum


class Granted:
    """The number of topics that this process may make without another count.

    A count reads all topics and costs 10 ms of PostgreSQL for 100,000. With a count for each new topic, a store that is
    four fifths full would make 200 topics a second instead of thousands. A full store would be busy with refusals. So after
    a count a process makes a share of the free topics without another count. Shares shrink with the room. At the end the
    share is 0 and each new topic needs a count. If topics are made one after the other, the cap is exact. If many processes
    make topics at once, the cap is exact to a sixteenth of the last room.
    """

    most = 0  # the cap of this share: a test may set another
    share = left = 0
    until = 0.0
    full = False

    def take(self, most: int, now: float) -> bool:
        """Returns whether one more topic needs no count."""
        if most != self.most:
            self.most, self.share, self.full, self.until = most, 0, False, 0.0
        if now < self.until and self.left:
            self.left -= 1
            return True
        return False

    def refuses(self, now: float) -> bool:
        """Whether the last count found no room and is still fresh."""
        return self.full and now < self.until

    def lend(self, now: float) -> None:
        """Called when a count starts. Other calls would repeat the count until it ends, so they are refused as before, or take
        another share in advance."""
        self.left, self.until = self.share, now + FRESH_SECONDS

    def renew(self, room: int, now: float) -> None:
        """Gives this process its share of `room` topics, as counted at `now`."""
        self.full = room <= 0
        self.share = self.left = 0 if self.full else room // SHARE
        self.until = now + (FULL_SECONDS if self.full else SHARE_SECONDS)


granted = Granted()


def check_topics(name: str) -> Script[None]:
    """Raises Throttled if this topic would exceed the cap."""
    most, now = settings.TOPICS_MAX_TOPICS, time.monotonic()
    if not most or granted.take(most, now):
        return
    if granted.refuses(now):  # a topic that exists is not refused
        topics, there = most, bool((yield Statement(THERE, (name,), quick=True)))
    else:
        granted.lend(now)
        ((topics, there),) = yield Statement(TOPICS, (name,))
        granted.renew(most - topics, now)
    if not there:
        limits.check("topics", most, topics, limits.LATER)


def check_total_bytes(more: int) -> Script[None]:
    """Raises Throttled if the topics would hold too many bytes.

    If the sum over all topics is one second old, the next call renews the sum. The cap protects disks and is not exact to
    the byte.
    """
    most = MOST_TOTAL_BYTES
    if (now := time.monotonic()) >= _total[0]:
        if _total[0]:  # Other calls use the old sum meanwhile. Otherwise all would add up all topics at once.
            _total[0] = now + FRESH_SECONDS
        ((total,),) = yield Statement(BYTES)
        _total[:] = [time.monotonic() + FRESH_SECONDS, total]
    if _total[1] + more > most:
        metrics.throttled("total_bytes")
        raise too_many_bytes(_total[1])


def too_many_bytes(total: float) -> Throttled:
    message = f"the topics hold {total} of at most {MOST_TOTAL_BYTES} bytes (TOPICS_MAX_TOTAL_BYTES): delete records"
    return Throttled(message, limit="total_bytes", max=MOST_TOTAL_BYTES, retry_after=limits.LATER)

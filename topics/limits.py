"""Caps on what all topics hold together: 429, like those of wire/limits.py. 0 turns a cap off."""

from __future__ import annotations

import time

from django.conf import settings

from base.errors import Throttled
from store.script import Script, Statement
from wire import limits, metrics

TOTAL = "SELECT coalesce(sum(bytes), 0)::bigint FROM topics_topichead"
FRESH_SECONDS = 1.0
MOST_TOTAL_BYTES = settings.TOPICS_MAX_TOTAL_BYTES  # read once: an append asks for it
TOPICS = "SELECT count(*), EXISTS (SELECT FROM topics_topic WHERE name = %s) FROM topics_topic"
THERE = "SELECT FROM topics_topic WHERE name = %s"
SHARE = 16  # a process makes at most a sixteenth of the topics there is room for before it counts again
SHARE_SECONDS = 10.0  # and counts again after that time, as others use the room up as well
FULL_SECONDS = 0.1  # for which nobody counts whether there is room again
_total = [0.0, 0]  # until when the sum of all bytes counts as fresh, and that sum


class Granted:
    """The topics this process may make before it counts again.

    A count reads all topics, 10 ms of PostgreSQL for 100,000. Counted for each new topic, a store that is four fifths full
    would make 200 topics a second instead of thousands, and one that is full would be busy with refusing. So a process
    that counts goes on without for a share of the room that it found. Shares shrink with the room, down to none, where
    each topic is counted for: the cap holds to the topic as long as topics are made one after the other, and within a
    sixteenth of the last room when many processes make them at once.
    """

    most = 0  # the cap that the share is of: a test may set another
    share = left = 0
    until = 0.0
    full = False

    def take(self, most: int, now: float) -> bool:
        """Returns whether one more needs no count."""
        if most != self.most:
            self.most, self.share, self.full, self.until = most, 0, False, 0.0
        if now < self.until and self.left:
            self.left -= 1
            return True
        return False

    def refuses(self, now: float) -> bool:
        """Whether there was no room when it was last counted, and that is fresh."""
        return self.full and now < self.until

    def lend(self, now: float) -> None:
        """Somebody counts. Whoever comes meanwhile would count the same: it is refused as before, or takes another share on
        credit."""
        self.left, self.until = self.share, now + FRESH_SECONDS

    def renew(self, room: int, now: float) -> None:
        """Of `room` topics, as counted at `now`, this process has its share."""
        self.full = room <= 0
        self.share = self.left = 0 if self.full else room // SHARE
        self.until = now + (FULL_SECONDS if self.full else SHARE_SECONDS)


granted = Granted()


def check_topics(name: str) -> Script[None]:
    """Raises Throttled when this topic would be one too many."""
    most, now = settings.TOPICS_MAX_TOPICS, time.monotonic()
    if not most or granted.take(most, now):
        return
    if granted.refuses(now):  # what is there already makes no topic more
        topics, there = most, bool((yield Statement(THERE, (name,), quick=True)))
    else:
        granted.lend(now)
        ((topics, there),) = yield Statement(TOPICS, (name,))
        granted.renew(most - topics, now)
    if not there:
        limits.check("topics", most, topics, limits.LATER)


def check_total_bytes(more: int) -> Script[None]:
    """Raises Throttled. The sum over all topics is renewed by who finds it a second old: a cap against filling disks, not a
    quota to the byte."""
    most = MOST_TOTAL_BYTES
    if (now := time.monotonic()) >= _total[0]:
        if _total[0]:  # The others go by the old sum meanwhile: each of them would add up all topics at once.
            _total[0] = now + FRESH_SECONDS
        ((total,),) = yield Statement(TOTAL)
        _total[:] = [time.monotonic() + FRESH_SECONDS, total]
    if _total[1] + more > most:
        metrics.throttled("total_bytes")
        message = f"the topics hold {_total[1]} bytes of {most}"
        raise Throttled(message, limit="total_bytes", max=most, retry_after=limits.LATER)

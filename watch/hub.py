"""Calls the followers of a topic in this process when the topic's head advances.

Wake-ups come from four sources: appends of this process, those of its neighbours (nearby.py), those of all processes through
Redis (wakes.py), and a query of all heads once a second. A lost message delays a record by up to a second, and no record is lost.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable, Iterable
from itertools import islice
from typing import Protocol

from base.clock import now_ms
from base.errors import TopicsError
from base.neighbours import Neighbours
from base.outage import Pace
from base.per_loop import PerLoop
from store.database import translated
from store.loop import here
from store.script import Statement
from topics import wake
from topics.append.written import Written
from topics.heads import HEAD
from topics.read import recency
from watch.feeds import Feeds
from watch.nearby import Nearby
from watch.reading import ReadView
from watch.wakes import Wakes

log = logging.getLogger(__name__)
LOOK_SECONDS = 0.9  # between two queries of all heads
MOST_VIEWS = 8  # followers whose views get the records of an append from memory

# The fields also give the effective priority: the configured priority, and when the topic was last touched.
FACTS = "t.id, h.head_seq, t.sealed, t.priority, t.auto_priority, greatest(t.created_ts, h.last_ts), h.last_read_ts"
HEADS = f"""
SELECT {FACTS}
  FROM topics_topic t CROSS JOIN LATERAL (SELECT * FROM topic_heads WHERE topic_id = t.id LIMIT 1) h
 WHERE t.id = ANY(%s)
"""
BY_NAME = f"""
SELECT t.name, {FACTS}
  FROM topics_topic t CROSS JOIN LATERAL (SELECT * FROM topic_heads WHERE topic_id = t.id LIMIT 1) h
 WHERE t.name = ANY(%s)
"""


class Follower(Protocol):
    """Waits for changes of a topic."""

    @property
    def view(self) -> ReadView | None:
        """Returns what it reads of the topic, or None if it needs no reading of the feeds."""

    def heard(self, head_seq: int) -> None:
        """The topic's head may be at this seq now. The same seq often arrives twice, and an older seq can arrive late."""

    def vanished(self) -> None:
        """The topic was deleted. The hub repeats this call each second until the follower leaves the topic."""


class Seeker(Protocol):
    """Waits for a topic of this name to be created."""

    name: str

    def appeared(self, topic_id: int) -> None:
        """A topic of the name exists. The hub repeats this call each second until the seeker removes itself from the list."""


class Hub:
    """The followers of one process. The hub lives in one event loop. Other threads may only call hint().

    Nothing here needs a lock, because code between two awaits runs undisturbed. Followers may follow and leave while they are
    called. Each loop over followers therefore iterates over a copy.
    """

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.thread = threading.get_ident()
        self.followers: dict[int, dict[Follower, None]] = {}
        self.heads: dict[int, int] = {}
        # The effective priorities of a second ago. A topic that was not queried yet has no entry.
        self.priorities: dict[int, int] = {}
        self.sealed: set[int] = set()  # the followed topics that were sealed a second ago
        self.seekers: dict[Seeker, None] = {}
        self.store = here()
        self.feeds = Feeds(self.store)
        self.chores: list[Callable[[], Awaitable[None]]] = [self.look, self.seek]  # run once a second, in this order
        self.running = asyncio.create_task(self.run())
        self.listening: asyncio.Task[None] | None = None
        self.pace = Pace()
        self.soon_tasks: set[asyncio.Task[None]] = set()  # keeps the tasks from being garbage-collected
        self.nearby: Nearby | None = None
        wake.listen(self.hint)

    def join(self, neighbours: Neighbours, slot: int) -> None:
        """Exchanges wake-ups with the other web processes of this server."""
        self.nearby = Nearby(neighbours, slot, self.hint)

    def hint(self, topic_id: int, head_seq: int, written: Written | None = None) -> None:
        """Notes that a head advanced, by the records `written`. Called in the appending thread, which can be any thread.

        A look-up in the dict `followers` is safe from another thread. The look-up can miss a follower added at the same moment.
        The new follower reads the head afterwards and sees the append.
        """
        followers = self.followers.get(topic_id)
        if followers is None:
            return  # the common case on a server with few streams must cost an append nothing
        if threading.get_ident() == self.thread:
            if written is not None:
                # Followers of one topic mostly have one view. Those behind the first few read.
                views = {follower.view for follower in islice(followers, MOST_VIEWS)}
                self.feeds.hand(filter(None, views), written)
            self.moved(topic_id, head_seq)
        else:
            self.loop.call_soon_threadsafe(self.moved, topic_id, head_seq)

    def moved(self, topic_id: int, head_seq: int) -> None:
        """Calls the followers of an advanced head. Wake-ups can arrive twice and out of order. Older wake-ups are ignored."""
        followers = self.followers.get(topic_id)
        if followers is None or head_seq <= self.heads.get(topic_id, -1):
            return
        self.tell(topic_id, head_seq, followers)

    def tell(self, topic_id: int, head_seq: int, followers: Iterable[Follower]) -> None:
        self.heads[topic_id] = head_seq
        for follower in list(followers):
            follower.heard(head_seq)

    def follow(self, topic_id: int, follower: Follower) -> None:
        """Adds a follower. The follower must look at the head after this call, not before."""
        self.followers.setdefault(topic_id, {})[follower] = None
        if self.listening is None:
            self.listening = asyncio.create_task(Wakes(self.moved).start())
            if self.nearby is not None:
                self.nearby.listen(True)

    def leave(self, topic_id: int, follower: Follower) -> None:
        followers = self.followers.get(topic_id, {})
        followers.pop(follower, None)
        if not followers:
            self.followers.pop(topic_id, None)
            self.heads.pop(topic_id, None)
            self.priorities.pop(topic_id, None)
            self.sealed.discard(topic_id)

    async def run(self) -> None:
        """Runs all chores once a second."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            for chore in self.chores:
                await self.attempt(chore)

    def soon(self, chore: Callable[[], Awaitable[None]]) -> None:
        """Starts a chore now, as a task of its own."""
        task = self.loop.create_task(self.attempt(chore))
        self.soon_tasks.add(task)
        task.add_done_callback(self.soon_tasks.discard)

    async def attempt(self, chore: Callable[[], Awaitable[None]]) -> None:
        """Runs a chore, and logs a failure. The next round repeats the chore within a second."""
        try:
            await chore()
        except Exception as error:
            known = error if isinstance(error, TopicsError) else translated(error)
            if known is None:
                log.exception("Periodic work of the streams failed. The server retries")
            elif self.pace.is_due():  # every chore of every round would log this
                log.warning("Streams wait for PostgreSQL: %s. The server retries", known)

    async def look(self) -> None:
        """Queries the heads of all followed topics at once, and calls their followers."""
        wanted = list(self.followers)
        if not wanted:
            self.listen_no_more()
            return
        known = dict(self.heads)
        rows = await self.store.execute(Statement(HEADS, (wanted,), quick=True))
        heads = {topic_id: self.note(topic_id, head_seq, *facts) for topic_id, head_seq, *facts in rows}
        for topic_id in wanted:
            followers = self.followers.get(topic_id, {})
            if topic_id not in heads:
                for follower in list(followers):
                    follower.vanished()
            elif self.heads.get(topic_id) == known.get(topic_id):
                # The head did not change during our query, and the result is at least as new as our value. We call the followers
                # even if the head did not rise: a follower may have missed the message, and a crash of PostgreSQL may lower a
                # head.
                self.tell(topic_id, heads[topic_id], followers)

    def listen_no_more(self) -> None:
        """Stops listening to other processes. Without followers each message would cost CPU time for nothing."""
        if self.listening is not None:
            self.listening.cancel()
            self.listening = None
            if self.nearby is not None:
                self.nearby.listen(False)

    async def seek(self) -> None:
        """Looks up all names that seekers wait for, in one query."""
        if not self.seekers:
            return
        found = await self.find(list({seeker.name for seeker in self.seekers}))
        for seeker in list(self.seekers):
            if seeker.name in found:
                seeker.appeared(found[seeker.name][0])

    async def find(self, names: list[str]) -> dict[str, tuple[int, int]]:
        """Returns id and head seq of each existing topic among `names`."""
        rows = await self.store.execute(Statement(BY_NAME, (names,), quick=True))
        return {name: (id, self.note(id, head_seq, *facts)) for name, id, head_seq, *facts in rows}

    def note(
        self,
        topic_id: int,
        head_seq: int,
        is_sealed: bool,
        priority: int | None,
        auto: bool,
        touched_ts: int,
        read_ts: int,
    ) -> int:
        """Remembers the priority of a followed topic, and whether it is sealed. Returns its head."""
        if topic_id in self.followers:
            (self.sealed.add if is_sealed else self.sealed.discard)(topic_id)
            touched = max(touched_ts, recency.last_read(topic_id, read_ts))
            self.priorities[topic_id] = recency.effective_priority(priority, auto, touched, now_ms())
        return head_seq

    async def head(self, topic_id: int) -> int | None:
        """Returns the topic's current head, or None if the topic was deleted."""
        rows = await self.store.execute(Statement(HEAD, (topic_id,), quick=True))
        return rows[0][0] if rows else None

    async def close(self) -> None:
        wake.leave(self.hint)
        self.running.cancel()
        self.listen_no_more()
        if self.nearby is not None:
            self.nearby.close()
        await self.store.close()


hub = PerLoop(Hub).here

"""Deliveries of one worker process: an event loop that knows who is due, and threads that wait for callbacks (docs/push.md).

A callback that hangs holds a thread, and nothing else: PostgreSQL is asked by the loop, on a few connections, and those that
failed last time share half of the threads, so that any number of hanging callbacks leaves the other half to those that answer.

Wake-ups come from Redis (topics/wake.py), and times from the loop's timers. Both are hints that may be lost: the sweep
(tasks.py) finds who is overdue. Who may deliver is settled by leases alone (sql/push_take.sql).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import secrets
import threading
import time
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

import redis.asyncio as redis
from django.conf import settings

from base.clock import now_ms
from base.errors import TopicsError
from push import counters
from push.batches import BEGIN_SECONDS, QUEUES, SOURCES, Taken, heads_of, overdue, settle_and_take, take
from push.callbacks import MOST_SECONDS, Call, Callbacks, LeaseOver, Outcome
from push.crowd import Crowd, clock
from push.fill import fill
from routers.advance import ADVANCE, STEP, Moved
from routers.tasks import HELD, flag
from store.loop import Loop
from store.script import Script, Statement
from topics import wake
from topics.wake import CHANNEL

log = logging.getLogger(__name__)
THREADS = settings.PUSH_CALLBACKS_AT_ONCE
OURS_MS = 10_000  # a subscriber that we looked after is left to us by other processes: its connection is here
REST_SECONDS = 0.05  # between two looks at a queue that waits for its time, and whose topics get event after event
MAP_SECONDS = 1.0  # so old may be what we know of queues
LOOK_SECONDS = 0.1  # between two looks at heads, while publishers want the cores
HOLD_MS = 3_000  # for so long after we forwarded in such a time, workers of routers leave the topic to us
AWAY_SECONDS = 1.0  # after PostgreSQL or Redis did not answer
STOP_SECONDS = 5.0  # for calls under way when the process is to end


class Courier:
    """Lives in an event loop of its own, in a thread of its own."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.store = Loop()
        self.callbacks = Callbacks()
        self.threads = ThreadPoolExecutor(THREADS, "callback")
        self.well, self.failing = asyncio.Semaphore(THREADS - THREADS // 2), asyncio.Semaphore(THREADS // 2)
        self.redis = redis.Redis.from_url(settings.REDIS_URL, socket_timeout=None, socket_connect_timeout=2)
        self.name = secrets.token_hex(8)  # of this process, in Redis
        self.queues: dict[int, int] = {}  # by topic: whose queue it is
        self.ordered: dict[int, int] = {}  # by subscriber: the queue that is filled from several topics
        self.sources: dict[int, set[int]] = {}  # by topic: the subscribers whose queues those are
        self.plain: set[int] = set()  # topics that are all that some queue gets
        self.advancing: dict[int, bool] = {}  # of these, those that we forward, and whether there is more by now
        self.others: set[int] = set()  # topics that are no queue's business
        self.known_until = 0.0
        self.heads: dict[int, int] = {}  # of the topics above, where we last looked for ourselves
        self.busy: dict[int, int] = {}  # subscribers we are at, and the head that we were told of meanwhile
        self.waiting: dict[int, int | None] = {}  # those with a timer: the head from which on it need not be waited for
        self.timers: dict[int, asyncio.TimerHandle] = {}
        self.looked: dict[int, float] = {}
        self.failed: set[int] = set()
        self.ours: dict[int, float] = {}
        self.tasks: set[asyncio.Task[None]] = set()
        self.stopping = False
        self.crowd = Crowd(self.store)

    # -- Who is due ---------------------------------------------------------------------------------------------------

    async def listen(self) -> None:
        """Hear of topics that moved, for ever."""
        while not self.stopping:
            try:
                await self.learn({})
                if not self.has_queues():  # to hear of every topic would cost whoever only appends a tenth of a core
                    await asyncio.sleep(MAP_SECONDS)
                    continue
                await self.look()
                async with self.redis.pubsub(ignore_subscribe_messages=True) as heard:
                    await heard.subscribe(CHANNEL)
                    await self.look_once()  # for what moved before we could be told
                    async for message in heard.listen():
                        words = json.loads(message["data"])["data"].split()
                        await self.moved(dict(zip(map(int, words[::2]), map(int, words[1::2]), strict=True)))
                        if self.crowd.dense or not self.has_queues():
                            break
            except (redis.RedisError, OSError, TopicsError) as error:
                log.warning("deliveries wait for wake-ups: %s", error)
                await asyncio.sleep(AWAY_SECONDS)
            except Exception:
                log.exception("wake-ups were lost")
                await asyncio.sleep(AWAY_SECONDS)

    def has_queues(self) -> bool:
        return bool(self.queues or self.sources or self.plain)

    async def look(self) -> None:
        """While publishers want the cores, see for ourselves what moved: each of their processes would tell us of it 200 times a
        second, and to listen costs a tenth of what they need themselves."""
        while self.crowd.dense and not self.stopping:
            began = self.loop.time()
            await self.look_once()
            await asyncio.sleep(max(self.crowd.rest_after(self.loop.time() - began), LOOK_SECONDS))

    async def look_once(self) -> None:
        """What we see for the first time may have moved before: that is the sweep's to find."""
        heads = await self.store.drive(heads_of([*self.queues, *self.sources.keys() | self.plain]))
        moved = {id: head for id, head in heads.items() if head != self.heads.get(id, head)}
        self.heads = heads
        await self.moved(moved)

    async def moved(self, heads: dict[int, int]) -> None:
        """These topics have these heads now."""
        known = (self.others, self.queues, self.sources, self.plain)
        if time.monotonic() > self.known_until or not all(any(id in each for each in known) for id in heads):
            await self.learn(heads)
        strangers: list[int] = []
        for topic_id, head in heads.items():
            if (id := self.queues.get(topic_id)) is not None and id not in self.ordered and not self.hint(id, head):
                strangers.append(id)
            strangers += [id for id in self.sources.get(topic_id, ()) if not self.hint(id, None)]
            if topic_id in self.plain:
                self.forward(topic_id)
            if topic_id in self.plain or topic_id in self.sources:
                self.crowd.heard(topic_id, head)
        if strangers:
            for id in await self.claim(strangers):
                self.attend(id)

    async def learn(self, heads: dict[int, int]) -> None:
        """Find out whose queues there are."""
        self.queues = dict(await self.rows(QUEUES))
        sources: dict[int, set[int]] = {}
        ordered: dict[int, int] = {}
        plain: set[int] = set()
        for source_id, id, queue_id, together in await self.rows(SOURCES):
            if together:
                sources.setdefault(source_id, set()).add(id)
                ordered[id] = queue_id
            else:
                plain.add(source_id)
        self.sources, self.ordered, self.plain = sources, ordered, plain
        if time.monotonic() > self.known_until:
            self.others.clear()
            self.known_until = time.monotonic() + MAP_SECONDS
        self.others.update(heads.keys() - self.queues.keys() - sources.keys() - plain)

    async def rows(self, statement: str) -> list[Any]:
        return await self.store.drive(one(statement))

    def forward(self, source_id: int) -> None:
        """Forward what a topic got into the queues of those that get nothing else: all of them in one statement."""
        if source_id in self.advancing:
            self.advancing[source_id] = True
            return
        self.advancing[source_id] = False
        self.begin(self.forward_all(source_id))

    async def forward_all(self, source_id: int) -> None:
        """A worker of routers was told, too, and whoever gets a router's cursor does it. We need no message to be carried."""
        more = True
        try:
            while more and not self.stopping:
                self.advancing[source_id] = False
                began = self.loop.time()
                steps = await self.store.drive(advance(source_id, now_ms()))
                took = self.loop.time() - began
                for step in steps:
                    if step.moved:
                        wake.announce(step.topic_id, step.head_seq, step.routed)
                        if (id := self.queues.get(step.topic_id)) is not None:
                            self.hint(id, step.head_seq)
                if self.crowd.dense:
                    await self.redis.set(flag(source_id), HELD, px=HOLD_MS)
                # A topic that gets event after event is left alone for a while: its publishers need the cores as well.
                await asyncio.sleep(self.crowd.rest_after(took, len(steps)))
                more = self.advancing[source_id] or any(step.more for step in steps)
        except (TopicsError, redis.RedisError, OSError) as error:
            log.warning("events are forwarded by the workers of routers: %s", error)
        finally:
            del self.advancing[source_id]

    def hint(self, id: int, head: int | None) -> bool:
        """Something came into a subscriber's queue, whose head this is where we know it. False: it may be another process's."""
        if id in self.busy:
            self.busy[id] = max(self.busy[id], head or 1)
        elif id in self.waiting:
            full_seq = self.waiting[id]
            if full_seq is not None and (head is None or head >= full_seq):
                rest = 0.0 if head is not None else self.looked.get(id, 0.0) + REST_SECONDS - self.loop.time()
                if rest <= 0:
                    self.attend(id)
                elif self.timers[id].when() > self.loop.time() + rest:
                    self.later(id, rest, full_seq)
        elif self.ours.get(id, 0.0) > self.loop.time():
            self.attend(id)
        else:
            return False
        return True

    async def claim(self, ids: list[int]) -> list[int]:
        """Of these subscribers, those that this process looks after: of several that hear of one the first does, until it rests
        for long. A hint as all of this: who delivers is settled by leases."""
        keys = [f"push:courier:{id}" for id in ids]
        async with self.redis.pipeline(transaction=False) as pipeline:
            for key in keys:
                pipeline.set(key, self.name, nx=True, px=OURS_MS)
                pipeline.get(key)
            owners = (await pipeline.execute())[1::2]
            ours = [id for id, owner in zip(ids, owners, strict=True) if owner == self.name.encode()]
            for id in ours:
                pipeline.pexpire(f"push:courier:{id}", OURS_MS)
                self.ours[id] = self.loop.time() + OURS_MS / 2000
            if ours:
                await pipeline.execute()
        return ours

    async def sweep(self) -> int:
        """Look after those that nobody is at. Returns how many."""
        await self.learn({})
        ids = await self.store.drive(overdue(now_ms()))
        for id in ids:
            if id not in self.busy:
                self.attend(id)
        return len(ids)

    def later(self, id: int, seconds: float, full_seq: int | None) -> None:
        """Look at a subscriber again after a while, or once its queue's head is there."""
        if (timer := self.timers.pop(id, None)) is not None:
            timer.cancel()
        self.waiting[id] = full_seq
        self.timers[id] = self.loop.call_later(seconds, self.attend, id)

    # -- Delivering ---------------------------------------------------------------------------------------------------

    def attend(self, id: int) -> None:
        """Start to deliver to a subscriber. Where we are at it, look once more before we end."""
        if id in self.busy:
            self.busy[id] = max(self.busy[id], 1)
        if id in self.busy or self.stopping:
            return
        self.waiting.pop(id, None)
        if (timer := self.timers.pop(id, None)) is not None:
            timer.cancel()
        self.busy[id] = 0
        self.begin(self.deliver(id))

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = self.loop.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def deliver(self, id: int) -> None:
        """Deliver to a subscriber all that is due."""
        taken = Taken("idle")
        try:
            while not self.stopping:
                self.busy[id] = 0
                taken = await self.deliver_due(id)
                # Somebody told us of more than we saw: one more look, unless it is too little to make a difference.
                told = self.busy[id]
                if not told or (taken.verdict == "wait" and (taken.full_seq is None or 1 < told < taken.full_seq)):
                    break
                if taken.verdict == "wait" and told == 1:  # of a queue with several topics: not for each single event
                    taken = taken._replace(wait_ms=min(taken.wait_ms or 0, int(REST_SECONDS * 1000)))
                    break
        except TopicsError as error:
            log.warning("a delivery waits for PostgreSQL: %s", error)
            taken = Taken("wait", int(AWAY_SECONDS * 1000))
        except Exception:
            log.exception("a delivery failed here")
            taken = Taken("wait", int(AWAY_SECONDS * 1000))
        finally:
            self.busy.pop(id, None)
            self.looked[id] = self.loop.time()
        if taken.verdict == "wait" and not self.stopping:
            self.later(id, (taken.wait_ms or 0) / 1000 + 0.001, taken.full_seq)

    async def deliver_due(self, id: int) -> Taken:
        """Deliver batch after batch. Returns why there is none now."""
        failing = id in self.failed
        async with self.failing if failing else self.well:
            if (queue_id := self.ordered.get(id)) is not None:
                await self.crowd.ask(fill(queue_id, now_ms()))
            taken, asked = await self.crowd.ask(take(id))
            while taken.verdict == "send":
                began = time.perf_counter()
                outcome = await self.call(taken, asked)
                if outcome is None:
                    log.warning("a lease was over before its batch was sent; it is left to whoever has the queue now")
                    return Taken("idle")
                duration_ms = (time.perf_counter() - began) * 1000
                counters.delivered(id, taken, outcome.error is None, duration_ms)
                # At once: were it to wait for its turn, the lease might be over, and the batch be sent by somebody else, too.
                go_on, asked = not self.crowd.dense, clock()
                settled, following = await self.store.drive(
                    settle_and_take(id, taken, outcome, duration_ms, go_on=go_on)
                )
                if not settled.held:
                    log.warning("a batch was sent under a lease that somebody else has taken over since")
                    return Taken("idle")
                if outcome.error is not None:
                    log.warning("failed to deliver %d events to subscriber %d: %s", taken.events, id, outcome.error)
                    self.failed.add(id)  # it comes again among those that failed
                    return Taken("wait", settled.retry_ms)
                self.failed.discard(id)
                taken = following
                if not go_on:
                    taken, asked = await self.crowd.ask(take(id))
            return taken

    async def call(self, taken: Taken, asked: float) -> Outcome | None:
        """What the callback made of a batch. None: nothing was sent, since the lease may be somebody else's by now.

        `asked`: when we asked for the lease, which began later. A call that begins within BEGIN_SECONDS of that, and takes
        no longer than a call may, ends before the lease does.
        """
        call = Call(lambda: clock() < asked + BEGIN_SECONDS)
        headers = {"Topics-Batch-Id": str(taken.batch_id), "Topics-Attempt": str(taken.attempt)}
        if taken.dropped:
            headers["Topics-Dropped"] = str(taken.dropped)
        cutting = self.loop.call_later(MOST_SECONDS, call.cut)
        try:
            return await self.loop.run_in_executor(
                self.threads, self.callbacks.post, taken.callback, taken.uuid, taken.body.encode(), headers, call
            )
        except LeaseOver:
            return None
        finally:
            cutting.cancel()

    async def close(self) -> None:
        """Begin nothing more, and give what is under way a moment to end."""
        self.stopping = True
        for timer in self.timers.values():
            timer.cancel()
        if self.tasks:
            await asyncio.wait(self.tasks, timeout=STOP_SECONDS)
        counters.add("process", "status:stop,type:worker")
        with contextlib.suppress(TopicsError):
            await counters.flush_soon(self.store)
        await self.redis.aclose()
        await self.store.close()


def advance(source_id: int, now: int) -> Script[list[Moved]]:
    """One step of all routers of a topic that nobody else moves right now."""
    arguments = (source_id, None, False, STEP, now, settings.TOPICS_MAX_ROUTER_HOPS)
    rows = yield Statement(ADVANCE, arguments, turn=source_id)
    return [Moved(*row) for row in rows]


def one(statement: str) -> Script[list[Any]]:
    rows: list[Any] = yield Statement(statement)
    return rows


class Running:
    """The courier of this process, for threads."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.ready = threading.Event()
        self.thread = threading.Thread(target=self.run, name="courier", daemon=True)
        self.thread.start()
        self.ready.wait()

    def run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_until_complete(self.main())
        self.loop.close()

    async def main(self) -> None:
        self.courier = Courier()
        listening = asyncio.create_task(self.courier.listen())
        watching = asyncio.create_task(self.courier.crowd.look_out())
        counting = asyncio.create_task(counters.flush_forever(self.courier.store))
        counters.add("process", "status:start,type:worker")
        self.ready.set()
        self.ended = asyncio.Event()
        await self.ended.wait()
        for task in (listening, watching, counting):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        await self.courier.close()
        # What is left was given its moment, or looks after connections that are closed by now.
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for each in left:
            each.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        await self.courier.store.close()  # connections that came back only now

    def sweep(self) -> int:
        """Look after those that nobody is at. Returns how many, 0 where the courier ends meanwhile. Raises NotReady."""
        sweep = self.courier.sweep()
        try:
            asked = asyncio.run_coroutine_threadsafe(sweep, self.loop)
        except RuntimeError:  # the loop has ended, and is closed
            sweep.close()
            return 0
        # A loop that is about to end may leave undone what it was asked for, and tell nobody: a worker that waited for that
        # would not end by itself.
        while self.thread.is_alive() and not asked.done():
            wait([asked], timeout=1)
        return asked.result() if asked.done() and not asked.cancelled() else 0

    def stop(self) -> None:
        with contextlib.suppress(RuntimeError):  # it has ended before
            self.loop.call_soon_threadsafe(self.ended.set)
        self.thread.join(STOP_SECONDS + 2)


running: Running | None = None


def start() -> Running:
    """The courier of this process, started if it does not run."""
    global running
    if running is None:
        running = Running()
    return running

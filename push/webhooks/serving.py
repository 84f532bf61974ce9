"""Serves one webhook under a lease: reads records, calls the URL, and settles the outcomes, in an event loop.

One task does all that asks PostgreSQL, in turns, so that each read sees everything that was settled before. Calls are tasks of
their own. A record is in memory from its read to its settle. After a crash, all that was not settled is read again.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from typing import Any, cast

from base import outage
from base.clock import now_ms
from base.errors import NotReady, StorageFull, Throttled, TopicsError
from push.delivery.caller import Caller, CallTarget, LeaseOver, Outcome
from push.delivery.throttle import clock
from push.webhooks import formats, leases, sources
from push.webhooks.config import DEAD, can_bury
from push.webhooks.lanes import Lane, Lanes, OutgoingRecord
from push.webhooks.leases import LEASE_SECONDS, LeasedWebhook
from push.webhooks.outcomes import EndedRecord, EndpointHealth, Outcomes, lanes_of, settling, without_letters
from push.webhooks.retry import FAILING, retry_after_ms
from push.webhooks.settle import Settling, settle
from push.webhooks.signing import signature
from push.webhooks.sources import WebhookSource
from store.loop import Loop

log = logging.getLogger(__name__)
LEAST_LOADED, MOST_LOADED = 64, 4_000  # records in memory
MOST_BYTES = 8 * 1024 * 1024  # of records in memory, and of a call with several records
GRACE_SECONDS = 2.0  # time for running calls when the webhook is let go
AWAY_SECONDS = 1.0  # pause after PostgreSQL did not answer
GONE = 410  # the endpoint wants no more calls
MOST_COUNTED = 2**31 - 1  # attempts, failures in a row and lost records: their columns are integer
NEVER = float("inf")


class WebhookServing:
    """A webhook while this process has its lease."""

    def __init__(
        self,
        store: Loop,
        caller: Caller,
        webhook: LeasedWebhook,
        asked: float,
        joined: Callable[[WebhookSource, WebhookServing], None],
    ) -> None:
        """`asked`: when the lease was asked for (clock()). `joined` is called for each topic."""
        self.loop = asyncio.get_running_loop()
        self.store, self.caller, self.webhook, self.joined = store, caller, webhook, joined
        self.settings, self.target = webhook.settings, CallTarget.of(webhook.url)
        self.lease_ends = asked + LEASE_SECONDS
        self.settled = webhook.settled
        self.most_loaded = min(max(LEAST_LOADED, 2 * self.settings.concurrency * self.settings.batch), MOST_LOADED)
        self.headers = [(name.encode(), value.encode()) for name, value in self.settings.headers.items()]
        self.sources: dict[int, WebhookSource] = {}
        # A webhook can have very many topics, so a step looks only at those with something to do.
        self.behind: dict[int, WebhookSource] = {}  # sources with records to read, in the order of their turns
        self.moved: set[int] = set()  # sources whose position advanced although no record ended
        self.stopped: set[int] = set()  # topics of which a record waits that holds up the others (the order "topic")
        self.freed: set[int] = set()  # those of them whose record may have ended
        self.lanes, self.outcomes = Lanes(), Outcomes(webhook.name)
        self.frozen: tuple[Settling, list[EndedRecord]] | None = (
            None  # a settle whose answer was lost. It is sent again as it is
        )
        self.retrying: set[tuple[int, int]] = set()  # records in memory that have a row among the waiting ones
        self.may_wait = True  # whether a record can wait
        self.due_at = 0.0  # when the next one is due (time of the loop)
        self.looks = 0  # calls of look_again()
        self.former_until = self.loop.time() + webhook.former_ms / 1000  # calls have a signature by the former key, too
        self.failures, self.rest_until = webhook.failures, self.loop.time() + webhook.rest_ms / 1000
        self.asked_until = 0.0  # until then the endpoint wants no calls, as its Retry-After said (time of the loop)
        self.error, self.pause = webhook.last_error, cast("str | None", None)
        self.calls: dict[asyncio.Task[None], list[OutgoingRecord]] = {}
        self.woken = asyncio.Event()
        self.is_stopping = False

    # -- The loop ------------------------------------------------------------------------------------------------------

    async def serve(self) -> None:
        """Serves the webhook until stop(), or until the lease is over."""
        try:
            await self.join()
            if self.settings.order == "topic":
                for id in await self.store.drive(sources.stopped(self.webhook.id)):
                    self.hold_up(id)
            while not self.is_stopping:
                self.woken.clear()
                await self.step()
                self.start()
                await self.rest()
        finally:
            await self.end()

    async def step(self) -> None:
        if clock() >= self.lease_ends:
            self.stop()
        try:
            await self.settle()
            if not self.is_stopping:
                await self.fill()
        except (NotReady, StorageFull) as error:
            outage.postgresql.note(error)
            await asyncio.sleep(AWAY_SECONDS)
        except Throttled as error:
            log.warning("Webhook %s waits: %s", self.webhook.name, error)
            await asyncio.sleep(AWAY_SECONDS)
        except Exception:
            log.exception("Webhook %s failed in this process. The server retries", self.webhook.name)
            await asyncio.sleep(AWAY_SECONDS)

    async def rest(self) -> None:
        """Waits for an outcome, a new record, or the time of the next call."""
        if self.woken.is_set() or (self.behind and self.wants_records()):
            await asyncio.sleep(0)
            return
        seconds = self.seconds_to_next()
        if seconds is None:
            await self.woken.wait()
            return
        try:
            async with asyncio.timeout(seconds):
                await self.woken.wait()
        except TimeoutError:
            pass

    def seconds_to_next(self) -> float | None:
        now = self.loop.time()
        times = [self.due_at] if self.may_wait and self.due_at < NEVER and self.wants_records() else []
        if now < self.rest_until:
            times = [self.rest_until]
        elif (first := self.lanes.peek()) is not None and len(self.calls) < self.most_calls:
            times.append(first.since + self.settings.max_wait_ms / 1000)
        return max(min(times) - now, 0) + 0.001 if times else None

    def stop(self) -> None:
        self.is_stopping = True
        self.woken.set()

    async def end(self) -> None:
        """Ends running calls, settles, and lets the webhook go."""
        self.is_stopping = True
        seconds = min(GRACE_SECONDS, self.lease_ends - clock())
        if self.calls and seconds > 0:
            await asyncio.wait(self.calls, timeout=seconds)
        for call in list(self.calls):
            call.cancel()
        await asyncio.gather(*self.calls, return_exceptions=True)
        try:
            await self.settle()
            await self.store.drive(leases.release(self.webhook.id, self.webhook.lease))
        except TopicsError as error:
            log.warning("Webhook %s was let go without a word: %s. Its lease ends by itself", self.webhook.name, error)

    # -- Records -------------------------------------------------------------------------------------------------------

    async def join(self, ids: Sequence[int] | None = None, *, quiet: bool = True) -> None:
        """Finds topics of the webhook (sources.joined). Topics that are known keep their state."""
        found = sources.joined(self.webhook.name, self.settings, self.webhook.prefixes, now_ms(), ids, quiet=quiet)
        for each in await self.store.drive(found):
            known = self.sources.get(each.id)
            if known is None:
                self.sources[each.id] = each
                self.line_up(each)
                self.joined(each, self)
            else:
                self.heard(each.id, each.head)
        self.woken.set()

    def heard(self, topic_id: int, head: int) -> None:
        if (source := self.sources.get(topic_id)) is not None and head > source.head:
            source.head = head
            self.line_up(source)
            self.woken.set()

    def look_again(self) -> None:
        """Looks for records that are due, because a call can have made some due."""
        self.may_wait, self.due_at = True, 0.0
        self.looks += 1
        self.freed |= self.stopped
        self.woken.set()

    def line_up(self, source: WebhookSource) -> None:
        """Lets a source wait for its turn, if it has records to read."""
        if source.read < source.head and source.id not in self.stopped:
            self.behind.setdefault(source.id, source)
        else:
            self.behind.pop(source.id, None)

    def hold_up(self, topic_id: int) -> None:
        """Reads no more of a topic until its record that waits has ended."""
        if topic_id in self.sources:
            self.stopped.add(topic_id)
            self.line_up(self.sources[topic_id])

    async def free(self) -> None:
        """Reads on in topics of which no record waits any more."""
        # A record of a failed lane waits, too, but is not stored yet.
        asked = {id for id in self.freed & self.stopped if (id, "") not in self.lanes.failed}
        ended = asked - await self.store.drive(sources.still_stopped(self.webhook.id, sorted(asked)))
        self.freed.clear()
        self.stopped -= ended
        for id in ended:
            self.line_up(self.sources[id])

    @property
    def loaded(self) -> int:
        return self.lanes.size + sum(map(len, self.calls.values()))

    @property
    def is_failing(self) -> bool:
        return self.failures >= FAILING

    @property
    def most_calls(self) -> int:
        return 1 if self.is_failing else self.settings.concurrency

    def wants_records(self) -> bool:
        """Whether there is room for more records. A failing endpoint gets one at a time, so that few records wait for it."""
        if self.is_stopping or self.loop.time() < self.rest_until:
            return False
        if self.is_failing:
            return not self.loaded
        return self.loaded <= self.most_loaded * 3 // 4 and self.lanes.bytes < MOST_BYTES

    async def fill(self) -> None:
        """Reads records that are due, and then new ones."""
        if self.wants_records() and self.may_wait and self.loop.time() >= self.due_at:
            await self.fill_due(1 if self.is_failing else max((self.most_loaded - self.loaded) // 2, 1))
        if self.freed:
            await self.free()
        for _ in range(len(self.behind)):
            if not self.behind or not self.wants_records():
                return
            id, source = next(iter(self.behind.items()))
            self.behind[id] = self.behind.pop(id)  # its next turn comes after those of the others, also after an error
            await self.fill_from(source, 1 if self.is_failing else min(self.most_loaded - self.loaded, 1_000))

    async def fill_due(self, limit: int) -> None:
        rows = await self.store.drive(sources.due(self.webhook.id, limit + len(self.retrying)))
        new = [row for row in rows if (row.topic_id, row.seq) not in self.retrying][:limit]
        found = await self.store.drive(sources.load(new, self.settings, self.webhook.prefixes, now_ms()))
        loaded = {(record.topic_id, record.seq) for record in found}
        self.retrying |= loaded
        for record in found:  # their `since` is 0: they do not wait for a full batch
            self.place(record)
        for row in new:
            if (row.topic_id, row.seq) not in loaded:
                self.lose_due(row)
        looks = self.looks
        following = await self.store.drive(sources.next_due_ms(self.webhook.id, len(self.retrying)))
        if looks != self.looks:  # a call may have made a record due that this answer does not have
            return
        self.may_wait = following is not None or bool(rows)
        least = 0.0 if new else 0.05  # rows of records that are on their way are due, too
        self.due_at = NEVER if following is None else self.loop.time() + max(following / 1000, least)

    def lose_due(self, row: sources.Due) -> None:
        """Ends a record that waited, and does not exist any more."""
        record = OutgoingRecord(row.topic_id, row.topic, row.seq, 0, None, row.line, b"", is_waiting=True)
        self.outcomes.ended.append(EndedRecord(record, "lost"))
        self.lost(row.topic, row.seq, row.seq, "the record was deleted or has expired")

    async def fill_from(self, source: WebhookSource, limit: int) -> None:
        before = source.read
        window = await self.store.drive(sources.read(source, self.settings, limit, now_ms()))
        if window is None:
            self.forget(source.id)
            return
        found = list(sources.records_of(source, window, self.settings, self.webhook.prefixes))
        lines, seqs = set[str](), set[int]()
        if self.may_wait and found:
            wanted = {record.line for record in found if record.line is not None}
            asked = sources.waiting_in(self.webhook.id, source.id, list(wanted), before, window.next_from_seq)
            lines, seqs = await self.store.drive(asked)
        lost = window.for_a_start_at(before)
        if lost.lost is not None:
            gap = lost.gap(before)
            self.lost(source.name, gap["gap_from"], gap["gap_to"], f"the topic lost these records: {lost.lost}")
        source.read, source.head = window.next_from_seq, max(source.head, window.head_seq)
        self.line_up(source)
        now = self.loop.time()
        for record in found:
            if record.seq in seqs:
                continue
            source.open.append(record.seq)
            record.since = now
            self.place(record, is_behind=record.line in lines)
        if source.position > source.stored:
            self.moved.add(source.id)
            self.woken.set()

    def forget(self, topic_id: int) -> None:
        """Forgets a topic that was deleted."""
        del self.sources[topic_id]
        self.behind.pop(topic_id, None)
        self.moved.discard(topic_id)
        self.stopped.discard(topic_id)

    def place(self, record: OutgoingRecord, *, is_behind: bool = False) -> None:
        """Puts a record into its lane, or behind an earlier record of its line that waits."""
        if is_behind or record.lane in self.lanes.failed:
            self.outcomes.ended.append(EndedRecord(record, "waits"))
            self.woken.set()
        else:
            self.lanes.add(record)

    def lost(self, topic: str, first: int, last: int, error: str) -> None:
        self.note(
            topic, first, last, min(last - first + 1, MOST_COUNTED), "", 0, "lost", Outcome(None, error, 0.0), None
        )

    # -- Calls ---------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Starts calls while records are ready and a call is free."""
        while self.may_call() and (first := self.lanes.peek()) is not None:
            full = self.lanes.size >= self.settings.batch
            if not full and self.loop.time() < first.since + self.settings.max_wait_ms / 1000:
                return
            records = self.lanes.take(self.settings.batch, MOST_BYTES)
            call = self.loop.create_task(self.call(records))
            self.calls[call] = records
            call.add_done_callback(self.called)

    def may_call(self) -> bool:
        return (
            not self.is_stopping
            and len(self.calls) < self.most_calls
            and self.loop.time() >= self.rest_until
            and clock() < self.lease_ends
        )

    def called(self, call: asyncio.Task[None]) -> None:
        del self.calls[call]
        if not call.cancelled() and call.exception() is not None:
            log.error("A call of webhook %s failed in this process", self.webhook.name, exc_info=call.exception())
            self.stop()  # another process, or this one again, takes the webhook, and sends the records
        self.start()
        self.woken.set()

    def check_lease(self) -> None:
        if clock() >= self.lease_ends or self.is_stopping:
            raise LeaseOver

    def keys(self) -> list[bytes]:
        """Returns the keys of the signatures of a call that begins now."""
        former = self.webhook.former_key if self.loop.time() < self.former_until else None
        return [self.webhook.key] if former is None else [self.webhook.key, former]

    async def call(self, records: list[OutgoingRecord]) -> None:
        id, body = formats.message_id(records[0].topic, records), formats.body(self.settings.format, records)
        ts = int(time.time())
        headers = [
            (b"content-type", formats.CONTENT[self.settings.format]),
            (b"user-agent", b"topics"),
            *self.headers,
            (b"webhook-id", id.encode()),
            (b"webhook-timestamp", b"%d" % ts),
            (b"webhook-signature", signature(self.keys(), id, ts, body)),
        ]
        seconds = self.settings.timeout_ms / 1000
        try:
            outcome = await self.caller.post(self.target, headers, body, seconds, self.check_lease)
        except LeaseOver:
            self.stop()
            return
        self.finished(id, records, outcome)

    def finished(self, id: str, records: list[OutgoingRecord], outcome: Outcome) -> None:
        """Notes the outcome of a call."""
        for record in records:
            record.attempts = min(record.attempts + 1, MOST_COUNTED)
        attempt = max(record.attempts for record in records)
        if outcome.error is None:
            self.failures, self.rest_until, self.error = 0, self.asked_until, None
            for lane in {record.lane for record in records}:
                self.lanes.done(lane)
            self.outcomes.ended += [EndedRecord(record, "delivered") for record in records]
            self.note_call(id, records, attempt, "delivered", outcome, None)
            return
        self.error = outcome.error
        if not (self.is_failing and self.loop.time() < self.rest_until):  # calls that fail together count as one
            self.failures = min(self.failures + 1, MOST_COUNTED)
        now = now_ms()
        asked_ms = retry_after_ms(outcome.retry_after, now)
        self.asked_until = max(self.asked_until, self.loop.time() + asked_ms / 1000)
        rests_until = self.loop.time() + self.settings.retry.rest_ms(self.failures) / 1000
        self.rest_until = max(self.rest_until, self.asked_until, rests_until)
        if outcome.status == GONE:
            self.pause = "the endpoint answered 410: it wants no more calls"
        delay_ms = max(self.settings.retry.pause_ms(attempt), asked_ms)
        ended = [self.after_failure(record, outcome, delay_ms, now) for record in records]
        self.outcomes.ended += ended
        state = next((each.what for each in ended if each.what != "waits"), "failed")
        self.note_call(id, records, attempt, state, outcome, delay_ms if state == "failed" else None)
        waits, dead = lanes_of(ended, "waits"), lanes_of(ended, "dead")
        for lane in {record.lane for record in records}:
            if lane in waits:
                self.put_behind(lane)
            elif lane in dead:
                self.lanes.held.add(lane)
            else:
                self.lanes.done(lane)

    def put_behind(self, lane: Lane) -> None:
        """Lets the records of a lane wait behind one that failed."""
        self.outcomes.ended += [EndedRecord(record, "waits") for record in self.lanes.fail(lane)]
        if self.settings.order == "topic" and lane[1] == "":
            self.hold_up(lane[0])

    def after_failure(self, record: OutgoingRecord, outcome: Outcome, delay_ms: int, now: int) -> EndedRecord:
        age_ms = now - record.first_ts if record.first_ts else 0
        if outcome.status == GONE or not self.settings.retry.is_over(record.attempts, age_ms, delay_ms):
            return EndedRecord(record, "waits", delay_ms, outcome)
        if record.topic_id == 0 or self.settings.on_exhausted == "skip":
            return EndedRecord(record, "skipped", None, outcome)
        # Earlier versions let names in that leave no room for the dead letter topic. Such a webhook is paused.
        if self.settings.on_exhausted == "dead_letter" and can_bury(self.webhook.name):
            return EndedRecord(record, "dead", None, outcome)
        self.pause = f"the attempts of a record are over: {outcome.error}"
        return EndedRecord(record, "waits", 0, outcome)

    # -- Settling ------------------------------------------------------------------------------------------------------

    def note_call(
        self,
        id: str,
        records: Sequence[OutgoingRecord],
        attempt: int,
        state: str,
        outcome: Outcome,
        delay_ms: int | None,
    ) -> None:
        first, last = records[0], records[-1]
        has_others = last.seq - first.seq >= len(records)
        seqs = [record.seq for record in records] if has_others else None
        self.note(first.topic, first.seq, last.seq, len(records), id, attempt, state, outcome, delay_ms, seqs)

    def note(
        self,
        topic: str,
        first: int,
        last: int,
        records: int,
        message: str,
        attempt: int,
        state: str,
        outcome: Outcome,
        delay_ms: int | None,
        seqs: list[int] | None = None,
    ) -> None:
        """Adds a row to the log. `seqs`: of the records, if the range has others, too."""
        row: dict[str, Any] = {
            "topic": topic,
            "first_seq": first,
            "last_seq": last,
            "records": records,
            "message": message,
            "attempt": attempt,
            "state": state,
            "status": outcome.status,
            "ms": round(outcome.ms),
            "error": outcome.error,
            "answer": outcome.answer,
            "delay_ms": delay_ms,
            "seqs": seqs,
        }
        self.outcomes.log.append(row)

    def health(self) -> EndpointHealth:
        rest_ms = max(int((self.rest_until - self.loop.time()) * 1000), 0)
        return EndpointHealth(self.failures, rest_ms, self.error, self.pause)

    async def settle(self) -> None:
        """Stores all outcomes. If the lease is over, nothing is stored, and the webhook is let go."""
        if self.frozen is None:
            if not self.outcomes.ended and not self.outcomes.log and not self.moved:
                return
            what, ended = self.frozen = self.outcomes.next(self.sources, self.moved, self.health())
            if not (ended or what.log or what.positions):
                self.frozen = None
                return
        what, ended = self.frozen
        try:
            held = await self.drive(what)
        except (NotReady, Throttled, StorageFull):
            raise
        except TopicsError as error:
            name = DEAD + self.webhook.name
            log.warning("Topic %s takes no dead letters: %s. Their records wait", name, error.message)
            for lane in lanes_of(ended, "dead"):
                self.put_behind(lane)
            ended = without_letters(ended)
            what = settling(self.webhook.name, ended, what.log, self.sources, self.moved, self.health())
            self.frozen = what, ended
            held = await self.drive(what)
        self.frozen = None
        if not held:
            log.warning("The lease of webhook %s is over. Its last outcomes were not stored", self.webhook.name)
            self.lease_ends = 0.0
            self.stop()
            return
        self.settled += 1
        self.after_settle(what, ended)

    async def drive(self, what: Settling) -> bool:
        script = settle(self.webhook.id, self.webhook.lease, self.settled, what, DEAD + self.webhook.name, now_ms())
        return await self.store.drive(script)

    def after_settle(self, what: Settling, ended: list[EndedRecord]) -> None:
        for id, seq, _ in what.positions:
            if id in self.sources:
                self.sources[id].stored = seq
        self.moved.clear()
        self.freed |= self.stopped & {topic_id for topic_id, _, line, _ in what.done if line == ""}
        self.retrying.difference_update(
            (each.record.topic_id, each.record.seq) for each in ended if each.record.is_waiting
        )
        # A lane with another dead letter, which comes in a later settle, stays as it is.
        self.lanes.settled(lanes_of(ended, "waits", "dead") - lanes_of(self.outcomes.ended, "dead"))
        if what.waiting or any(line is not None for _, _, line, _ in what.done):
            self.may_wait = True
            delays = [each.delay_ms for each in what.waiting if each.delay_ms is not None]
            # The end of a record frees the next of its line.
            least = 0 if any(line is not None for _, _, line, _ in what.done) else min(delays, default=0)
            self.due_at = min(self.due_at, self.loop.time() + least / 1000)
        if what.pause is not None:
            self.stop()

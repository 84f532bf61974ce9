"""Delivers a subscriber's batches for the dispatcher: one after another, each under a lease (sql/functions/push_batch.sql).

Subscribers whose last delivery failed or was slow share half of the calls at once. The other half stays free for quick callbacks,
however many are slow.
"""

from __future__ import annotations

import asyncio
import logging
import time

from django.conf import settings

from base.clock import now_ms
from base.tracing import Span, tracing
from push.bus.fill import fill
from push.delivery.batches import BEGIN_SECONDS, Taken, settle_and_take, take
from push.delivery.callbacks import Callbacks, Outcome
from push.delivery.caller import LeaseOver
from push.delivery.queues import Queues
from push.delivery.throttle import Throttle, clock
from push.reports import counters
from store.loop import Loop

log = logging.getLogger(__name__)
MOST_CALLS = settings.PUSH_CALLBACKS_AT_ONCE


class Deliveries:
    """Delivers in the dispatcher's event loop."""

    def __init__(self, store: Loop, queues: Queues, throttle: Throttle) -> None:
        self.store, self.queues, self.throttle = store, queues, throttle
        self.callbacks = Callbacks()
        self.well, self.failing = asyncio.Semaphore(MOST_CALLS - MOST_CALLS // 2), asyncio.Semaphore(MOST_CALLS // 2)
        self.failed: set[int] = set()  # subscribers whose last delivery failed or was slow

    async def deliver(self, id: int) -> Taken:
        """Delivers batch after batch. Returns the answer `wait` or `idle`, which says why no batch is due now."""
        failing = id in self.failed
        async with self.failing if failing else self.well:
            if (queue_id := self.queues.ordered.get(id)) is not None:
                await self.throttle.ask(fill(queue_id, now_ms()))
            taken, asked = await self.throttle.ask(take(id))
            while self.told(id, taken).verdict == "send":
                began = time.perf_counter()
                outcome = await self.call(taken, asked) if taken.events else Outcome(None, None, acknowledged=True)
                if outcome is None:
                    log.warning("A lease ended before its batch was sent. Another process sends the batch")
                    return Taken("idle")
                duration_ms = (time.perf_counter() - began) * 1000
                if taken.events:
                    counters.delivered(id, taken, outcome.acknowledged, duration_ms)
                # This query is not throttled: the lease could end meanwhile, and another process would send the batch again.
                go_on, asked = outcome.error is None and not self.throttle.dense, clock()
                settled, following = await self.store.drive(
                    settle_and_take(id, taken, outcome, duration_ms, go_on=go_on)
                )
                if not settled.held:
                    log.warning("A batch was sent after its lease ended. Another process can send the batch again")
                    return Taken("idle")
                if outcome.error is not None:
                    if not outcome.acknowledged:
                        log.warning(
                            "Delivery of %d events to subscriber %s failed: %s",
                            taken.events,
                            self.name(id),
                            outcome.error,
                        )
                    self.failed.add(id)  # the next delivery waits with those of failed subscribers
                    return Taken("wait", settled.retry_ms)
                self.failed.discard(id)
                taken = following
                if not go_on:
                    taken, asked = await self.throttle.ask(take(id))
            return taken

    async def call(self, taken: Taken, asked: float) -> Outcome | None:
        """Sends a batch. Returns the outcome, or None if nothing was sent because another process may hold the lease by now.

        `asked`: when PostgreSQL was asked for the lease, which began later. A call that begins within BEGIN_SECONDS of `asked`,
        and takes no longer than a call may, ends before the lease does.
        """

        def check() -> None:
            if clock() >= asked + BEGIN_SECONDS:
                raise LeaseOver

        headers = {"Topics-Batch-Id": str(taken.batch_id), "Topics-Attempt": str(taken.attempt)}
        if taken.dropped:
            headers["Topics-Dropped"] = str(taken.dropped)
        span = begun(taken, headers)
        outcome = None
        try:
            outcome = await self.callbacks.post(taken.callback, taken.uuid, taken.body, headers, check)
            return outcome
        except LeaseOver:
            return None
        # The delivery log shows this error like any failure, and the pause before the queue's next attempt is the same.
        except Exception as error:
            log.exception("A batch was not sent")
            return Outcome(None, f"the batch was not sent: {type(error).__name__}")
        finally:
            ended(span, outcome)

    def told(self, id: int, taken: Taken) -> Taken:
        """Returns `taken`. Logs the records that were put aside as unreadable."""
        if taken.unreadable:
            log.error("Set aside %d unreadable records of subscriber %s", taken.unreadable, self.name(id))
        return taken

    def name(self, id: int) -> str:
        """Returns the name of a subscriber for the log. A subscriber that is not known yet has only its id."""
        return self.queues.names.get(id, str(id))


def begun(taken: Taken, headers: dict[str, str]) -> Span | None:
    """Begins the span of a callback, if it is sampled. Adds the traceparent that the callback continues to `headers`."""
    attributes: dict[str, str | int] = {
        "http.request.method": "POST",
        "messaging.batch.message_count": taken.events,
        "topics.batch_id": str(taken.batch_id),
    }
    span = tracing.start_caused("POST callback", "CLIENT", attributes, taken.traces)
    if span is not None:
        headers["traceparent"] = span.traceparent
    elif len(taken.traces) == 1:
        headers["traceparent"] = taken.traces[0]
    return span


def ended(span: Span | None, outcome: Outcome | None) -> None:
    if span is None:
        return
    if outcome is not None and outcome.status is not None:
        span.attributes["http.response.status_code"] = outcome.status
    has_failed = outcome is None or not outcome.acknowledged
    span.end(((outcome and outcome.error) or "not sent") if has_failed else "")

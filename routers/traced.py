"""A span of OpenTelemetry for each step that forwards records, in the trace of their append (base/tracing.py)."""

from __future__ import annotations

import time
from collections import deque

from django.conf import settings

from base.tracing import Attributes, tracing
from routers.advance import Moved, step
from store.database import prepared
from topics.append.traced import traces_of

MOST = 100  # records of a step whose traces the span names
CURSORS = "SELECT c.id, c.seq FROM routers_router r JOIN topic_cursors c ON c.id = r.cursor_id WHERE r.source_id = %s"


def traced_step(waiting: deque[int], now: int) -> list[Moved]:
    """Does the next step of `waiting` as step() does. A step that forwarded records or failed has a span, if it is sampled."""
    if tracing.processor is None:
        return step(waiting, now)
    source_id, started_ns = waiting[0], time.time_ns()
    attributes: Attributes = {"topics.source_id": source_id}
    before = cursors(source_id) if settings.TOPICS_TRACE_RECORDS else {}
    try:
        moves = step(waiting, now)
    except Exception as error:
        if span := tracing.start_caused("forward", "INTERNAL", attributes, (), started_ns):
            span.end(type(error).__name__)
        raise
    if moves and (
        span := tracing.start_caused("forward", "INTERNAL", attributes, causes(source_id, before), started_ns)
    ):
        span.end()
    return moves


def causes(source_id: int, before: dict[int, int]) -> list[str]:
    """Returns the traceparents of the first records that the routers of a source have forwarded since `before`."""
    after = cursors(source_id) if before else {}
    advanced = [(before[id], seq) for id, seq in after.items() if seq > before.get(id, seq)]
    if not advanced:
        return []
    first, last = min(seq for seq, _ in advanced) + 1, max(seq for _, seq in advanced)
    return traces_of(source_id, first, min(last, first + MOST - 1))


def cursors(source_id: int) -> dict[int, int]:
    """Returns the seqs that the routers of a source have reached, by the id of their cursor."""
    return {int(id): int(seq) for id, seq in prepared(CURSORS, [source_id])}

"""/pulse: health of the bus for monitoring, and for autoscaling."""

from __future__ import annotations

from django.conf import settings

from base.clock import now_ms
from contract.operations import Operation
from push.api.bus import BUS
from push.api.tokens import NOTHING
from push.bus.health import Rest, check
from push.delivery.batches import due_within
from store.script import Script
from wire.answer import Answer
from wire.endpoint import Call, Endpoint


@Endpoint(Operation.PULSE, scope="monitor", api=BUS, answers={})
def pulse(call: Call[None, None]) -> Script[Answer]:
    """Answers 204 if PostgreSQL and Redis answer, else 503."""
    yield from check()
    return NOTHING


@Endpoint(Operation.SCALING, scope="monitor", api=BUS, answers={})
def scaling(call: Call[None, None]) -> Script[Answer]:
    """Answers after one second if many deliveries are due, else at once. A slow answer means: start more workers."""
    yield from check()
    if (
        yield from due_within(settings.ROUTEMASTER_SCALING_DEADLINE, now_ms())
    ) >= settings.ROUTEMASTER_SCALING_THRESHOLD:
        yield Rest()
    return NOTHING

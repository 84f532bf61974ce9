"""/pulse: for who looks after the bus, and for who scales it."""

from __future__ import annotations

from django.conf import settings

from base.clock import now_ms
from push.api.dialect import BUS
from push.api.tokens import NOTHING
from push.batches import due_within
from push.health import Rest, check
from store.script import Script
from wire.answer import Answer
from wire.endpoint import Asked, Endpoint


@Endpoint("GET", "pulse", "pulse", scope="monitor", dialect=BUS, answers={})
def pulse(asked: Asked[None, None]) -> Script[Answer]:
    """Whether PostgreSQL and Redis answer: 204, else 503."""
    yield from check()
    return NOTHING


@Endpoint("GET", "pulse/scaling", "scaling", scope="monitor", dialect=BUS, answers={})
def scaling(asked: Asked[None, None]) -> Script[Answer]:
    """Takes a second when many deliveries are due: then it is time for more workers."""
    yield from check()
    if (
        yield from due_within(settings.ROUTEMASTER_SCALING_DEADLINE, now_ms())
    ) >= settings.ROUTEMASTER_SCALING_THRESHOLD:
        yield Rest()
    return NOTHING

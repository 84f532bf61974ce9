"""When a record is sent again, and when its attempts are over."""

from __future__ import annotations

import random
from email.utils import parsedate_to_datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from wire.request.parse import Request

DAY_MS = 86_400_000
HOUR_MS = 3_600_000
SCHEDULE_MS = (5_000, 30_000, 120_000, 900_000, HOUR_MS, 3 * HOUR_MS, 6 * HOUR_MS, 12 * HOUR_MS, DAY_MS)
JITTER = 0.2  # share of a pause that is added at random, so that records that failed together do not return together
FAILING = 5  # failures in a row after which an endpoint gets one call at a time
MOST_REST_MS = 60_000  # pause of a failing endpoint between two calls
MOST_ASKED_MS = DAY_MS  # pause that an endpoint asks for with Retry-After


class Retry(Request):
    """The attempts of a record. A pause that is the last of the schedule repeats as long as attempts are left."""

    schedule_ms: Annotated[list[Annotated[int, Meta(ge=0, le=7 * DAY_MS)]], Meta(min_length=1, max_length=50)] = (
        msgspec.field(default_factory=lambda: list(SCHEDULE_MS))
    )
    """1 to 50 numbers from 0 to 604800000: the milliseconds before the second attempt, before the third, and so on. The last one
    repeats. Up to 20 % is added at random."""
    max_attempts: Annotated[int, Meta(ge=1, le=1_000)] | None = None
    """The most attempts of a record. Null without `max_age_ms`: one more than `schedule_ms` has entries."""
    max_age_ms: Annotated[int, Meta(ge=1, le=365 * DAY_MS)] | None = None
    """Milliseconds after the first attempt in which a further attempt begins. Excludes `max_attempts`."""

    def pause_ms(self, attempts: int) -> int:
        """Returns the pause after this number of attempts, with its jitter."""
        pause = self.schedule_ms[min(attempts, len(self.schedule_ms)) - 1]
        return int(pause * (1 + random.random() * JITTER))

    def is_over(self, attempts: int, age_ms: int, pause_ms: int) -> bool:
        """Returns whether a record has no attempt left. `age_ms`: time since its first attempt."""
        if self.max_age_ms is not None:
            return age_ms + pause_ms > self.max_age_ms
        return attempts >= (self.max_attempts or len(self.schedule_ms) + 1)

    def rest_ms(self, failures: int) -> int:
        """Returns the pause of an endpoint after this number of failures in a row, 0 before it counts as failing."""
        if failures < FAILING:
            return 0
        return min(self.schedule_ms[min(failures - FAILING, len(self.schedule_ms) - 1)], MOST_REST_MS)


def retry_after_ms(value: str | None, now: int) -> int:
    """Returns the pause that a header Retry-After asks for, at most MOST_ASKED_MS. 0 without a valid header."""
    if value is None:
        return 0
    try:
        wanted = (
            int(value) * 1000 if value.strip().isdigit() else int(parsedate_to_datetime(value).timestamp() * 1000) - now
        )
    except (ValueError, TypeError, OverflowError):
        return 0
    return max(0, min(wanted, MOST_ASKED_MS))

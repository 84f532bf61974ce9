"""RateLimit: a token bucket per subject, address or connection. Clients without a subject count by their address.

With an empty bucket, the answer is 429 with an exact Retry-After.
"""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from base.errors import Throttled
from gateway.api import FilterContext, FilterFactoryContext, Operation, Request, Response
from wire.access.forwarded import network

MOST_BUCKETS = 100_000  # the least recently used bucket is dropped first


class RateLimitConfig(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """A limit. Each gateway process counts separately."""

    requests_per_second: Annotated[float, Meta(gt=0)]
    """Requests each second, in the long run."""
    burst: Annotated[int, Meta(ge=1)]
    """Requests at once."""
    by: Literal["subject", "address", "connection", "all"] = "subject"
    """The requests that share a limit. An IPv6 address is its /64 network."""


class Buckets:
    """A bucket holds `burst` tokens and gets `rate` tokens per second. A full bucket can be forgotten."""

    def __init__(self, rate: float, burst: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.rate, self.burst, self.clock = rate, burst, clock
        self.buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # tokens, and the time of this count

    def take(self, who: str) -> float:
        """Takes a token and returns 0.0. If the bucket is empty, takes nothing and returns the seconds until the next token."""
        now = self.clock()
        tokens, since = self.buckets.pop(who, (float(self.burst), now))
        tokens = min(self.burst, tokens + (now - since) * self.rate)
        wait = 0.0 if tokens >= 1 else (1 - tokens) / self.rate
        self.buckets[who] = (tokens if wait else tokens - 1, now)
        if len(self.buckets) > MOST_BUCKETS:
            self.buckets.popitem(last=False)
        return wait


class RateLimit:
    def __init__(self, buckets: Buckets, by: str) -> None:
        self.buckets, self.by = buckets, by

    async def on_request(self, operation: Operation, request: Request, context: FilterContext) -> Request | Response:
        """Raises Throttled if the bucket is empty."""
        wait = self.buckets.take(self.who(context))
        if wait:
            limit = f"burst of one {self.by}"
            error = Throttled(
                f"Too many requests of one {self.by}: try again later.", limit=limit, max=self.buckets.burst
            )
            error.retry_after = math.ceil(wait)
            raise error
        return request

    def who(self, context: FilterContext) -> str:
        if self.by == "subject":
            return context.authenticated_subject.name or f"at {network(context.origin)}"
        return {"address": network(context.origin), "connection": context.session_id}.get(self.by, "")


class RateLimitFactory:
    """Limits the requests of each subject, address or connection."""

    def initialize(self, context: FilterFactoryContext, config: RateLimitConfig) -> tuple[Buckets, str]:
        return Buckets(config.requests_per_second, config.burst), config.by

    def create_filter(self, context: FilterFactoryContext, data: tuple[Buckets, str]) -> RateLimit:
        return RateLimit(*data)

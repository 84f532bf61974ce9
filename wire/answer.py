"""The form of answers and refusals, the same for all ways in (docs/wire.md)."""

from __future__ import annotations

import logging
import time
from typing import NamedTuple

import msgspec
from msgspec import UNSET, UnsetType

from base import errors
from base.errors import TopicsError
from base.outage import Pace
from store.database import translated
from wire.access.keys import OPEN, Key

log = logging.getLogger(__name__)


class Answer(NamedTuple):
    """A status and a rendered body."""

    status: int
    body: bytes
    headers: tuple[tuple[bytes, bytes], ...] = ()


def elapsed_ms(started: float) -> float:
    return round((time.perf_counter() - started) * 1000, 3)


def clamped(**values: tuple[int, int]) -> dict[str, int] | UnsetType:
    """Returns the fields that were clamped, each with the value that was used instead. UNSET if there is none.

    `values`: (requested, used) by field.
    """
    return {name: used for name, (asked, used) in values.items() if used != asked} or UNSET


def error_answer(error: TopicsError, started: float) -> Answer:
    headers = error.headers
    if error.retry_after:
        headers += ((b"retry-after", str(error.retry_after).encode()),)
    elif isinstance(error, errors.Unauthorized):
        headers += ((b"www-authenticate", b"Bearer"),)
    body = {**error.body(), "performance": {"server_total_ms": elapsed_ms(started)}}
    return Answer(error.status, msgspec.json.encode(body), headers)


def refusal(error: Exception, started: float, key: Key = OPEN) -> Answer:
    """Returns the answer to a request that raised, with only the names that this key may see. Logs errors of our own code."""
    return error_answer(told_error(error, key), started)


def told_error(error: Exception, key: Key) -> TopicsError:
    """Returns the error for a client, with only the names that the key may see. Logs errors of our own code."""
    known = domain_error(error)
    if known is None:
        log.exception("A request failed. The client got 500", exc_info=error)
        known = errors.Internal()
    elif type(known) is errors.NotReady:
        refused_requests.note(known.message)
    return known.told_to(key.shown)


class RefusedRequests:
    """Tells the log of requests that this process refuses without PostgreSQL: the first, and then a sum once a minute."""

    def __init__(self) -> None:
        self.refused, self.pace = 0, Pace()

    def note(self, why: str) -> None:
        self.refused += 1
        if self.pace.is_due():
            log.warning("Requests got 503: %s. Since the last such line: %d", why, self.refused)
            self.refused = 0


refused_requests = RefusedRequests()


def domain_error(error: Exception) -> TopicsError | None:
    """Returns the domain's error for this error or an error of the database, or None for an error of our own code."""
    return error if isinstance(error, TopicsError) else translated(error)

"""Figures of webhooks for operators: a page of all webhooks, those in trouble, and of one its last calls."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from push.webhooks.retry import FAILING
from push.webhooks.webhooks import FEW_WAITING
from store.script import Script, Statement

MOST_CALLS = 1_000  # the last calls, whose durations are compared
MOST_GIVEN_UP = 1_000  # records of a webhook that are counted

ROWS = f"""
SELECT id, name, url, topics, state, pause_reason, failures, last_error, last_success_ts, updated_ts, calls_total, failed_total,
       dead_total, {FEW_WAITING}
  FROM (SELECT *, (config -> 'topics')::text AS topics,
               CASE WHEN paused THEN 'paused' WHEN failures >= {FAILING} THEN 'failing' ELSE 'running' END AS state
          FROM push_webhook) w
"""
FOLLOWING = f"""
SELECT name FROM ({ROWS}) listed WHERE name > %(after)s AND name < %(upto)s AND (%(state)s = '' OR state = %(state)s)
 ORDER BY name LIMIT %(most)s
"""
NAMED = f"{ROWS} WHERE name = ANY (%s::text[])"
TROUBLED = f"{ROWS} WHERE state <> 'running' AND name ^@ %(prefix)s ORDER BY state, failures DESC, name LIMIT %(limit)s"
GIVEN_UP = f"""
SELECT w.name, last.records, last.first_ts
  FROM push_webhook w
 CROSS JOIN LATERAL (SELECT count(*) AS records, min(ts) AS first_ts
                       FROM (SELECT ts FROM push_webhookfailed WHERE webhook_id = w.id AND ts > %(since)s
                              ORDER BY ts LIMIT {MOST_GIVEN_UP}) first) last
 WHERE last.records > 0
 ORDER BY last.records DESC, w.name LIMIT %(limit)s
"""
CALLS = """
SELECT count(*), count(*) FILTER (WHERE state <> 'delivered'), percentile_disc(0.5) WITHIN GROUP (ORDER BY ms),
       percentile_disc(0.99) WITHIN GROUP (ORDER BY ms)
  FROM (SELECT state, ms FROM push_webhooklog WHERE webhook_id = %(webhook)s AND message <> ''
         ORDER BY id DESC LIMIT %(most)s) last
"""


class ListedWebhook(NamedTuple):
    """A row of the list. `topics`: names and prefixes of the config. `waiting`: counted up to MOST_WAITING (webhooks.py)."""

    id: int
    name: str
    url: str
    topics: list[str]
    state: str
    pause_reason: str | None
    failures: int
    last_error: str | None
    last_success_ts: int | None
    updated_ts: int
    calls: int
    failed: int
    dead: int
    waiting: int


class GivenUp(NamedTuple):
    """The records that a webhook gave up since a time, and that no later call delivered, counted up to MOST_GIVEN_UP."""

    webhook: str
    records: int
    first_ts: int


class LastCalls(NamedTuple):
    """The last calls of a webhook, at most MOST_CALLS. Without calls, the durations are None."""

    calls: int
    failed: int
    p50_ms: int | None
    p99_ms: int | None

    @property
    def succeeded(self) -> str:
        """Returns the share that succeeded, rounded down: only 100 % means all."""
        return f"{math.floor(1_000 * (self.calls - self.failed) / (self.calls or 1)) / 10:g} %"


def following(after: str, upto: str, state: str, most: int) -> Script[list[str]]:
    """Returns the names of the next webhooks, which are below `upto`. `state`: only these, or all."""
    rows = yield Statement(FOLLOWING, {"after": after, "upto": upto, "state": state, "most": most})
    return [name for (name,) in rows]


def named(names: Sequence[str]) -> Script[list[ListedWebhook]]:
    """Returns those of these webhooks that exist."""
    return [row_of(*row) for row in (yield Statement(NAMED, (list(names),)))]


def troubled(limit: int, prefix: str = "") -> Script[list[ListedWebhook]]:
    """Returns the webhooks that are failing or paused, whose names begin with the prefix."""
    return [row_of(*row) for row in (yield Statement(TROUBLED, {"limit": limit, "prefix": prefix}))]


def given_up(limit: int, since: int) -> Script[list[GivenUp]]:
    """Returns the webhooks that gave up records since then, those with the most first."""
    return [GivenUp(*row) for row in (yield Statement(GIVEN_UP, {"limit": limit, "since": since}))]


def row_of(id: int, name: str, url: str, topics: str, *rest: Any) -> ListedWebhook:
    return ListedWebhook(id, name, url, msgspec.json.decode(topics, type=list[str]), *rest)


def last_calls(webhook_id: int) -> Script[LastCalls]:
    rows = yield Statement(CALLS, {"webhook": webhook_id, "most": MOST_CALLS})
    return LastCalls(*rows[0])

"""Leases: one process at a time serves a webhook.

A lease is a number that only grows, and an end by PostgreSQL's clock. The holder renews it, measures it by its own clock from
before the request, and sends nothing after its end. The holder of an older lease can settle nothing
(sql/functions/webhook_settle.sql). To change a webhook, a call sets `halted_until_ts`, tells the processes, and waits until the
holder has let go (webhooks.py).
"""

from __future__ import annotations

import logging
from typing import Any, NamedTuple

import msgspec

from base.outage import Pace
from push.webhooks.config import Settings
from push.webhooks.retry import MOST_ASKED_MS
from push.webhooks.signing import key_of
from store.script import Script, Statement

log = logging.getLogger(__name__)
pace = Pace()
LEASE_MS = 10_000
LEASE_SECONDS = 8.0  # of a lease, by the clock of its holder. The rest is for clocks that run differently
RENEW_SECONDS = 2.5

NOW = "(SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS ts) now"
# The free webhooks, for this process. Another process that takes at the same time gets the others.
TAKE = f"""
UPDATE push_webhook w SET lease = lease + 1, leased_until_ts = now.ts + %(lease_ms)s
  FROM {NOW}
 WHERE w.id IN (SELECT id FROM push_webhook
                 WHERE NOT paused AND greatest(leased_until_ts, halted_until_ts) <= (SELECT ts FROM {NOW})
                   FOR NO KEY UPDATE SKIP LOCKED)
RETURNING w.id, name, prefixes, url, config::text, secret, previous_secret, previous_until_ts - now.ts, lease, settled, failures,
          retry_ts - now.ts, last_error
"""
# Leaves out those that are paused or halted: their holder lets go. An end that is later than any lease is of a clock ahead. The
# pause of a failing endpoint may be of that time, too, so it ends. The holder keeps it by its own clock.
RENEW = f"""
UPDATE push_webhook w SET leased_until_ts = now.ts + %(lease_ms)s,
       retry_ts = CASE WHEN w.leased_until_ts > now.ts + %(lease_ms)s THEN 0 ELSE w.retry_ts END
  FROM {NOW}, unnest(%(ids)s::bigint[], %(leases)s::bigint[]) AS ours (id, lease)
 WHERE w.id = ours.id AND w.lease = ours.lease AND w.leased_until_ts > 0 AND NOT w.paused AND w.halted_until_ts <= now.ts
RETURNING w.id
"""
RELEASE = "UPDATE push_webhook SET leased_until_ts = 0 WHERE id = %s AND lease = %s"
# If PostgreSQL's clock was ahead, stored ends are later than any lease. Their holders finish by the corrected end. The pause of a
# failing endpoint may be of that time, so it ends, as does one that is longer than any. SKIP LOCKED leaves rows that their
# holders renew or settle now, many at once, to the next look.
SET_BACK = f"""
UPDATE push_webhook w SET leased_until_ts = least(leased_until_ts, now.ts + %(lease_ms)s),
       halted_until_ts = least(halted_until_ts, now.ts + %(lease_ms)s * 3), retry_ts = 0
  FROM {NOW}
 WHERE w.id IN (SELECT id FROM push_webhook, {NOW}
                 WHERE leased_until_ts > now.ts + %(lease_ms)s OR halted_until_ts > now.ts + %(lease_ms)s * 3
                    OR retry_ts > now.ts + {MOST_ASKED_MS}
                   FOR NO KEY UPDATE OF push_webhook SKIP LOCKED)
"""
# Records that wait since a time to come wait for as long as they had to then.
SET_BACK_WAITING = f"""
UPDATE push_webhookwaiting SET next_ts = next_ts - (set_ts - now.ts), set_ts = now.ts
  FROM {NOW}
 WHERE (webhook_id, topic_id, seq) IN (SELECT webhook_id, topic_id, seq FROM push_webhookwaiting
                                        WHERE set_ts > (SELECT ts FROM {NOW}) FOR NO KEY UPDATE SKIP LOCKED)
"""


class LeasedWebhook(NamedTuple):
    """A webhook that this process has leased."""

    id: int
    name: str
    prefixes: tuple[str, ...]
    url: str
    settings: Settings
    key: bytes  # of the signatures
    former_key: bytes | None  # of a second signature, for `former_ms` from when the lease was asked for
    former_ms: int
    lease: int
    settled: int
    failures: int
    rest_ms: int
    last_error: str | None


def take() -> Script[list[LeasedWebhook]]:
    """Takes the free webhooks for this process. It lets those go whose config a later version has written and this one cannot
    read. A process of that version serves them."""
    taken = []
    for row in (yield Statement(TAKE, {"lease_ms": LEASE_MS})):
        try:
            taken.append(webhook(*row))
        except msgspec.MsgspecError as error:
            id, name, *_, lease, _, _, _, _ = row
            yield from release(id, lease)
            if pace.is_due():
                log.warning(
                    "This version cannot read the config of webhook %s, which a later one wrote: %s", name, error
                )
    return taken


def webhook(
    id: int,
    name: str,
    prefixes: str,
    url: str,
    config: str,
    secret: str,
    former: str | None,
    former_ms: int,
    *rest: Any,
) -> LeasedWebhook:
    lease, settled, failures, rest_ms, last_error = rest
    return LeasedWebhook(
        id,
        name,
        tuple(prefixes.split()),
        url,
        msgspec.json.decode(config, type=Settings),
        key_of(secret),
        key_of(former) if former else None,
        max(former_ms, 0),
        lease,
        settled,
        failures,
        max(rest_ms, 0),
        last_error,
    )


def renew(leases: dict[int, int]) -> Script[set[int]]:
    """Renews leases, by webhook. Returns the webhooks that this process keeps."""
    wanted = {"lease_ms": LEASE_MS, "ids": list(leases), "leases": list(leases.values())}
    return {id for (id,) in (yield Statement(RENEW, wanted))}


def release(id: int, lease: int) -> Script[None]:
    yield Statement(RELEASE, (id, lease))


def set_back() -> Script[None]:
    """Sets times back that a clock ahead has stored."""
    yield Statement(SET_BACK, {"lease_ms": LEASE_MS})
    yield Statement(SET_BACK_WAITING)

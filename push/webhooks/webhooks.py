"""Create, change, delete, pause and resume webhooks.

A change waits until no process serves the webhook: it sets `halted_until_ts`, tells the processes, and looks again. So after the
answer to a change, nothing is sent by the config of before, and after a delete nothing at all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import msgspec
from django.conf import settings
from msgspec import UNSET

from base.errors import Forbidden, Incompatible, InvalidRequest, NotFound, NotReady
from base.names import begins
from push.webhooks.config import PutWebhook, Settings
from push.webhooks.retry import FAILING
from push.webhooks.signing import new_secret
from push.webhooks.sources import topics_of
from store.script import Pause, Script, Statement, atomically
from topics import audit, wake
from topics.cursors import owned as owned_cursors
from wire import limits
from wire.access.keys import Key

T = TypeVar("T")
HALT_MS = 30_000  # a change that does not finish, because its process ended, holds the webhook for this long
PREVIOUS_MS = 86_400_000  # how long calls have a signature by the secret before
LOOK_SECONDS = 0.02
HIDDEN = "***"  # what answers show in place of the value of a header

COLUMNS = """
SELECT id, name, prefixes, url, config::text, secret, previous_secret, previous_until_ts, created_ts, updated_ts, paused,
       pause_reason, failures, retry_ts, last_error, last_success_ts, delivered_total, dead_total, calls_total, failed_total,
       ms_total
  FROM push_webhook
"""
ONE = f"{COLUMNS} WHERE name = %s"
LOCK = "SELECT id FROM push_webhook WHERE name = %s FOR UPDATE"
# Returns whether a process has the webhook now.
HALT = """
UPDATE push_webhook SET halted_until_ts = CASE WHEN leased_until_ts > now.ts THEN now.ts + %(halt_ms)s ELSE 0 END
  FROM (SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS ts) now
 WHERE id = %(id)s RETURNING leased_until_ts > now.ts
"""
INSERT = """
INSERT INTO push_webhook (name, prefixes, url, config, secret, created_ts, updated_ts)
VALUES (%(name)s, %(prefixes)s, %(url)s, %(config)s, %(secret)s, %(now)s, %(now)s)
ON CONFLICT (name) DO NOTHING RETURNING id
"""
COUNT = "SELECT count(*) FROM (SELECT FROM push_webhook LIMIT %s) counted"
# The number of the lease grows, so that no former holder can settle by the config of before.
CHANGE = """
UPDATE push_webhook SET url = %(url)s, config = %(config)s, secret = %(secret)s, prefixes = %(prefixes)s, updated_ts = %(now)s,
       lease = lease + 1, failures = 0, retry_ts = 0
 WHERE id = %(id)s
"""
PAUSE = (
    "UPDATE push_webhook SET paused = %s, pause_reason = %s, failures = 0, retry_ts = 0, updated_ts = %s WHERE id = %s"
)
ROTATE = """
UPDATE push_webhook SET previous_secret = secret, secret = %(secret)s, previous_until_ts = %(until)s, updated_ts = %(now)s
 WHERE id = %(id)s
"""
DELETE = "DELETE FROM push_webhook WHERE id = %s"
PAGE = f"""
{COLUMNS}
 WHERE name > %(after)s AND {begins("name")}
   AND (cardinality(%(prefixes)s::text[]) = 0 OR name ^@ ANY (%(prefixes)s::text[]))
 ORDER BY name LIMIT %(limit)s
"""
QUEUES = "SELECT name FROM topics_topic WHERE name = ANY (%s) AND type = 'queue' LIMIT 1"
IS_WAITING = "SELECT FROM push_webhookwaiting WHERE webhook_id = %s LIMIT 1"
FORGET_WAITING = "DELETE FROM push_webhookwaiting WHERE webhook_id = %s AND topic_id = ANY (%s)"
FORGET_FAILED = "DELETE FROM push_webhookfailed WHERE webhook_id = %s AND topic_id = ANY (%s)"
# How many records of a webhook `w` wait for another call, counted up to a bound.
MOST_WAITING = 10_000
FEW_WAITING = (
    f"(SELECT count(*) FROM (SELECT FROM push_webhookwaiting WHERE webhook_id = w.id LIMIT {MOST_WAITING}) few)"
)
WAITING = """
SELECT webhook_id, count(*), min(next_ts) FROM push_webhookwaiting WHERE webhook_id = ANY (%s) GROUP BY webhook_id
"""


class Stored(NamedTuple):
    """A webhook as it is stored."""

    id: int
    name: str
    prefixes: tuple[str, ...]
    url: str
    settings: Settings
    secret: str
    previous_secret: str | None
    previous_until_ts: int
    created_ts: int
    updated_ts: int
    paused: bool
    pause_reason: str | None
    failures: int
    retry_ts: int
    last_error: str | None
    last_success_ts: int | None
    delivered_total: int
    dead_total: int
    calls_total: int
    failed_total: int
    ms_total: int

    @property
    def state(self) -> str:
        return "paused" if self.paused else "failing" if self.failures >= FAILING else "running"

    def is_within(self, key: Key) -> bool:
        """Returns whether the prefixes of a key allow each topic that the webhook can have."""
        limits = self.prefixes or [each.removesuffix("*") for each in self.settings.topics]
        return all(key.allows(each) for each in limits)

    def check(self, key: Key) -> None:
        """Raises Forbidden if the webhook has topics outside the prefixes of a key: its state would tell their names."""
        if not self.is_within(key):
            raise Forbidden("the webhook has topics outside this key's prefixes: use another key", webhook=self.name)

    def audited(self) -> dict[str, Any]:
        """Returns what the audit log shows: no secret, and the names of the headers alone."""
        return {"url": self.url, "paused": self.paused, **msgspec.to_builtins(hidden(self.settings))}


class WaitingCount(NamedTuple):
    """How many records wait for another call, and when the first of them is due."""

    records: int = 0
    next_ts: int | None = None


def hidden(settings: Settings) -> Settings:
    """Returns the settings as answers show them: values of headers can be secrets."""
    return msgspec.structs.replace(settings, headers=dict.fromkeys(settings.headers, HIDDEN))


def revealed(wanted: PutWebhook, before: Stored | None) -> PutWebhook:
    """Returns a config with the values of its headers. In a change, the value that answers show stands for the value of before.

    Raises InvalidRequest if there is none, or if the URL differs: who cannot see a value must not send it elsewhere.
    """
    known = before.settings.headers if before is not None and before.url == wanted.url else {}
    headers = {name: known.get(name, value) if value == HIDDEN else value for name, value in wanted.headers.items()}
    for name, value in headers.items():
        if value == HIDDEN:
            raise InvalidRequest(
                f"headers contains {HIDDEN} instead of the value of {name!r}: send it", field="headers"
            )
    return msgspec.structs.replace(wanted, headers=headers)


def stored(*row: Any) -> Stored:
    """Raises NotReady if a later version has written a config that this one cannot read."""
    id, name, prefixes, url, config, *rest = row
    try:
        settings = msgspec.json.decode(config, type=Settings)
    except msgspec.MsgspecError as error:
        # Without its name, which need not be one that the client sent. The log has it (leases.py).
        raise NotReady("a later version wrote the config of the webhook: finish the upgrade of all servers") from error
    return Stored(id, name, tuple(prefixes.split()), url, settings, *rest)


def find(name: str) -> Script[Stored]:
    """Raises NotFound or NotReady."""
    rows = yield Statement(ONE, (name,))
    if not rows:
        raise absent(name)
    return stored(*rows[0])


def absent(name: str) -> NotFound:
    return NotFound(f"webhook {name[:80]!r} does not exist: PUT /v0/webhooks/:name creates one", webhook=name)


def page_of_webhooks(prefix: str, after: str, limit: int, prefixes: tuple[str, ...]) -> Script[list[Stored]]:
    rows = yield Statement(PAGE, {"prefix": prefix, "after": after, "limit": limit, "prefixes": list(prefixes)})
    return [stored(*row) for row in rows]


def waiting(ids: list[int]) -> Script[dict[int, WaitingCount]]:
    return {id: WaitingCount(*rest) for id, *rest in (yield Statement(WAITING, (ids,)))}


# -- Changes ----------------------------------------------------------------------------------------------------------


class LeaseWait(Pause):
    """Waits a moment for the holder of a lease. The answer is True, and None in a thread, which does not wait."""

    async def over(self) -> bool:
        await asyncio.sleep(LOOK_SECONDS)
        return True


def unserved(name: str, work: Callable[[Stored], Script[T]]) -> Script[T]:
    """Returns the result of `work` on a webhook that no process serves, in one transaction. Raises NotFound."""
    while True:
        id, done = yield from atomically(if_unserved(name, work))
        tell(id)
        if done is not None:
            return done[0]
        if not (yield LeaseWait()):
            yield Statement("SELECT pg_sleep(0.05)")


def if_unserved(name: str, work: Callable[[Stored], Script[T]]) -> Script[tuple[int, tuple[T] | None]]:
    """Returns the webhook's id, and the result of `work` in a tuple.

    None in its place: a process serves the webhook. No process takes it then, until HALT_MS are over.
    """
    rows = yield Statement(LOCK, (name,))
    if not rows:
        raise absent(name)
    ((is_held,),) = yield Statement(HALT, {"id": rows[0][0], "halt_ms": HALT_MS})
    if is_held:
        return rows[0][0], None
    found = yield from find(name)
    return found.id, ((yield from work(found)),)


def tell(id: int) -> None:
    """Tells the processes that serve webhooks that one has changed: by a wake-up with its negative id in place of a topic's."""
    wake.announce(-id, 1, routed=False)


class PutOutcome(NamedTuple):
    webhook: Stored
    created: bool
    secret: str | None  # that the call made


def put(name: str, wanted: PutWebhook, key: Key, now: int) -> Script[PutOutcome]:
    """Creates a webhook, or changes its config. Raises InvalidRequest, Forbidden, Incompatible or Throttled."""
    wanted.check(name, key)
    for (queue,) in (yield Statement(QUEUES, (wanted.topics,))):
        raise Incompatible(f"topic {queue!r} is a queue, and its jobs are for workers: leave it out", topic=queue)
    secret = new_secret() if wanted.secret is UNSET else wanted.secret
    if (yield from atomically(create(name, wanted, secret, key, now))):
        made = yield from find(name)
        tell(made.id)
        return PutOutcome(made, True, secret)

    def change(before: Stored) -> Script[None]:
        return change_locked(before, wanted, key, now)

    yield from unserved(name, change)
    return PutOutcome((yield from find(name)), False, None)


def columns(wanted: PutWebhook, secret: str, key: Key, now: int) -> dict[str, Any]:
    return {
        "url": wanted.url,
        "config": wanted.settings().decode(),
        "secret": secret,
        "prefixes": " ".join(key.prefixes),
        "now": now,
    }


def create(name: str, wanted: PutWebhook, secret: str, key: Key, now: int) -> Script[bool]:
    """Returns False if the webhook exists."""
    if not (yield Statement(INSERT, {"name": name, **columns(wanted, secret, key, now)})):
        return False
    most = settings.TOPICS_MAX_WEBHOOKS
    if most:
        ((count,),) = yield Statement(COUNT, (most + 1,))
        limits.check("webhooks", most, count - 1, limits.LATER)  # a refusal rolls the INSERT back
    revealed(wanted, None)
    yield from begin(name, wanted, key.prefixes, now)
    made = yield from find(name)
    yield from audit.note("create", "webhook", name, after=made.audited())
    return True


def begin(name: str, wanted: PutWebhook, prefixes: tuple[str, ...], now: int) -> Script[None]:
    """Gives the webhook a cursor in each of its topics that exists and has none."""
    new = [each for each in (yield from topics_of(name, wanted, prefixes)) if each.cursor_id is None]
    owner = {"kind": "webhook", "name": name, "now": now}
    if wanted.start == "earliest":
        yield Statement(owned_cursors.INSERT_AT_BEGIN, {"topic_ids": [each.id for each in new], **owner})
    elif wanted.start == "head":
        yield Statement(owned_cursors.INSERT_AT_HEAD, {"topics": [each.name for each in new], **owner})
    else:
        for each in new:  # one, because a seq belongs to one topic
            place = {"topic_id": each.id, "seq": min(wanted.start, each.head), **owner}
            yield Statement(owned_cursors.INSERT, place)


def change_locked(before: Stored, wanted: PutWebhook, key: Key, now: int) -> Script[None]:
    if not before.is_within(key):
        raise Incompatible(
            "the webhook has topics outside this key's prefixes: choose another name", webhook=before.name
        )
    if wanted.order != before.settings.order and (yield Statement(IS_WAITING, (before.id,))):
        raise Incompatible(
            "records wait in the order of before: replay, or keep the order until none waits", field="order"
        )
    secret, wanted = before.secret if wanted.secret is UNSET else wanted.secret, revealed(wanted, before)
    was = yield from topics_of(before.name, before.settings, before.prefixes)
    stay = {each.id for each in (yield from topics_of(before.name, wanted, key.prefixes))}
    left = [each for each in was if each.id not in stay and each.cursor_id is not None]
    yield Statement(owned_cursors.LOCK, ([each.cursor_id for each in left],))
    yield Statement(owned_cursors.DELETE, ([each.cursor_id for each in left],))
    yield Statement(FORGET_WAITING, (before.id, [each.id for each in left]))
    yield Statement(FORGET_FAILED, (before.id, [each.id for each in left]))
    yield Statement(CHANGE, {"id": before.id, **columns(wanted, secret, key, now)})
    yield from begin(before.name, wanted, key.prefixes, now)
    after = yield from find(before.name)
    yield from audit.note_difference("webhook", before.name, before.audited(), after.audited())


def delete(name: str, key: Key) -> Script[bool]:
    """Deletes a webhook with its positions and its waiting records. Returns False if it does not exist."""

    def drop(before: Stored) -> Script[bool]:
        before.check(key)
        cursors = [each.cursor_id for each in (yield from topics_of(name, before.settings, before.prefixes))]
        yield Statement(owned_cursors.LOCK, ([id for id in cursors if id is not None],))
        yield Statement(owned_cursors.DELETE, ([id for id in cursors if id is not None],))
        yield Statement(DELETE, (before.id,))
        yield from audit.note("delete", "webhook", name, before.audited())
        return True

    try:
        return (yield from unserved(name, drop))
    except NotFound:
        return False


def set_paused(name: str, paused: bool, reason: str | None, now: int) -> Script[Stored]:
    """Pauses or resumes a webhook. After the answer to a pause, nothing is sent. Raises NotFound."""

    def change(before: Stored) -> Script[None]:
        yield Statement(PAUSE, (paused, reason if paused else None, now, before.id))
        yield from audit.note_difference("webhook", name, {"paused": before.paused}, {"paused": paused})

    yield from unserved(name, change)
    return (yield from find(name))


def rotate(name: str, secret: str, now: int) -> Script[Stored]:
    """Gives the webhook a new secret. For a day, calls have a signature by the secret before, too. Raises NotFound.

    A secret that it has already changes nothing: a client without an answer repeats the call, and the former secret must stay.
    """

    def change(before: Stored) -> Script[None]:
        if secret == before.secret:
            return
        yield Statement(ROTATE, {"id": before.id, "secret": secret, "until": now + PREVIOUS_MS, "now": now})
        yield from audit.note("change", "webhook", name, {}, {"secret": "another"})

    yield from unserved(name, change)
    return (yield from find(name))

"""Signs of life: each web process, worker and beat writes a row every two seconds, and reads who else is there.

They stand in PostgreSQL and not in Redis, so that Redis' own death can be told. A thread of its own does it in every process: one
that is busy lives, and one whose interpreter stands still does not.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections import Counter
from collections.abc import Collection
from typing import Any, NamedTuple

import redis
from django.conf import settings
from django.db import connection

from base.clock import now_ms
from base.errors import TopicsError
from store.database import mend, prepared
from wire import metrics

log = logging.getLogger(__name__)
BEAT_SECONDS = 2.0
STALE_MS = 15_000  # a process that said nothing for so long is taken for dead
FORGET_MS = 3_600_000  # and is no longer named
GRACE_MS = 20_000  # after our own start: the others may still be starting
QUEUE = "celery"  # Celery's default queue, a list in Redis; nothing is sent to another
NEEDED = ("worker", "beat")  # every site needs them. Without them forwarding and upkeep stop

SAY = """
INSERT INTO console_process (id, kind, host, pid, started_ts, seen_ts, worked_ts)
VALUES (%(id)s, %(kind)s, %(host)s, %(pid)s, %(started_ts)s, %(now)s, %(worked_ts)s)
    ON CONFLICT (id) DO UPDATE SET seen_ts = excluded.seen_ts, worked_ts = excluded.worked_ts
"""
# In order of name, as everybody takes these rows.
ADD = """
INSERT INTO console_count (name, value)
SELECT name, by FROM unnest(%(names)s::text[], %(bys)s::bigint[]) AS more (name, by) ORDER BY name
    ON CONFLICT (name) DO UPDATE SET value = console_count.value + excluded.value
"""
ALIVE = "SELECT kind, max(seen_ts) FROM console_process GROUP BY kind"
# Also what was written by a clock that was ahead: who died then would live until that time. Who lives writes it anew in a moment.
FORGET = """
DELETE FROM console_process WHERE seen_ts NOT BETWEEN %(now)s::bigint - %(forget_ms)s AND %(now)s::bigint + %(stale_ms)s
"""
# What the web processes count together, by the metric that it is counted as; answers with a 5xx are "errors".
COUNTED = {"topics_appended_records_total": "appended", "topics_read_records_total": "read"}
REQUESTS = "topics_http_requests_total"


class Seen(NamedTuple):
    """What this process knew of the others at its last sign."""

    ts: int
    last: dict[str, int]  # when each kind was last seen
    queue_length: int | None  # None: Redis does not answer
    redis_ts: int  # when it last did; 0: never


class Signs:
    """The signs of one process, and its thread."""

    def __init__(self, kind: str) -> None:
        self.kind, self.host, self.pid = kind, socket.gethostname()[:64], os.getpid()
        self.started_ts = now_ms()
        self.id = f"{self.host}:{self.pid}:{self.started_ts}"
        self.worked_ts: int | None = None
        self.counts: Counter[str] = Counter()
        self.lock = threading.Lock()
        self.seen: Seen | None = None
        self.redis = redis.Redis.from_url(settings.REDIS_URL, socket_connect_timeout=1, socket_timeout=1)

    def start(self) -> None:
        metrics.listeners.append(self.note)
        threading.Thread(target=self.beat_forever, name="signs", daemon=True).start()

    def note(self, sums: dict[tuple[str | int, ...], int]) -> None:
        """Told by the metrics what was counted since it was last told."""
        with self.lock:
            for (name, *labels), by in sums.items():
                if name in COUNTED:
                    self.counts[COUNTED[str(name)]] += by
                elif name == REQUESTS and str(labels[-1]).startswith("5"):
                    self.counts["errors"] += by

    def worked(self, **_: Any) -> None:
        """It did what it is for."""
        self.worked_ts = now_ms()

    def beat_forever(self) -> None:
        while True:
            try:
                self.beat(now_ms())
            except Exception as error:
                connection.close()
                if not isinstance(error, TopicsError):
                    log.exception("this process could not say that it lives")
                # PostgreSQL is away: nobody can be told, and readiness says so by itself.
            time.sleep(BEAT_SECONDS)

    def beat(self, now: int) -> None:
        """Say that we live, hand over what was counted, and see who else lives."""
        mend()
        prepared(
            SAY,
            {
                "id": self.id,
                "kind": self.kind,
                "host": self.host,
                "pid": self.pid,
                "started_ts": self.started_ts,
                "now": now,
                "worked_ts": self.worked_ts,
            },
        )
        with self.lock:
            counts, self.counts = self.counts, Counter()
        if counts:
            try:
                prepared(ADD, {"names": list(counts), "bys": list(counts.values())})
            except Exception:
                with self.lock:
                    self.counts += counts
                raise
        prepared(FORGET, {"now": now, "forget_ms": FORGET_MS, "stale_ms": STALE_MS})
        length = self.look_at_queue()
        redis_ts = now if length is not None else self.seen.redis_ts if self.seen else 0
        self.seen = Seen(now, dict(prepared(ALIVE, ())), length, redis_ts)

    def look_at_queue(self) -> int | None:
        try:
            return int(str(self.redis.llen(QUEUE)))
        except redis.RedisError:
            return None

    def degraded(self, now: int) -> list[str]:
        """What is not as it should be, as this process saw it a moment ago."""
        seen = self.seen
        if seen is None:
            return []
        wrong = ["redis"] if seen.queue_length is None else []
        if now - self.started_ts > GRACE_MS:
            # As of that look: while PostgreSQL takes no writes nobody can say that he lives.
            wrong += [kind for kind in expected(seen.last) if seen.ts - seen.last.get(kind, 0) > STALE_MS]
        return wrong


def expected(seen: Collection[str]) -> list[str]:
    """Returns the kinds of processes whose silence is a problem, given the kinds seen in the last hour.

    A site without the push bus runs no push process. So push is expected only if it was seen.
    """
    return [*NEEDED, "push"] if "push" in seen else [*NEEDED]


_ours: Signs | None = None


def start(kind: str) -> Signs:
    """Have this process say from now on that it lives. A second call, in the same process, does nothing."""
    global _ours
    if _ours is None or _ours.pid != os.getpid():  # a fork inherits the object, and not the thread
        _ours = Signs(kind)
        _ours.start()
    return _ours


def degraded() -> list[str]:
    """Returns the parts of this site that are silent while appends and reads work: "redis", "worker", "beat", "push"."""
    return [] if _ours is None or _ours.pid != os.getpid() else _ours.degraded(now_ms())


def running(now: int) -> dict[str, bool]:
    """The kinds of processes that there were in the last hour, and whether one of each gave a sign of life a moment ago."""
    found = seen()
    last = {} if found is None else found.last
    return {kind: now - ts < STALE_MS for kind, ts in sorted({**last, "web": now}.items())}  # we are one of those


def queue_length() -> int | None:
    """How many messages waited in Celery's queue a moment ago; None: Redis did not answer, or this process does not look."""
    return None if _ours is None or _ours.seen is None else _ours.seen.queue_length


def seen() -> Seen | None:
    """What this process knows of the others; None: it does not look."""
    return None if _ours is None else _ours.seen

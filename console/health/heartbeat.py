"""Heartbeats: each web process, worker and beat writes a row every two seconds, and reads the rows of the others.

The rows are in PostgreSQL, not in Redis, so that a failure of Redis is visible. Each process writes in its own thread. A busy
process therefore has a heartbeat, and a process with a hanging interpreter has none.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Collection
from functools import partial
from typing import Any, NamedTuple

import redis
from django.conf import settings
from django.db import connection

from base import outage, redis_client
from base.clock import now_ms
from base.errors import TopicsError
from base.threads import start_thread
from store.database import mend, prepared

log = logging.getLogger(__name__)
BEAT_SECONDS = 2.0
STALE_MS = 15_000  # after so long without a heartbeat, a process counts as dead
FORGET_MS = 3_600_000  # after so long, its row is deleted
STUCK_SECONDS = 60.0  # a worker that has taken no task for so long, while tasks wait, is silent
GRACE_MS = 20_000  # after our own start, because the others may still be starting
QUEUE = settings.CELERY_TASK_DEFAULT_QUEUE  # a list in Redis; only tasks of push go to another queue
NEEDED = ("worker", "beat")  # every site needs these; without them, forwarding and upkeep stop

SAY = """
INSERT INTO console_process (id, kind, host, pid, started_ts, seen_ts, worked_ts)
VALUES (%(id)s, %(kind)s, %(host)s, %(pid)s, %(started_ts)s, %(now)s, %(worked_ts)s)
    ON CONFLICT (id) DO UPDATE SET seen_ts = excluded.seen_ts, worked_ts = excluded.worked_ts
"""
# Locks the rows in order of name, because all processes do, and another order could deadlock.
ADD = """
INSERT INTO console_count (name, value)
SELECT name, by FROM unnest(%(names)s::text[], %(bys)s::bigint[]) AS more (name, by) ORDER BY name
    ON CONFLICT (name) DO UPDATE SET value = console_count.value + excluded.value
"""
# A subscriber of the bus and a webhook want push: until push has a heartbeat, its time is 0.
HEARTBEATS = """(SELECT kind, seen_ts FROM console_process UNION ALL
                 SELECT 'push', 0 WHERE EXISTS (SELECT FROM push_subscriber WHERE unsubscribed_ts IS NULL)
                                    OR EXISTS (SELECT FROM push_webhook WHERE NOT paused))"""
ALIVE = f"SELECT kind, max(seen_ts) FROM {HEARTBEATS} heartbeat GROUP BY kind"
# Also deletes rows from a clock that was ahead. A dead process with such a clock would otherwise count as alive until that time.
# Living processes write their rows again within two seconds.
FORGET = """
DELETE FROM console_process WHERE seen_ts NOT BETWEEN %(now)s::bigint - %(forget_ms)s AND %(now)s::bigint + %(stale_ms)s
"""
GOODBYE = "DELETE FROM console_process WHERE id = %(id)s"
# Counts of the web processes together, by metric. Answers with a 5xx are counted as "errors".
COUNTED = {"topics_appended_records_total": "appended", "topics_read_records_total": "read"}
REQUESTS = "topics_http_requests_total"


Do = Callable[[Callable[[], None]], object]


class Seen(NamedTuple):
    """This process's view of the others at its last heartbeat."""

    ts: int
    last: dict[str, int]  # when each kind was last seen
    waiting_tasks: int | None  # None: Redis does not answer
    redis_ts: int  # when Redis last answered; 0: never


class ProcessHeartbeat:
    """The heartbeats of one process, and their thread."""

    def __init__(self, kind: str) -> None:
        self.kind, self.host, self.pid = kind, socket.gethostname()[:64], os.getpid()
        self.started_ts = now_ms()
        self.id = uuid.uuid4().hex  # a host's name can be too long, and processes in containers share their pids
        self.worked_ts: int | None = None
        self.worked_at = time.monotonic()
        self.stuck_pace = outage.Pace()
        self.counts: Counter[str] = Counter()
        self.lock = threading.Lock()
        # A heartbeat that began before the goodbye must not write the row again after it.
        self.writing = threading.Lock()
        self.is_over = False
        self.seen: Seen | None = None
        self.redis = redis_client.connect(settings.REDIS_URL, socket_connect_timeout=1, socket_timeout=1)

    def start(self, do: Do) -> None:
        start_thread("heartbeat", self.beat_forever, do)

    def note(self, sums: dict[tuple[str | int, ...], int]) -> None:
        """Adds the increments since the last call."""
        with self.lock:
            for (name, *labels), by in sums.items():
                if name in COUNTED:
                    self.counts[COUNTED[str(name)]] += by
                elif name == REQUESTS and str(labels[-1]).startswith("5"):
                    self.counts["errors"] += by

    def worked(self, **_: Any) -> None:
        """Notes that this process has taken or sent a task."""
        self.worked_ts, self.worked_at = now_ms(), time.monotonic()

    def is_stuck(self, waiting_tasks: int | None) -> bool:
        """Returns whether this is a worker that takes no task although some wait. It is then silent, as if it had ended."""
        idle = time.monotonic() - self.worked_at
        if self.kind != "worker" or not waiting_tasks or idle < STUCK_SECONDS:
            return False
        if self.stuck_pace.is_due():
            log.warning("This worker has taken no task for %d s, and %d wait: restart it", idle, waiting_tasks)
        return True

    def beat_forever(self, do: Do) -> None:
        while not self.is_over:
            waiting = self.count_tasks()  # here, because Redis may take its time
            do(partial(self.try_beat, waiting))
            time.sleep(BEAT_SECONDS)

    def try_beat(self, waiting_tasks: int | None) -> None:
        try:
            with self.writing:
                if not self.is_over:
                    self.beat(now_ms(), waiting_tasks)
            outage.postgresql.over()
        except TopicsError as error:
            connection.close()
            outage.postgresql.note(error)
        except Exception:
            connection.close()
            log.exception("Could not write the heartbeat of this process")

    def beat(self, now: int, waiting_tasks: int | None) -> None:
        """Writes our heartbeat and our counts, and reads the heartbeats of others.

        `waiting_tasks`: None if Redis did not answer.
        """
        mend()
        if not self.is_stuck(waiting_tasks):
            names = ("id", "kind", "host", "pid", "started_ts", "worked_ts")
            prepared(SAY, {name: getattr(self, name) for name in names} | {"now": now})
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
        redis_ts = now if waiting_tasks is not None else self.seen.redis_ts if self.seen else 0
        self.seen = Seen(now, dict(prepared(ALIVE, ())), waiting_tasks, redis_ts)

    def say_goodbye(self) -> None:
        """Deletes our row, because this process ends as it should and is not expected any longer. If PostgreSQL is away, the row
        stays, and a process of this kind that starts later replaces it."""
        self.is_over = True
        try:
            with self.writing:
                mend()
                prepared(GOODBYE, {"id": self.id})
        except Exception:
            log.warning("Could not delete the heartbeat of this process")

    def count_tasks(self) -> int | None:
        """Returns the number of tasks in the queue. Returns None if Redis does not answer, or takes no writes."""
        try:
            with self.redis.pipeline(transaction=False) as pipeline:
                pipeline.set(f"{settings.TOPICS_REDIS_PREFIX}written", 1, px=FORGET_MS)
                pipeline.llen(f"{settings.TOPICS_REDIS_PREFIX}{QUEUE}")
                return int(pipeline.execute()[1])
        except redis.RedisError as error:
            outage.redis.note(error)
            return None

    def degraded(self, now: int) -> list[str]:
        """Returns the parts that are silent in this process's last view."""
        seen = self.seen
        if seen is None:
            return []
        wrong = ["redis"] if seen.waiting_tasks is None else []
        if now - self.started_ts > GRACE_MS:
            # Compares with the time of that view: while PostgreSQL accepts no writes, no process can write a heartbeat.
            wrong += [kind for kind in expected(seen.last) if seen.ts - seen.last.get(kind, 0) > STALE_MS]
        return wrong


def expected(seen: Collection[str]) -> list[str]:
    """Returns the kinds of processes whose silence is a problem, given the kinds of HEARTBEATS.

    Push is expected if TOPICS_PROCESSES has push, if a client subscribes, or if a push process was seen in the last hour.
    """
    return [*NEEDED, "push"] if "push" in settings.TOPICS_PROCESSES or "push" in seen else [*NEEDED]


class Ours:
    """The heartbeats of this process, after start()."""

    def __init__(self) -> None:
        self.heartbeat: ProcessHeartbeat | None = None

    def start(self, kind: str, do: Do = lambda beat: beat()) -> ProcessHeartbeat:
        """Starts the heartbeats of this process. A second call in the same process does nothing.

        `do` runs each heartbeat. In a web process it does so on a connection that other work uses, too.
        """
        heartbeat = self.here()
        if heartbeat is None:
            heartbeat = self.heartbeat = ProcessHeartbeat(kind)
            heartbeat.start(do)
        return heartbeat

    def here(self) -> ProcessHeartbeat | None:
        """Returns the heartbeats, or None if this process has none. A fork inherits the object, but not the thread."""
        return self.heartbeat if self.heartbeat is not None and self.heartbeat.pid == os.getpid() else None

    def say_goodbye(self, **_: Any) -> None:
        """Ends the heartbeats of this process, which is about to exit."""
        if (heartbeat := self.here()) is not None:
            heartbeat.say_goodbye()

    def note(self, sums: dict[tuple[str | int, ...], int]) -> None:
        """Adds a web process's increments to its next heartbeat (wire/metrics.py calls this)."""
        if (heartbeat := self.here()) is not None:
            heartbeat.note(sums)

    def degraded(self) -> list[str]:
        """Returns the parts of this site that are silent while appends and reads work: "redis", "worker", "beat", "push"."""
        heartbeat = self.here()
        return [] if heartbeat is None else heartbeat.degraded(now_ms())

    def seen(self) -> Seen | None:
        """Returns this process's view of the others, or None if this process has no heartbeat."""
        heartbeat = self.here()
        return None if heartbeat is None else heartbeat.seen


process = Ours()
start, note, degraded, seen = process.start, process.note, process.degraded, process.seen


def running(now: int) -> dict[str, bool]:
    """Returns each kind of HEARTBEATS, and whether a heartbeat of that kind is fresh."""
    found = seen()
    last = {} if found is None else found.last
    return {kind: now - ts < STALE_MS for kind, ts in sorted({**last, "web": now}.items())}  # we are a web process


def waiting_tasks() -> int | None:
    """Returns the number of messages in Celery's queue at the last heartbeat. Returns None if Redis did not answer or no
    heartbeat runs here."""
    found = seen()
    return None if found is None else found.waiting_tasks

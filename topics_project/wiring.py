"""Wiring: which package listens to which. The packages below know no package above them, so this file connects them.

Every process that sets up Django calls wire(): web, workers, beat, commands, the shell and Spark's workers. A web process also
calls wire_web(). A gateway needs no wiring, because it does not use Django. A slot (base/slot.py) that is filled twice stops the
process at its start.

Celery's signals are the only other connections: topics_project/celery.py and push/tasks.py connect them where a task is defined.
"""

from __future__ import annotations

import time
from typing import Any

from django.conf import settings
from django.db.backends.signals import connection_created

import console.metrics
import groups.groups
import groups.metrics
import groups.state
import mirrors.state
import outbox.metrics
import pipeline.state
import push.reports.metrics
import push.webhooks.metrics
import queues.metrics
import queues.state
import routers.metrics
import topics.metrics
import topics.state
from console import jobs
from console.health import heartbeat
from push.bus import events, fill, health, names
from push.reports import counters
from queues import counts
from routers import routers as router_config
from routers import stored, tasks
from store import connection, liveness, planner, serving, session, threads, timeouts
from store.script import Script
from topics import schema, wake
from topics.api import health as readiness
from topics.hooks import Hooks, hooks
from topics.read import recency
from topics.upkeep import recovery
from watch import longpoll, registry
from wire import metrics
from wire.access.keys import Key
from wire.process import memory, pulse, shutdown
from wire.request.turns import turns


def set_up(connection: Any, **_: Any) -> None:
    """Runs on each new connection of Django. If a step fails, it is closed: nothing uses half of a session."""
    try:
        for step in (session.begin, schema.enter, recovery.recover, planner.set_up):
            step(connection)
    except BaseException:
        connection.close()
        raise


def wire() -> None:
    """Fills the slots of this process. Called once, when all models are loaded (apps.py)."""
    # New connections, of event loops and of Django: after their settings, recovery from a crash of PostgreSQL comes first.
    connection.on_connect.set(recovery.RECOVER)
    connection_created.connect(set_up)
    liveness.when_away.set(threads.end_connections)
    # The log. A queue of the bus is filled first, and then routers advance the topic (push/bus/fill.py calls routers/advance.py).
    hooks.set(
        Hooks(
            before_read=fill.before_read,
            check_config=names.check_queue,
            check_records=events.check_records,
            check_dest=events.check_dest,
            before_delete=router_config.before_delete,
            with_delete=with_delete,
            before_drop=before_drop,
            named_by=stored.named_by,
            until_moved=longpoll.until_moved,
            after_delete=counts.forget_deleted,
            count_jobs=counts.count_jobs,
        )
    )
    topics.state.kinds.set(
        {
            "keys": topics.state.KEYS_OF_APPENDS,
            "groups": groups.state.KIND,
            "sites": mirrors.state.KIND,
            **queues.state.KINDS,
            "writes": pipeline.state.KIND,
        }
    )
    wake.on_routed.set(tasks.request_advance)
    # The server itself: health, metrics, and the work of each second.
    readiness.degraded.set(heartbeat.degraded)
    metrics.collectors.set(
        (
            topics.metrics.collect,
            groups.metrics.collect,
            queues.metrics.collect,
            outbox.metrics.collect,
            routers.metrics.collect,
            push.reports.metrics.collect,
            push.webhooks.metrics.collect,
            console.metrics.collect,
        )
    )
    metrics.on_flush.set(heartbeat.note)
    pulse.looks.set((health.process.look_at_redis,))
    pulse.steps.set(
        (
            metrics.flush,
            memory.give_back,
            lambda: threads.end_idle(time.monotonic()),
            recency.flush,
            counters.note_start,
            counters.flush,
        )
    )
    jobs.listen()


def with_delete(topic_id: int, name: str, key: Key) -> Script[list[str]]:
    """Deletes the routers that name a topic, and the leases of a queue. Returns the names of the routers."""
    deleted = yield from router_config.with_delete(topic_id, name, key)
    yield from counts.drop(topic_id)
    return deleted


def before_drop(topic_id: int) -> Script[None]:
    """Locks the groups of a topic, and deletes the schedules of a queue."""
    yield from groups.groups.before_drop(topic_id)
    yield from counts.drop_schedules(topic_id)


def wire_web() -> None:
    """Fills the slots of a web process. Called once (serve.py)."""
    timeouts.serve("web", settings.TOPICS_STATEMENT_TIMEOUT_MS)
    serving.announce()
    threads.watch_connections()
    # At the end of the process, these end their requests. The hub registers itself with topics/wake.py while it runs.
    shutdown.holders.set(
        (
            shutdown.Holder(turns.let_in, bool),
            shutdown.Holder(longpoll.release, longpoll.busy),
            shutdown.Holder(registry.shut_down, registry.busy),
        )
    )

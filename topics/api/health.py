"""Endpoints of the server itself: health, readiness and metrics (docs/wire.md)."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Literal

import msgspec
from django.conf import settings
from msgspec import UNSET, UnsetType
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from base import clock
from base.errors import NotReady
from base.slot import Slot
from contract.operations import Operation
from store import disk
from store.script import Script, Statement
from wire import metrics
from wire.answer import Answer
from wire.endpoint import Call, Endpoint
from wire.schema import JSON, Performance

# The number stands elsewhere. The look at the table of topics fails without it, as every other call would.
READY = "SELECT topics FROM (SELECT FROM topics_topic LIMIT 1) there RIGHT JOIN topic_totals() ON true"
TAG = "server"


class HealthAnswer(msgspec.Struct, kw_only=True):
    status: Literal["ok"] = "ok"
    """The process runs."""
    version: str
    """Version of this server."""
    uptime_ms: int
    """Milliseconds since this process started."""
    performance: Performance


class ReadyAnswer(msgspec.Struct, kw_only=True):
    status: Literal["ready"] = "ready"
    """The server can serve requests."""
    wal_replay_complete: bool = True
    """PostgreSQL has replayed its log after a crash. While it does, and on a standby, the answer is 503."""
    topics: int
    """Number of topics."""
    degraded: list[Literal["storage_full", "redis", "worker", "beat", "push"]] | UnsetType = UNSET
    """Problems that do not stop this process from serving. `storage_full`: appends are refused, because the disk is full.
    `redis`, `worker`, `beat`, `push`: silent for 15 s. A worker is silent, too, if it takes no task for a minute although some
    wait. Forwarding, upkeep and callbacks lag. Absent without a problem."""
    performance: Performance


# Returns more of these names. The function must not wait, and returns only problems that are known.
degraded: Slot[Callable[[], list[Any]]] = Slot()


@Endpoint(Operation.GET_HEALTH, scope=None, answers={200: HealthAnswer}, tag=TAG)
def health(call: Call[None, None]) -> Script[Answer]:
    """Check that this process runs."""
    yield from ()
    uptime_ms = int((time.monotonic() - clock.process.started) * 1000)
    return call.answer(HealthAnswer(version=settings.VERSION, uptime_ms=uptime_ms, performance=call.performance()))


@Endpoint(Operation.GET_READY, scope=None, answers={200: ReadyAnswer}, tag=TAG)
def ready(call: Call[None, None]) -> Script[Answer]:
    """Check that this process can serve requests.

    PostgreSQL answers, takes writes, and has the tables. `degraded` names parts that do not work. With a full disk,
    reads still work. Without forwarding, appends and reads still work.
    """
    try:
        ((topics,),) = yield Statement(READY)
    except NotReady:
        raise
    except Exception as error:
        raise NotReady("PostgreSQL does not answer") from error
    wrong = [*(["storage_full"] if disk.full() else []), *degraded.value()]
    return call.answer(ReadyAnswer(topics=topics, degraded=wrong or UNSET, performance=call.performance()))


class MetricsAnswer(msgspec.Struct, kw_only=True):
    metrics: dict[str, Any]
    """Each metric by name, with its type, help and samples."""
    performance: Performance


@Endpoint(
    Operation.GET_METRICS,
    scope="read",
    answers={200: (CONTENT_TYPE_LATEST, MetricsAnswer)},
    tag=TAG,
    media=("text/plain", JSON),
)
def tell_metrics(call: Call[None, None]) -> Script[Answer]:
    """Get the metrics in Prometheus' text format, or in JSON if the client accepts JSON."""
    gathered = yield from metrics.gather(call.key)
    if call.accept == JSON:
        return call.answer(MetricsAnswer(metrics=metrics.as_dict(gathered), performance=call.performance()))
    return Answer(200, generate_latest(gathered), ((b"content-type", CONTENT_TYPE_LATEST.encode()),))

"""Whether the server lives, whether it can serve, and what it counts (contract.md section 9)."""

from __future__ import annotations

import time
from typing import Any, Literal

import django.db
import msgspec
from django.conf import settings
from django.db import connection
from msgspec import UNSET, UnsetType
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from base.clock import STARTED
from base.errors import NotReady
from store import disk as storage
from wire import metrics
from wire.endpoint import Endpoint, JSONRenderer
from wire.schema import Performance, operation

READY = "SELECT pg_is_in_recovery(), (SELECT count(*) FROM topics_topic)"


class HealthAnswer(msgspec.Struct, kw_only=True):
    status: Literal["ok"] = "ok"
    version: str
    uptime_ms: int
    performance: Performance


class ReadyAnswer(msgspec.Struct, kw_only=True):
    status: Literal["ready"] = "ready"
    wal_replay_complete: bool
    topics: int
    degraded: list[Literal["storage_full"]] | UnsetType = UNSET
    performance: Performance


class Health(Endpoint):
    """GET /v0/health and /healthz."""

    public = True

    @operation("health", answers={200: HealthAnswer}, tag="server")
    def get(self, request: Request) -> Response:
        """This process lives."""
        uptime_ms = int((time.monotonic() - STARTED) * 1000)
        return self.answer(HealthAnswer(version=settings.VERSION, uptime_ms=uptime_ms, performance=self.performance()))


class Ready(Endpoint):
    """GET /v0/ready and /readyz."""

    public = True

    @operation("ready", answers={200: ReadyAnswer}, tag="server")
    def get(self, request: Request) -> Response:
        """It can serve: PostgreSQL is there, has replayed its log, and holds our tables. What is refused all the same
        is named in `degraded`: reads go on while the disk is full."""
        try:
            with connection.cursor() as cursor:
                cursor.execute(READY)
                replaying, topics = cursor.fetchone()
        except django.db.Error as error:
            raise NotReady("PostgreSQL is away, or holds no tables of ours yet") from error
        if replaying:
            raise NotReady("PostgreSQL replays its log", wal_replay_complete=False)
        degraded: list[Literal["storage_full"]] | UnsetType = ["storage_full"] if storage.full() else UNSET
        return self.answer(
            ReadyAnswer(wal_replay_complete=True, topics=topics, degraded=degraded, performance=self.performance())
        )


class PrometheusRenderer(BaseRenderer):
    """Bytes are Prometheus' text format already."""

    media_type = "text/plain"
    format = "prometheus"
    charset = None

    def render(self, data: Any, accepted_media_type: str | None = None, renderer_context: Any = None) -> bytes:
        return data


class MetricsAnswer(msgspec.Struct, kw_only=True):
    metrics: dict[str, Any]
    performance: Performance


class Metrics(Endpoint):
    """GET /v0/metrics."""

    renderer_classes = (PrometheusRenderer, JSONRenderer)

    @operation("metrics", answers={200: CONTENT_TYPE_LATEST}, tag="server")
    def get(self, request: Request) -> Response:
        """Prometheus' text format, or JSON for who accepts that."""
        self.key.check("read")
        gathered = metrics.Gathered(self.key)
        if request.accepted_renderer.format == "json":
            return self.answer(MetricsAnswer(metrics=metrics.as_dict(gathered), performance=self.performance()))
        return Response(generate_latest(gathered), content_type=CONTENT_TYPE_LATEST)

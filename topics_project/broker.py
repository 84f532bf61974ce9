"""Celery's connections to Redis. They leave a server that takes no writes, as all of ours do (base/redis_client.py)."""

from __future__ import annotations

from typing import Any

import kombu
from celery.app.amqp import AMQP as CeleryAMQP
from kombu.transport import redis

from base import outage
from base.redis_client import TcpConnection, TlsConnection

# Between two attempts. Celery waits for up to 30 s, for which forwarding would stand still after the end of an outage.
INTERVALS = {"interval_start": 1, "interval_step": 1, "interval_max": 5}


class QoS(redis.QoS):
    """The messages that a worker holds. Each frees its place when it ends, also if Redis takes no note of the end.

    Celery logs that failure and continues, and the place would stay taken. A worker without a free place asks Redis for nothing,
    so it would stand still for ever. Redis gives the message out again after an hour, and each task may run twice.
    """

    def ack(self, delivery_tag: str) -> None:
        try:
            super().ack(delivery_tag)
        finally:
            self._quick_ack(delivery_tag)

    def reject(self, delivery_tag: str, requeue: bool = False) -> None:
        try:
            super().reject(delivery_tag, requeue)
        finally:
            self._quick_ack(delivery_tag)


class Channel(redis.Channel):
    QoS = QoS
    connection_class = TcpConnection
    connection_class_ssl = TlsConnection

    def __init__(self, *args: Any, **options: Any) -> None:
        """Writes, because Celery counts a connection as good if it answers, and would then fail and try again without a pause."""
        super().__init__(*args, **options)
        try:
            self.client.set("written", 1, px=1000)
        except Exception:
            self._disconnect_pools()
            raise


class Transport(redis.Transport):
    Channel = Channel


class Connection(kombu.Connection):
    def get_transport_cls(self) -> type[Transport]:
        return Transport

    def ensure_connection(self, errback: Any = None, max_retries: int | None = None, **options: Any) -> Connection:
        """Tells of failures as an outage. Celery's own `errback` would log each attempt."""
        super().ensure_connection(lambda error, _: outage.redis.note(error), max_retries, **INTERVALS, **options)
        return self


class AMQP(CeleryAMQP):
    Connection = Connection

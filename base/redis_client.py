"""Clients of Redis whose connections leave a server that takes no writes.

After a failover, the former master can continue as a replica, which answers and takes no writes. A full server does the same. A
connection that gets such an answer counts as lost. So the library opens another one, for which it resolves the name again, and
repeats the command. This is safe, because the server did nothing.
"""

from __future__ import annotations

import logging
import socket
from functools import cache
from typing import Any
from urllib.parse import urlsplit

import redis
import redis.asyncio
from django.conf import settings
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError, MasterDownError, OutOfMemoryError, ReadOnlyError, ResponseError
from redis.retry import Retry

from base import database_url, outage

REFUSALS = (ReadOnlyError, MasterDownError, OutOfMemoryError)
# Refusals for which the library has no class. A command that waits gets the last one when its server becomes a replica.
CODES = ("MISCONF", "NOREPLICAS", "UNBLOCKED")

# The system's names of libpq's options. macOS has a part of them.
OF_LIBPQ = {
    "tcp_user_timeout": "TCP_USER_TIMEOUT",
    "keepalives_idle": "TCP_KEEPIDLE",
    "keepalives_interval": "TCP_KEEPINTVL",
    "keepalives_count": "TCP_KEEPCNT",
}


def takes_no_writes(error: ResponseError) -> bool:
    return isinstance(error, REFUSALS) or str(error).startswith(CODES)


class Leaving:
    """The part of a connection for threads that leaves such a server."""

    def read_response(self, *args: Any, **options: Any) -> Any:
        try:
            response = super().read_response(*args, **options)  # type: ignore[misc]
        except ResponseError as error:
            if takes_no_writes(error):
                self.disconnect()  # type: ignore[attr-defined]
                raise ConnectionError(str(error)) from error
            raise
        outage.redis.over()
        return response


class LeavingAsync:
    """The same for an event loop."""

    async def read_response(self, *args: Any, **options: Any) -> Any:
        try:
            response = await super().read_response(*args, **options)  # type: ignore[misc]
        except ResponseError as error:
            if takes_no_writes(error):
                await self.disconnect(nowait=True)  # type: ignore[attr-defined]
                raise ConnectionError(str(error)) from error
            raise
        outage.redis.over()
        return response


class TcpConnection(Leaving, redis.Connection):
    pass


class TlsConnection(Leaving, redis.SSLConnection):
    pass


class AsyncTcpConnection(LeavingAsync, redis.asyncio.Connection):
    pass


class AsyncTlsConnection(LeavingAsync, redis.asyncio.SSLConnection):
    pass


class OneLine(logging.Filter):
    """A filter of a handler: leaves out the traceback of a lost connection. The line has the cause, and Celery writes many."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.exc_info and isinstance(record.exc_info[1], ConnectionError):
            record.exc_info = record.exc_text = None
        return True


def tcp_timeout(ms: int) -> dict[str, Any]:
    """Returns options for the loss of a connection after `ms` without an answer, as libpq has them (base/database_url.py).

    Without them, Linux repeats a command to a lost host for a quarter of an hour, and a listener waits for two hours.
    """
    wanted = {OF_LIBPQ[name]: value for name, value in database_url.tcp_timeout(ms).items()}
    options = {getattr(socket, name): value for name, value in wanted.items() if hasattr(socket, name)}
    return {"socket_keepalive": True, "socket_keepalive_options": options}


def connect(url: str, **options: Any) -> redis.Redis:
    """Returns a client for threads, which tries each command twice. `options`: as of redis.Redis."""
    kind = kind_of(url, TcpConnection, TlsConnection)
    return redis.Redis.from_url(url, retry=Retry(NoBackoff(), 1), **kind, **options)


@cache
def shared(url: str) -> redis.Redis:
    """Returns the client of this process for short commands. A command fails if Redis does not answer within 2 s."""
    return connect(url, socket_timeout=2, socket_connect_timeout=2)


def connect_async(url: str, **options: Any) -> redis.asyncio.Redis:
    """Returns a client for an event loop, which tries each command twice. `options`: as of redis.asyncio.Redis."""
    kind = kind_of(url, AsyncTcpConnection, AsyncTlsConnection)
    return redis.asyncio.Redis.from_url(url, retry=AsyncRetry(NoBackoff(), 1), **kind, **options)


def kind_of(url: str, tcp: type, tls: type) -> dict[str, Any]:
    """Returns the class of connections and tcp_timeout(). A socket of this machine has no name that could lead elsewhere."""
    scheme = urlsplit(url).scheme
    if scheme not in ("redis", "rediss"):
        return {}
    return {"connection_class": tls if scheme == "rediss" else tcp, **tcp_timeout(settings.TOPICS_TCP_TIMEOUT_MS)}

"""The lines of a socket's commands in the log of requests (wire/observers/request_log.py)."""

from __future__ import annotations

import logging
from typing import Any

from django.conf import settings
from msgspec import UNSET

from http1 import Request
from sockets.frames import RequestId
from wire.access.keys import Key
from wire.observers.request_log import identity, ms_since, performance_in, write

EVERY = settings.TOPICS_LOG != "off"
SLOW_MS = settings.TOPICS_SLOW_MS


class CommandLog:
    """The log of one socket. `identity`: the ids of its handshake, and the name of its key."""

    __slots__ = ("identity",)

    def __init__(self, request: Request, key: Key) -> None:
        self.identity = identity(request, key)

    def note(
        self,
        route: str,
        request_id: RequestId,
        started: float,
        begun: float,
        status: int,
        code: str | None = None,
        body: bytes = b"",
    ) -> None:
        """Logs a command, or only a slow one. `started`: when it arrived. `begun`: when the commands before it let it begin."""
        ms = ms_since(started)
        is_slow = 0 < SLOW_MS < ms
        if not EVERY and not is_slow:
            return
        fields: dict[str, Any] = {"method": "WS", "route": route, "ms": ms, **self.identity}
        if request_id is not UNSET:
            fields["command_id"] = bytes(request_id).decode().strip('"')
        fields |= {"status": status, "bytes": len(body)}
        if code is not None:
            fields["code"] = code
        if is_slow:
            fields["slow"] = {"line_ms": round((begun - started) * 1000, 3), **performance_in(body)}
        write(logging.WARNING if is_slow else logging.INFO, fields)


def log_of(request: Request, key: Key) -> CommandLog | None:
    """Returns the log of a new socket, or None if no command is logged."""
    return CommandLog(request, key) if EVERY or SLOW_MS else None

"""How far the handlers of this project are behind, for a page that must not wait."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import NamedTuple

from django.db import DatabaseError, transaction

from topics_client import calls, objects
from topics_client.django.handlers import Handler
from topics_client.django.places import connection, database, server
from topics_client.errors import TopicsError, Unreachable
from topics_client.script import Request, Script, call, run

LAG = "SELECT lag, oldest_ms FROM topics.lag(%s, %s)"
SECONDS = 5  # of a server that does not answer


class Lag(NamedTuple):
    """The records or jobs that wait, and the age of the oldest one, None without one. `unknown`: why there are no figures."""

    waiting: int | None = None
    oldest: timedelta | None = None
    unknown: str = ""


def lags(handlers: Iterable[Handler]) -> list[Lag]:
    """Returns the lag of each handler."""
    return over_http(handlers) if database() is None else [in_database(handler) for handler in handlers]


def in_database(handler: Handler) -> Lag:
    try:
        with transaction.atomic(using=database()), connection().cursor() as cursor:
            cursor.execute(LAG, [handler.topic, handler.group])
            return shown(*cursor.fetchone())
    except DatabaseError as error:
        return Lag(unknown=str(error).partition("\n")[0])


def over_http(handlers: Iterable[Handler]) -> list[Lag]:
    """Asks each handler's figures once. If the server is away, no further handler waits for it."""
    found: list[Lag] = []
    away: Lag | None = None
    with server(timeout=SECONDS) as topics:
        for handler in handlers:
            try:
                found.append(away or run(ask(handler), topics.http))
            except TopicsError as error:
                found.append(lag := Lag(unknown=str(error)))
                away = lag if isinstance(error, Unreachable) else None
    return found


def ask(handler: Handler) -> Script[Lag]:
    parts = ("groups", handler.group) if handler.group else ()
    answer = objects.shown((yield from call(Request("GET", calls.path(handler.topic, *parts)), patience=0)))
    if handler.group:
        return shown(answer["lag"], answer["oldest_unread_ms"])
    if "queue" not in answer:
        return Lag(unknown=f"topic {handler.topic!r} is a log: only a topic of type queue has jobs")
    return shown(answer["queue"]["ready"], answer["queue"]["oldest_ready_ms"])


def shown(waiting: int, oldest_ms: int | None) -> Lag:
    return Lag(waiting, None if oldest_ms is None else timedelta(seconds=oldest_ms // 1000))

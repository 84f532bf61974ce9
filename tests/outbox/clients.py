"""Other clients of PostgreSQL, and a relay that the test drives round by round."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import psycopg
from django.db import connection

from base.clock import now_ms
from outbox.relay import Relay
from tests.scripts import diff
from topics.cache import forget_all
from topics.read.diff import Diff

Client = psycopg.Connection[Any]
Clients = Callable[[], Client]


def empty_outbox() -> None:
    with connection.cursor() as cursor:
        cursor.execute("TRUNCATE outbox_emitted, outbox_waiting, outbox_stopped")
    forget_all()


def connecting(stack: ExitStack) -> Client:
    """Another session. It commits each statement by itself, outside of `transaction()`."""
    options = {
        name: value
        for name, value in connection.get_connection_params().items()
        if name in ("dbname", "user", "password", "host", "port", "options")
    }
    return stack.enter_context(psycopg.connect(**options, autocommit=True))


def finish(relay: Relay) -> None:
    """Lets the relay work until it has looked, and nothing is left to do. Without a look, it moved what an older one found."""
    is_done = False
    while not is_done:
        looks = not relay.listed
        is_done = not relay.round() and looks


def read(topic: str) -> list[Any]:
    """Returns the records of a topic as their data, in order."""
    window = diff(topic, Diff(from_seq=0, limit=1000), now_ms())
    return [record["data"] for record in json.loads(f"[{window.records or ''}]")]

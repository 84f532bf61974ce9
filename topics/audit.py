"""The audit log: who changed or deleted which topic, router, key or cursor, from where, and what it was before.

The domain's functions write it in the transaction of the change: either both are there or neither. Appends, reads and
moves of cursors are not in it, nor are records that a key deletes, which some clients do thousands of times a second; those
that a person deletes in the admin are. It is read in the admin alone; no key reads it. Rules: docs/security.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

from asgiref.sync import iscoroutinefunction
from django.conf import settings
from django.db import connection
from django.http import HttpRequest, HttpResponse
from django.utils.decorators import sync_and_async_middleware

from base.clock import now_ms
from topics.models import AuditEntry

DAY_MS = 86_400_000
STEP = 5_000  # entries dropped in one statement

# By the index on ts. Two sweeps at once take turns at the rows, and the second finds them gone.
DROP_OLD = """
DELETE FROM topics_auditentry WHERE id IN (SELECT id FROM topics_auditentry WHERE ts < %s ORDER BY ts LIMIT %s)
"""


class Actor(NamedTuple):
    """Who makes a change, what people call them, and the address that they come from."""

    id: str
    name: str
    origin: str


class Change(NamedTuple):
    """An object of one kind, and what of it was and is. None: it was not there before, or is not there any more."""

    name: str
    before: dict[str, Any] | None = None
    after: dict[str, Any] | None = None


LOCAL = Actor("local", "", "")  # a command at a shell
_acting: ContextVar[Callable[[], Actor]] = ContextVar("acting", default=lambda: LOCAL)


@contextmanager
def acting(actor: Callable[[], Actor]) -> Iterator[None]:
    """What is changed within is this actor's doing. `actor` is asked once something is changed."""
    token = _acting.set(actor)
    try:
        yield
    finally:
        _acting.reset(token)


def note(
    action: str, kind: str, name: str, before: dict[str, Any] | None = None, after: dict[str, Any] | None = None
) -> None:
    """Write down one change. The caller is in the transaction that makes it."""
    note_all(action, kind, [Change(name, before, after)])


def note_all(action: str, kind: str, changes: Iterable[Change]) -> None:
    """Write down changes of one kind. The caller is in the transaction that makes them."""
    actor, ts = _acting.get()(), now_ms()
    who = {"actor": actor.id, "actor_name": actor.name, "origin": actor.origin}
    entries = [AuditEntry(ts=ts, **who, action=action, kind=kind, **change._asdict()) for change in changes]
    AuditEntry.objects.bulk_create(entries, batch_size=1000)


def note_difference(kind: str, name: str, before: dict[str, Any], after: dict[str, Any]) -> None:
    """Write down what differs between two states of an object, if anything does."""
    changed = [field for field in after if before.get(field) != after[field]]
    if changed:
        was, now = ({field: state.get(field) for field in changed} for state in (before, after))
        note("change", kind, name, was, now)


def drop_old(now: int, limit: int = STEP) -> int:
    """Drop entries that are older than TOPICS_AUDIT_DAYS, the oldest first. Returns how many: `limit` at the most."""
    with connection.cursor() as cursor:
        cursor.execute(DROP_OLD, [now - settings.TOPICS_AUDIT_DAYS * DAY_MS, limit])
        return int(cursor.rowcount)


@sync_and_async_middleware
def middleware(get_response: Callable[[HttpRequest], Any]) -> Callable[[HttpRequest], Any]:
    """Django's middleware: what is changed in the admin is the doing of the user who is logged in."""

    def handle(request: HttpRequest) -> HttpResponse:
        with acting(lambda: visitor(request)):
            return get_response(request)

    async def handle_stream(request: HttpRequest) -> HttpResponse:
        with acting(lambda: visitor(request)):
            return await get_response(request)

    return handle_stream if iscoroutinefunction(get_response) else handle


def visitor(request: HttpRequest) -> Actor:
    return Actor(f"user:{request.user.pk}", request.user.get_username(), origin(request))


def origin(request: HttpRequest) -> str:
    """The address of the connection. What a proxy says in headers is not believed: anybody can say it."""
    return str(request.META.get("REMOTE_ADDR") or "")[:64]

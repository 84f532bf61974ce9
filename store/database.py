"""PostgreSQL's errors become the domain's here, and nowhere else; the cause stays attached."""

from __future__ import annotations

import functools
import logging
import select
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol
from weakref import WeakKeyDictionary

import django.db
import psycopg
from django.db import connection
from psycopg import pq

from base.errors import InvalidRequest, NotReady, Outdated, StorageFull, TopicsError
from store.codec import FINE, Arguments, Rows, dump, load, numbered, refused

log = logging.getLogger(__name__)
# A value that PostgreSQL cannot hold: only a client can have sent it.
REFUSED = (
    psycopg.errors.InvalidTextRepresentation,
    psycopg.errors.CharacterNotInRepertoire,
    psycopg.errors.UntranslatableCharacter,
    psycopg.errors.NumericValueOutOfRange,
    psycopg.DataError,
)
# What is not there before `migrate`, nor after an upgrade until then.
UNMIGRATED = (psycopg.errors.UndefinedTable, psycopg.errors.UndefinedColumn, psycopg.errors.UndefinedFunction)
OLDEST = 14  # of PostgreSQL's versions


def check_version(server_version: int) -> None:
    """Raises NotReady for a PostgreSQL older than our statements."""
    if server_version < OLDEST * 10_000:
        raise NotReady(f"PostgreSQL {server_version // 10_000} is too old: {OLDEST} or later is required")


def translated(error: BaseException) -> TopicsError | None:
    """The domain's error for one of psycopg's or Django's; None when it is a fault of ours."""
    cause = error.__cause__ if isinstance(error, django.db.Error) and error.__cause__ else error
    if isinstance(error, django.db.NotSupportedError):  # Django looks at the version, too
        return NotReady(str(error))
    if isinstance(cause, UNMIGRATED):
        return NotReady(lacking(str(cause).splitlines()[0]))
    if isinstance(cause, psycopg.errors.StatementTooComplex):
        return InvalidRequest("the JSON is nested too deep")
    if isinstance(cause, REFUSED):
        return InvalidRequest(f"PostgreSQL refuses a value: {str(cause).splitlines()[0]}")
    if isinstance(cause, psycopg.errors.SerializationFailure):
        return Outdated("this was changed by somebody else in the meantime")
    if isinstance(cause, psycopg.errors.LockNotAvailable):
        return NotReady("somebody else holds what this needs, and has not let go in time")
    if isinstance(cause, psycopg.errors.QueryCanceled):
        return NotReady("PostgreSQL took too long over this, and gave it up")
    if isinstance(cause, psycopg.errors.IdleInTransactionSessionTimeout | psycopg.errors.TransactionTimeout):
        return NotReady("this server stood still in the middle of a write, which was therefore undone")
    if isinstance(cause, psycopg.errors.DiskFull):
        return StorageFull("PostgreSQL's disk is full")
    if isinstance(cause, psycopg.OperationalError | psycopg.InterfaceError):
        return NotReady("PostgreSQL is not reachable")
    return None


@functools.cache
def lacking(missing: str) -> str:
    """What to say of what PostgreSQL does not find, in its own words. Logged once for all who look for it."""
    told = f"the database lacks what this version needs ({missing}): run `manage.py migrate`; if that changes nothing, restore it"
    log.warning(told)
    return told


# What each of Django's connections has prepared, by statement: the server's name for it.
_prepared: WeakKeyDictionary[psycopg.Connection[Any], dict[str, bytes]] = WeakKeyDictionary()


@contextmanager
def translating() -> Iterator[None]:
    """Raise the domain's error for a database's."""
    try:
        yield
    except (django.db.Error, psycopg.Error) as error:
        known = translated(error)
        if known is None:
            raise
        raise known from error


class Idle(Protocol):
    """A connection that waits for nothing: psycopg's, or an event loop's (connection.py)."""

    @property
    def closed(self) -> bool: ...

    def fileno(self) -> int: ...


def hung_up(idle: Idle) -> bool:
    """Whether a connection has ended. While nothing is asked, there is nothing to read but that the server closes it."""
    if idle.closed:
        return True
    poll = select.poll()
    poll.register(idle.fileno(), select.POLLIN)
    return bool(poll.poll(0))


def mend() -> None:
    """Let go of this thread's connection where it has ended, so that the next statement makes another."""
    if connection.connection is not None and hung_up(connection.connection):
        connection.close()


def prepared(statement: str, arguments: Arguments) -> Rows:
    """Rows of a statement that PostgreSQL plans once a connection; Django's own cursors have each call planned anew,
    which takes longer than most of ours. Runs on Django's connection, in its transaction. Raises NotReady."""
    with translating():
        if not connection.health_check_done:
            mend()
            connection.health_check_done = True  # Django would ask the server, which takes as long as what we want
        connection.ensure_connection()
        with connection.wrap_database_errors:
            return run(connection.connection, statement, arguments)


def run(opened: psycopg.Connection[Any], statement: str, arguments: Arguments) -> Rows:
    """Straight through libpq: one call, and one turn at the interpreter."""
    server, names = opened.pgconn, _prepared.setdefault(opened, {})
    if not opened.autocommit and server.transaction_status == pq.TransactionStatus.IDLE:
        checked(server, server.exec_(b"BEGIN"))  # as psycopg does before the first statement of a transaction
    name = names.get(statement)
    if name is None:
        name = b"topics%d" % len(names)
        checked(server, server.prepare(name, numbered(statement)[0]))
        names[statement] = name
    return load(checked(server, server.exec_prepared(name, dump(statement, arguments))))


def checked(server: pq.abc.PGconn, result: pq.abc.PGresult) -> pq.abc.PGresult:
    """Raises psycopg.Error where the server refused."""
    if server.status == pq.ConnStatus.BAD:
        raise psycopg.OperationalError(result.get_error_message())
    if result.status not in FINE:
        raise refused(result)
    return result

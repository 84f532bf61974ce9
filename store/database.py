"""Translates PostgreSQL's errors into the domain's errors. No other module does this. The cause stays attached."""

from __future__ import annotations

import functools
import logging
import select
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

import django.db
import psycopg
from django.db import connection
from psycopg import pq

from base.depth import too_deep
from base.descriptors import reserve
from base.errors import InvalidRequest, NotReady, Outdated, StorageFull, TopicsError
from store.codec import FINE, Arguments, Rows, dump, load, numbered, refused

log = logging.getLogger(__name__)
# PostgreSQL cannot hold a value. Only a client can have sent such a value.
REFUSED = (
    psycopg.errors.InvalidTextRepresentation,
    psycopg.errors.CharacterNotInRepertoire,
    psycopg.errors.UntranslatableCharacter,
    psycopg.errors.NumericValueOutOfRange,
    psycopg.DataError,
)
# Objects that are missing before the first `migrate`, or between an upgrade and its `migrate`.
UNMIGRATED = (psycopg.errors.UndefinedTable, psycopg.errors.UndefinedColumn, psycopg.errors.UndefinedFunction)
OLDEST = 14  # oldest supported version of PostgreSQL
NO_WRITES = "PostgreSQL is read only, for example a standby: let DATABASE_URL lead to the primary"


def check_version(server_version: int) -> None:
    """Raises NotReady if PostgreSQL is too old for our statements."""
    if server_version < OLDEST * 10_000:
        raise NotReady(f"PostgreSQL {server_version // 10_000} is too old: expected {OLDEST} or later")


def translated(error: BaseException) -> TopicsError | None:
    """Returns the domain's error for an error of psycopg or Django, or None for an error of our own code."""
    cause = error.__cause__ if isinstance(error, django.db.Error) and error.__cause__ else error
    if isinstance(error, django.db.NotSupportedError):  # Django checks the version, too
        return NotReady(str(error))
    if isinstance(cause, UNMIGRATED):
        return NotReady(lacking(str(cause).splitlines()[0]))
    if isinstance(cause, psycopg.errors.StatementTooComplex):
        return too_deep("the JSON")
    if isinstance(cause, REFUSED):
        return InvalidRequest(f"PostgreSQL refused a value: {str(cause).splitlines()[0]}")
    if isinstance(cause, psycopg.errors.SerializationFailure):
        return Outdated("another request changed this object: try again")
    if isinstance(cause, psycopg.errors.LockNotAvailable):
        return NotReady("another request holds the lock (TOPICS_LOCK_TIMEOUT_MS): try again")
    if isinstance(cause, psycopg.errors.QueryCanceled):
        return NotReady("PostgreSQL took too long, so the server gave up: try again")
    if isinstance(cause, psycopg.errors.IdleInTransactionSessionTimeout | psycopg.errors.TransactionTimeout):
        return NotReady("this server paused during a write, so PostgreSQL undid the write: try again")
    if isinstance(cause, psycopg.errors.ReadOnlySqlTransaction):
        return NotReady(NO_WRITES)
    if isinstance(cause, psycopg.errors.DiskFull):
        return StorageFull("PostgreSQL's disk is full: delete data, or make the disk larger")
    if isinstance(cause, psycopg.OperationalError | psycopg.InterfaceError):
        return NotReady("PostgreSQL is not reachable")
    return None


def is_locked_out(error: TopicsError) -> bool:
    """Returns whether the cause of the error is a lock that another transaction holds."""
    cause = error.__cause__
    cause = cause.__cause__ if isinstance(cause, django.db.Error) else cause
    return isinstance(cause, psycopg.errors.LockNotAvailable)


@functools.cache
def lacking(missing: str) -> str:
    """Returns the message about an object that PostgreSQL does not find. `missing`: PostgreSQL's message. Logs each only once."""
    told = f"the database lacks what this version needs ({missing}): run `manage.py migrate`; if that changes nothing, restore it"
    log.warning(told)
    return told


# The prepared statements of each of Django's connections: their names on the server, by statement.
_prepared: WeakKeyDictionary[psycopg.Connection[Any], dict[str, bytes]] = WeakKeyDictionary()


@contextmanager
def translating() -> Iterator[None]:
    """Raise the domain's error for an error of the database."""
    try:
        yield
    except (django.db.Error, psycopg.Error) as error:
        known = translated(error)
        if known is None:
            raise
        raise known from error


def hung_up(idle: psycopg.Connection[Any]) -> bool:
    """Returns whether an idle connection has ended. An idle connection is readable only if the server has closed it."""
    if idle.closed:
        return True
    poll = select.poll()
    poll.register(idle.fileno(), select.POLLIN)
    return bool(poll.poll(0))


def mend() -> None:
    """Close this thread's connection if it has ended. The next statement opens another."""
    if connection.connection is not None and hung_up(connection.connection):
        connection.close()


def prepared(statement: str, arguments: Arguments) -> Rows:
    """Returns the rows of a statement that PostgreSQL plans once for each connection. Raises NotReady.

    With Django's own cursors PostgreSQL plans each call again, which takes longer than most of our statements. The statement runs
    on Django's connection, in its transaction.
    """
    with translating():
        if not connection.health_check_done:
            mend()
            connection.health_check_done = True  # Django's check is a query, which takes as long as our statement
        if connection.connection is None:
            with reserve.room(2):  # for the connection, and for the duplicate of its socket (threads.py)
                connection.ensure_connection()
        with connection.wrap_database_errors:
            try:
                return run(connection.connection, statement, arguments)
            except psycopg.errors.ReadOnlySqlTransaction:
                connection.close()  # a new one may lead to a server that takes writes
                raise


def changed_rows(statement: str, arguments: Arguments = ()) -> int:
    """Runs a statement that PostgreSQL plans for these arguments. Returns the number of changed rows."""
    with connection.cursor() as cursor:
        cursor.execute(statement, arguments)
        return int(cursor.rowcount)


def run(opened: psycopg.Connection[Any], statement: str, arguments: Arguments) -> Rows:
    """Runs a statement through libpq, in one call that takes the interpreter's lock once."""
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
    """Returns the result. Raises psycopg.Error if the server refused the statement."""
    if server.status == pq.ConnStatus.BAD:
        raise psycopg.OperationalError(result.get_error_message())
    if result.status not in FINE:
        raise refused(result)
    return result

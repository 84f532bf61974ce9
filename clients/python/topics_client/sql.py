"""Emits records in the transaction of your own rows, by the function `topics.emit` of PostgreSQL, without a call over HTTP.

`connection` is a connection of psycopg, a session or connection of SQLAlchemy, or a connection of Django. This package imports
none of them. The record arrives exactly once if your transaction commits, and never otherwise.

A `NOTIFY topics` after the commit makes the record arrive at once, otherwise it takes up to 250 ms. Django's connections and
SQLAlchemy's sessions send it by themselves. With psycopg, with a connection of SQLAlchemy, and with Django after
`set_autocommit(False)`, call `wake` after your commit. If you append with `topics.append`, call `wake` with the name of the
topic: otherwise its streams wait up to a second.
"""

from __future__ import annotations

import logging
from typing import Any

from topics_client.codec import Codec
from topics_client.tracing import stamped

NAMES = ("topic", "data", "tag", "node", "meta", "key")
EMIT = "SELECT topics.emit({topic}, CAST({data} AS json), {tag}, {node}, CAST({meta} AS json), {key})"
BY_PLACE, BY_NAME = (
    EMIT.format(**{name: sign + name * named for name in NAMES}) for sign, named in (("%s", 0), (":", 1))
)
WAKE = "SELECT pg_notify('topics', {topic})"
WAKE_BY_PLACE, WAKE_BY_NAME = WAKE.format(topic="%s"), WAKE.format(topic=":topic")
EMITTED = "topics_emitted"  # in the `info` of a session of SQLAlchemy that has emitted: whether that is committed
TURN = "topics_turn"  # of a connection of Django: what the callbacks that wait for one commit have in common
_any = Codec(Any)
log = logging.getLogger("topics_client.sql")


def emit(
    connection: Any,
    topic: str,
    data: Any,
    *,
    tag: str | None = None,
    node: str | None = None,
    meta: dict[str, Any] | None = None,
    key: str | None = None,
) -> None:
    """Emits a record. `key`: an idempotency key. Raises the library's error if PostgreSQL refuses the record."""
    values = values_of(topic, data, tag, node, meta, key)
    if is_django(connection):
        with connection.cursor() as cursor:
            cursor.execute(BY_PLACE, values)
        wake_at_commit(connection)
    elif is_sqlalchemy(connection):
        from sqlalchemy import event, text

        connection.execute(text(BY_NAME), dict(zip(NAMES, values, strict=True)))
        if hasattr(connection, "get_bind"):
            connection.info[EMITTED] = False
            event.listen(connection, "after_commit", note_commit)  # once, however often
            event.listen(connection, "after_transaction_end", wake_if_committed)
    else:
        connection.execute(BY_PLACE, values)


async def emit_async(
    connection: Any,
    topic: str,
    data: Any,
    *,
    tag: str | None = None,
    node: str | None = None,
    meta: dict[str, Any] | None = None,
    key: str | None = None,
) -> None:
    """As emit, for an asynchronous connection of psycopg. With SQLAlchemy, `await session.run_sync(emit, topic, data)`."""
    await connection.execute(BY_PLACE, values_of(topic, data, tag, node, meta, key))


def values_of(topic: str, data: Any, *more: Any) -> tuple[str | None, ...]:
    """Returns the arguments of topics.emit."""
    tag, node, meta, key = more
    meta = stamped(meta)
    return topic, _any.encode(data).decode(), tag, node, None if meta is None else _any.encode(meta).decode(), key


def wake(connection: Any, topic: str = "") -> None:
    """Makes emitted records arrive at once. `topic`: also the records that your transaction appended to this topic.

    Call it after your commit: within a transaction, it makes other commits wait.
    """
    if is_django(connection):
        with connection.cursor() as cursor:
            cursor.execute(WAKE_BY_PLACE, (topic,))
    elif is_sqlalchemy(connection):
        from sqlalchemy import text

        bind = connection.get_bind() if hasattr(connection, "get_bind") else connection
        with bind.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as other:
            other.execute(text(WAKE_BY_NAME), {"topic": topic})
    else:
        connection.execute(WAKE_BY_PLACE, (topic,))


def wake_at_commit(connection: Any) -> None:
    """Wakes the relay once after the commit of a transaction of Django, however many records it emits.

    Each record has a callback, because Django drops those of a savepoint that is rolled back. The first that runs wakes.
    """
    if not runs_callbacks(connection):
        return
    turn = connection.__dict__.setdefault(TURN, object())

    def first() -> None:
        if connection.__dict__.get(TURN) is turn:
            del connection.__dict__[TURN]
            wake(connection)

    connection.on_commit(first, robust=True)


def runs_callbacks(connection: Any) -> bool:
    """Returns whether Django runs callbacks after a commit: not if the application manages the transaction without Django."""
    return bool(connection.in_atomic_block or connection.get_autocommit())


def note_commit(session: Any) -> None:
    """Notes a commit of a session that has emitted. The release of a savepoint is none."""
    if EMITTED in session.info and not session.in_nested_transaction():
        session.info[EMITTED] = True


def wake_if_committed(session: Any, transaction: Any) -> None:
    """Wakes the relay at the end of a transaction that has emitted.

    At its commit, the session still holds its connection, and the wake would wait for another one of the same pool.
    """
    if transaction.parent is not None or not session.info.pop(EMITTED, False):
        return
    try:
        wake(session)
    except Exception as error:  # the records are committed, and the caller must not take that for a failure
        log.warning("The relay was not woken, so emitted records take up to 250 ms: %s", error)


def is_django(connection: Any) -> bool:
    return hasattr(connection, "on_commit") and hasattr(connection, "vendor")


def is_sqlalchemy(connection: Any) -> bool:
    return any(each.__module__.startswith("sqlalchemy.") for each in type(connection).__mro__)

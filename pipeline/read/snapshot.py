"""Read-only transactions. ADBC returns their rows as Arrow batches."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import adbc_driver_postgresql
import adbc_driver_postgresql.dbapi as adbc
import pyarrow as pa
from adbc_driver_manager import AdbcConnection, AdbcDatabase
from psycopg import sql

from pipeline.database import Database

SNAPSHOT = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"  # the check and the rows use one snapshot
BATCH_BYTES = 2 * 1024 * 1024
DATA_EXCEPTION = "22000"  # the SQLSTATE of pipeline_check


class SnapshotSession:
    """A read-only transaction of one snapshot."""

    def __init__(self, cursor: adbc.Cursor) -> None:
        self.cursor = cursor

    def row(self, statement: sql.Composed) -> tuple[Any, ...]:
        """Returns the only row of a statement, or () if there is none. Raises adbc.Error."""
        self.cursor.execute(statement.as_string())
        return self.cursor.fetchone() or ()

    def refusal(self, statement: sql.Composed) -> str | None:
        """Runs a check. Returns the message of its data exception, or None. Raises adbc.Error for any other error."""
        try:
            self.row(statement)
        except adbc.Error as error:
            if error.sqlstate != DATA_EXCEPTION:
                raise
            return str(error).partition("ERROR:")[2].strip().splitlines()[0]
        return None

    def batches(self, statement: sql.Composed) -> Iterator[pa.RecordBatch]:
        self.cursor.execute(statement.as_string())
        yield from self.cursor.fetch_record_batch()


@cache
def types(where: str) -> AdbcDatabase:
    """Returns ADBC's database: the address and the types of PostgreSQL, without a connection. Raises adbc.Error.

    To read the types takes 45 ms of processor time, and a connection takes 3 ms. So a worker reads the types once.
    """
    return adbc_driver_postgresql.connect(where)


class Kept:
    """Stands for a database that stays open, because a connection closes its database."""

    def close(self) -> None:
        pass


@contextmanager
def snapshot(database: Database) -> Iterator[SnapshotSession]:
    """Opens a session. Raises adbc.Error."""
    opened = AdbcConnection(types(database.conninfo))
    with adbc.Connection(Kept(), opened) as connection, connection.cursor() as cursor:
        cursor.execute(SNAPSHOT)
        cursor.adbc_statement.set_options(**{"adbc.postgresql.batch_size_hint_bytes": str(BATCH_BYTES)})
        yield SnapshotSession(cursor)

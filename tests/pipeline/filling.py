"""Short ways to fill topics, and to look at what a job left."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from django.db import connection
from psycopg.conninfo import make_conninfo

from base.clock import now_ms
from tests import scripts
from tests.instances import until
from topics.append.records import Append, NewRecord, check_rows

# As JSON may be written: numbers that no float holds, keys twice, escapes, spaces, and a NUL.
ODD = [
    b'{"a":1.0E+05,"a":2}',
    b'{"x" : [ 1 , 2 ] }',
    b'"\\u0000"',
    b'"\\ud83d\\ude00 \xf0\x9f\x98\x80"',
    b"12345678901234567890123456789.000",
    b"null",
    b'""',
    b"-0",
    b'{"":{"":[[[]]]}}',
    b'"\\/"',
    b'"\xe2\x80\xa8 \\" \\\\ \xc3\xa9"',
]

FEW = 3  # tasks of a job that has 16: each takes a fifth of a second of a core
OURS = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'topics pipeline'"
SESSIONS = "SELECT sessions FROM pg_stat_database WHERE datname = current_database()"
READ = """
SELECT coalesce(sum(seq_tup_read + coalesce(idx_tup_fetch, 0)), 0)::bigint FROM pg_stat_user_tables WHERE relname = ANY (%s)
"""


def database_url() -> str:
    """The database of this test, as libpq is told it."""
    options = {k: v for k, v in connection.get_connection_params().items() if k in ("dbname", "user", "host", "port")}
    secret = connection.settings_dict["PASSWORD"]
    return make_conninfo(**options, **({"password": secret} if secret else {}))


def fill(topic: str, data: Sequence[bytes], *, now: int | None = None, **fields: Sequence[Any]) -> None:
    """Append records; `tag`, `node` and `meta` are as long as `data`, where they are given."""
    if "meta" in fields:
        fields["meta"] = [msgspec.Raw(each) for each in fields["meta"]]
    records = [
        NewRecord(data=msgspec.Raw(each), **{name: values[n] for name, values in fields.items()})
        for n, each in enumerate(data)
    ]
    for start in range(0, len(records), 10_000):
        wanted = Append(records[start : start + 10_000])
        scripts.append(topic, wanted, check_rows(wanted), now_ms() if now is None else now)


def numbers(topic: str, count: int, **more: Any) -> None:
    fill(topic, [b'{"n":%d}' % n for n in range(1, count + 1)], **more)


def rows(statement: str, *arguments: Any) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, arguments)
        return cursor.fetchall()


def sessions() -> int:
    """Returns how many sessions PostgreSQL has had in this database. A session counts before it leaves pg_stat_activity."""
    until(lambda: rows(OURS) == [(0,)], "the sessions to end")
    return int(rows(SESSIONS)[0][0])


def rows_read(*tables: str) -> int:
    rows("SELECT pg_stat_force_next_flush()")
    return int(rows(READ, list(tables))[0][0])

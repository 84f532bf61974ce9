"""`topics backup` and `topics restore`: the database as one file, with PostgreSQL's own programs (docs/guides/backup.md).

The file has the custom format of pg_dump. A restore replaces all objects of the database in one transaction. The transaction ends
with checks, and a failed check changes nothing.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, NamedTuple

import psycopg
from django.apps import apps
from django.conf import settings
from django.db import connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from base.refusal import Refusal
from base.units import counted, size
from embedded.programs import clients
from store.database import translating
from store.session import RELIED_ON
from store.sessions import connect
from topics.heads import HEADS_FIT
from topics.schema import ENTER, make
from topics_project.operations.others import DOOR, FOREIGN, known_objects, unknown
from topics_project.operations.prepare import one_at_a_time, prepare_database

# The unlogged tables stay out: after a restore, volatile records do not exist, and topics_recover continues above reserved seqs.
DUMP = ("--format=custom", "--no-owner", "--no-privileges", "--no-unlogged-table-data", "--lock-wait-timeout=60s")
OTHERS = """
SELECT DISTINCT coalesce(nullif(application_name, ''), usename::text, '?') FROM pg_stat_activity
 WHERE datname = current_database() AND backend_type = 'client backend' AND pid NOT IN (pg_backend_pid(), %s) ORDER BY 1
"""
LEAVE_SECONDS = 3.0
HELD = "SELECT count(*), coalesce(sum(count), 0)::bigint FROM topic_heads"
# Functions and sequences of others stay, and objects of extensions. We have no sequence without a column. `theirs`: FOREIGN, what
# others have in other schemas. `functions`: the names of our functions.
EMPTY = """
DO $$
DECLARE
    before     text[] := ARRAY({theirs});
    statements text[];
    statement  text;
    lost       text;
BEGIN
    SELECT array_agg(format('DROP %s IF EXISTS %I.%I CASCADE', CASE relkind WHEN 'v' THEN 'VIEW' WHEN 'm' THEN 'MATERIALIZED VIEW'
                            ELSE 'TABLE' END, current_schema(), relname))
      INTO statements
      FROM pg_class c
     WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p', 'v', 'm') AND NOT relispartition
       AND NOT EXISTS (SELECT FROM pg_depend
                        WHERE classid = 'pg_class'::regclass AND objid = c.oid AND refobjid <> c.oid
                          AND deptype IN ('a', 'e', 'i'));
    SELECT statements || array_agg(format('DROP ROUTINE IF EXISTS %s CASCADE', p.oid::regprocedure))
      INTO statements
      FROM pg_proc p
     WHERE pronamespace = current_schema()::regnamespace AND proname = ANY ({functions});
    FOREACH statement IN ARRAY coalesce(statements, ARRAY[]::text[]) LOOP
        EXECUTE statement;
    END LOOP;
    SELECT min(name) INTO lost FROM (SELECT unnest(before) EXCEPT ({theirs})) gone (name);
    IF lost IS NOT NULL THEN
        RAISE EXCEPTION '% uses topics: drop it, and create it again after the restore', lost;
    END IF;
END
$$;
"""
# The checks at the end of a restore, in its transaction. The dump has set an empty search_path, so the names have their schema.
CHECK_ROWS = """
DO $$ BEGIN IF (SELECT count(*) FROM {table}) <> {rows} THEN
    RAISE EXCEPTION 'the table {table} does not have the {rows} rows of the file'; END IF; END $$;
"""
# The functions for applications are in a schema of their own, which the file does not have. They can be those of another version,
# so the rows that say which texts were applied go, and the start that follows applies them.
FORGET_DOOR = "DELETE FROM {table} WHERE split_part(name, '/', 3) LIKE '{door}.%';"
CHECK_VERSION = """
DO $$ BEGIN IF EXISTS (
    SELECT FROM {schema}.django_migrations WHERE (app || '/' || name) <> ALL (ARRAY[{known}]) AND app IN ({apps})
    ) THEN RAISE EXCEPTION 'a newer version of topics made the file: restore with that version'; END IF; END $$;
"""


class Found(NamedTuple):
    """The topics and live records of a database."""

    topics: int
    records: int

    def __str__(self) -> str:
        return f"{counted(self.topics, 'topic')} with {counted(self.records, 'record')}"


def backup(file: Path) -> str:
    """Writes the database to a new file while it serves, and reads the file again. Returns what was written.

    Raises Refusal. A failed backup leaves no file.
    """
    if file.exists():
        raise Refusal(f"{file} exists: choose another name, or remove it.")
    partial = file.with_name(f"{file.name}.partial")
    partial.touch(mode=0o600)  # the file has password hashes. Raises OSError if the folder does not exist
    try:
        with connected() as session, session.transaction():
            session.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            found = Found(*one(session, HELD))
            snapshot, schema = one(session, "SELECT pg_export_snapshot(), current_schema()")
            folder = clients(major(session))
            dump = [*DUMP, f"--schema={schema}", f"--snapshot={snapshot}", f"--file={partial}"]
            finish(start([str(folder / "pg_dump"), *dump, *target()]), "pg_dump")
            check_rows(session, read_rows(folder, partial, schema))
        partial.rename(file)
    finally:
        partial.unlink(missing_ok=True)
    return f"wrote {file}: {found}, {size(file.stat().st_size)}. Each table has its rows in the file."


def restore(file: Path, force: bool) -> str:
    """Replaces the database by a backup, and brings it up to date. Returns what was restored.

    Raises Refusal: while anything else uses the database, if others have something in our schema, and without `force` also if
    the database holds topics. A failed restore changes nothing.
    """
    with file.open("rb"):
        pass  # raises OSError if the file cannot be read
    with one_at_a_time():
        make(connection)
        with connected() as session:
            check_unused(session)
            (schema,) = one(session, "SELECT current_schema()")
            check_ours(schema)
            if not force:
                check_empty(session)
            folder = clients(major(session), exact=True)
        replace(folder, file, schema)
    # A new connection recovers like after a crash, because the unlogged tables are empty (topics/upkeep/recovery.py).
    connection.close()
    notes: list[str] = []
    with one_at_a_time():
        prepare_database(notes.append)
        grant_roles()
        with connected() as session:
            found = Found(*one(session, HELD))
    done = f"restored {file}: {found}. Each table has the rows of the file, and no record is above its topic's head."
    return "\n".join([done, *notes])


def check_unused(session: psycopg.Connection[Any]) -> None:
    """Raises Refusal if other sessions use the database, except for the session that holds our lock.

    PostgreSQL ends a session some ms after its client has left, on a busy machine much later. So each session gets LEAVE_SECONDS
    to end. For example, check_sessions has just closed two connections, and an operator has just stopped the service.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        (ours,) = cursor.fetchone()
    deadline = time.monotonic() + LEAVE_SECONDS
    while others := [name for (name,) in session.execute(OTHERS, [ours])]:
        if time.monotonic() > deadline:
            raise Refusal(
                f"the database is in use ({', '.join(others)}): stop topics and all other clients, then restore."
            )
        time.sleep(0.05)


def check_ours(schema: str) -> None:
    """Raises Refusal if the schema has tables or views of others.

    An earlier version restores its backup over the tables of a later one. It knows them by the name of their app.
    """
    apps_here = tuple(f"{app}_" for app, _ in MigrationRecorder(connection).applied_migrations())
    strange = [
        each
        for each in unknown(schema, [schema])
        if each.is_relation and not each.is_extensions and not each.name.startswith(apps_here)
    ]
    if strange:
        raise Refusal(
            f"the schema {schema} has tables or views of somebody else, for example {strange[0]}: move them, or restore into a "
            "database or a schema for topics alone (docs/sql.md)."
        )


def check_empty(session: psycopg.Connection[Any]) -> None:
    """Raises Refusal if the database holds topics."""
    if one(session, "SELECT to_regclass('topic_heads')") == (None,):
        return
    found = Found(*one(session, HELD))
    if found.topics:
        raise Refusal(f"the database holds {found}: --force deletes them and restores the backup.")


def grant_roles() -> None:
    """Grants the rights of analysts and writers again, because the file has no rights. The roles belong to the whole server."""
    with connection.cursor() as cursor:
        for app in apps.get_app_configs():
            for role in sorted(Path(app.path).glob("sql/roles/*.sql")):
                cursor.execute(role.read_text())


def replace(folder: Path, file: Path, schema: str) -> None:
    """Replaces all objects of the database by those of the file, in one transaction. Raises Refusal."""
    psql = [
        str(folder / "psql"),
        "--no-psqlrc",
        "--quiet",
        "--single-transaction",
        "--set=ON_ERROR_STOP=1",
        "--file=-",
        *target(),
    ]
    with tempfile.TemporaryFile() as said:
        sink = subprocess.Popen(
            psql, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=said, env=environment(), cwd="/"
        )
        assert sink.stdin is not None
        try:
            sink.stdin.write(f"{ENTER};{emptying(schema)}".encode())
            rows = read_rows(folder, file, schema, sink.stdin)
            sink.stdin.write(checks(rows, schema).encode())
        except BrokenPipeError:
            pass  # psql has exited, and says why
        except BaseException:
            sink.kill()  # the transaction is rolled back. The end of its input would commit it
            raise
        finally:
            with suppress(BrokenPipeError):
                sink.stdin.close()
            code = sink.wait()
        said.seek(0)
        if code:
            raise Refusal(f"nothing was restored: {last_error(said)}")


def emptying(schema: str) -> str:
    """Returns the statement that drops our objects of our schema, and raises an error if objects of others went with them."""
    names = sorted(name for place, name in known_objects(schema) if place == schema)
    ours, functions = (sql.Literal(each).as_string() for each in ([schema, DOOR], names))
    return EMPTY.format(theirs=FOREIGN % {"ours": ours}, functions=functions)


def checks(rows: dict[str, int], schema: str) -> str:
    """Returns the statements that raise an error if the restored rows are not those of the file, and then FORGET_DOOR."""
    loader = MigrationLoader(None)
    quoted = sql.Identifier(schema).as_string()
    known = ", ".join(f"'{app}/{name}'" for app, name in sorted(loader.disk_migrations))
    ours = ", ".join(f"'{app}'" for app in sorted(loader.migrated_apps))
    found = [CHECK_ROWS.format(table=table, rows=count) for table, count in rows.items()]
    found.append(HEADS_FIT.format(schema=quoted))
    found.append(CHECK_VERSION.format(schema=quoted, known=known, apps=ours))
    found += [FORGET_DOOR.format(table=table, door=DOOR) for table in rows if table.endswith(".store_object")]
    return "".join(found)


def read_rows(folder: Path, file: Path, schema: str, sink: IO[bytes] | None = None) -> dict[str, int]:
    """Reads a backup as SQL, passes the SQL on if `sink` is given, and returns the number of rows of each table.

    Raises Refusal for a damaged file.
    """
    rows: dict[str, int] = {}
    table = None
    with tempfile.TemporaryFile() as said:
        command = [
            str(folder / "pg_restore"),
            "--no-owner",
            "--no-privileges",
            f"--schema={schema}",
            "--file=-",
            str(file),
        ]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=said) as source:
            assert source.stdout is not None
            try:
                for line in source.stdout:
                    if table is None:
                        if line.startswith(b"COPY ") and line.endswith(b" FROM stdin;\n"):
                            table = line.split(b" ", 2)[1].decode()
                            rows[table] = 0
                    elif line == b"\\.\n":
                        table = None
                    else:
                        rows[table] += 1
                    if sink is not None:
                        sink.write(line)
            except BaseException:
                source.kill()
                raise
        said.seek(0)
        if source.returncode:
            raise Refusal(f"{file} is no complete backup: {last_error(said)}")
    if not any(table.endswith(".django_migrations") for table in rows):
        raise Refusal(why_empty(folder, file, schema))
    return rows


def why_empty(folder: Path, file: Path, schema: str) -> str:
    """Returns why a whole file has no tables of topics for our schema."""
    command = [str(folder / "pg_restore"), "--list", str(file)]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    if found := re.search(r" VIEW (.+) topic_heads\b", listed):
        return (
            f"{file} has topics in the schema {found[1]}, and here topics has the schema {schema}: name {found[1]} as "
            "search_path in DATABASE_URL (docs/guides/backup.md)."
        )
    return f"{file} is no backup of topics."


def check_rows(session: psycopg.Connection[Any], rows: dict[str, int]) -> None:
    """Raises Refusal if a table has other rows than the file has. `session` has the snapshot of the file."""
    for table, count in rows.items():
        (stored,) = one(session, f"SELECT count(*) FROM {table}")
        if stored != count:
            raise Refusal(f"the table {table} has {stored} rows, and the file has {count}: back up again.")


def start(command: list[str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment())


def finish(process: subprocess.Popen[bytes], name: str) -> None:
    """Waits for a program. Raises Refusal with its last error."""
    try:
        _, said = process.communicate()
    except BaseException:
        process.kill()
        raise
    if process.returncode:
        raise Refusal(f"{name} failed: {last_line(said)}")


def last_error(said: IO[bytes]) -> str:
    return last_line(said.read())


def last_line(said: bytes) -> str:
    """Returns the first error of a program of PostgreSQL, on one line."""
    lines = [line.strip() for line in said.decode(errors="replace").splitlines() if line.strip()]
    errors = [line for line in lines if "error:" in line.lower()]
    return (errors or lines or ["it did not say why"])[0]


@contextmanager
def connected() -> Iterator[psycopg.Connection[Any]]:
    """Connects to the database. Errors of PostgreSQL become errors of topics."""
    with translating(), connect() as session:
        session.execute(RELIED_ON)
        session.execute(ENTER)
        yield session


def one(session: psycopg.Connection[Any], statement: str) -> tuple[Any, ...]:
    row: tuple[Any, ...] | None = session.execute(statement.encode()).fetchone()
    assert row is not None
    return row


def major(session: psycopg.Connection[Any]) -> int:
    return session.info.server_version // 10_000


def target() -> list[str]:
    """Returns the argument that names the database, without its password, because other users see arguments."""
    parts = {name: str(value) for name, value in conninfo_to_dict(settings.DATABASE_URL).items() if name != "password"}
    return [f"--dbname={make_conninfo(**parts)}"]


def environment() -> dict[str, str]:
    password = conninfo_to_dict(settings.DATABASE_URL).get("password")
    return {**os.environ, **({"PGPASSWORD": str(password)} if password else {})}

"""Looks at a deployment, and says what to change (`manage.py doctor`, docs/guides/troubleshoot.md).

Each check yields its findings. A check changes nothing, except that the check of a proxy makes a watch session, which expires.
"""

from __future__ import annotations

import resource
import shutil
import sys
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from typing import Any, NamedTuple

import psycopg
import redis
import urllib3
from django.conf import settings
from django.db import connections
from django.db.migrations.executor import MigrationExecutor
from psycopg.rows import dict_row

from base.clock import now_ms
from base.errors import TopicsError
from base.refusal import Refusal
from base.units import counted, first, size
from console.health.heartbeat import ALIVE, STALE_MS, expected
from console.health.problems import MOST_JUDGED, READY_MS, of_groups, of_outbox, of_queues
from embedded.programs import LEAST_POSTGRES, LEAST_REDIS
from queues.figures import WaitingQueues
from shell.remote import Remote
from shell.server import ask, path
from store import objects, server_clock
from store.database import prepared
from store.script import run
from store.session import RELIED_ON
from store.sessions import check_sessions, connect

OK, WARNING, FAULT = "ok", "warning", "fault"
CLOCK_MS = 1_000  # a larger difference is a warning: NTP keeps clocks within some milliseconds
CLOCK_FAULT_MS = 10_000  # a larger difference can remove records with a TTL early (docs/deploy.md, Clocks)
LEAST_FREE = 0.1  # of a disk
MOST_NAMED = 3  # migrations or SQL objects in a finding
SPARE_CONNECTIONS = 10  # for `doctor`, other commands and people
FILES_BESIDE_STREAMS = 256  # files of a web process beside its streams
FIRST_BYTES_SECONDS = 5.0  # a stream with a heartbeat each second is silent for so long only behind a buffer

SERVER = """
SELECT current_setting('server_version_num')::int AS version, current_setting('server_version') AS version_text,
       pg_is_in_recovery() AS is_standby, current_setting('fsync') AS fsync, current_setting('autovacuum') AS autovacuum,
       current_setting('full_page_writes') AS full_page_writes, current_setting('max_connections')::int AS most_connections,
       current_setting('superuser_reserved_connections')::int
       + coalesce(current_setting('reserved_connections', true), '0')::int AS reserved, -- the latter since PostgreSQL 16
       CASE WHEN NOT rolsuper THEN nullif(datconnlimit, -1) END AS database_limit,
       CASE WHEN NOT rolsuper THEN nullif(rolconnlimit, -1) END AS role_limit,
       (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend') AS connections,
       current_setting('synchronous_standby_names') AS standby_names,
       (SELECT count(*) FROM pg_stat_replication WHERE sync_state IN ('sync', 'quorum')) AS standbys,
       pg_encoding_to_char(encoding) AS encoding
  FROM pg_database, pg_roles WHERE datname = current_database() AND rolname = session_user
"""


class Finding(NamedTuple):
    """The result of a check. `seen`: the state of the deployment. `advice`: the necessary change, or "" if all is well."""

    level: str
    subject: str
    seen: str
    advice: str = ""


def findings(url: str = "", key: str = "") -> Iterator[Finding]:
    """Yields the findings of all checks. `url`: the public address, behind proxies, with the secret of a key that may read."""
    yield from of_settings()
    try:
        with closing(connect()) as database:
            database.execute(RELIED_ON)
            is_standby = yield from of_postgresql(database)
            yield from of_clock("PostgreSQL", lambda: postgresql_ms(database))
    except psycopg.OperationalError as error:
        reason = str(error).strip().splitlines()[0]
        yield Finding(FAULT, "PostgreSQL", f"does not answer: {reason}", "Start PostgreSQL, or correct DATABASE_URL.")
    else:
        if not is_standby:  # which refuses each of our connections, so no table can be looked at
            yield from of_tables()
    yield from of_redis()
    yield from of_machine()
    if url:
        yield from of_proxy(url, key)


def of_settings() -> Iterator[Finding]:
    yield Finding(OK, "topics", f"{settings.VERSION} on Python {sys.version.split()[0]}")
    if settings.DEBUG:
        yield Finding(WARNING, "DEBUG", "is on", "Unset DEBUG: pages of errors show internals.")
    if settings.BEYOND_LOOPBACK and settings.TOPICS_INSECURE:
        seen = f"HOST={settings.HOST} without keys"
        yield Finding(WARNING, "keys", seen, "Make keys, and unset TOPICS_INSECURE: anybody may do everything.")
    if settings.BEYOND_LOOPBACK and not settings.TOPICS_TLS_PROXY:
        seen = f"HOST={settings.HOST} without a TLS proxy"
        yield Finding(WARNING, "TLS", seen, "Put a proxy with TLS in front, and set TOPICS_TLS_PROXY=1.")


def of_postgresql(database: psycopg.Connection[Any]) -> Generator[Finding, None, bool]:
    """Checks the server behind DATABASE_URL. Returns whether it is a standby."""
    server = database.cursor(row_factory=dict_row).execute(SERVER).fetchone()
    assert server is not None
    is_old = server["version"] < LEAST_POSTGRES[0] * 10_000
    advice = f"Upgrade PostgreSQL to {LEAST_POSTGRES[0]} or later."
    yield Finding(FAULT if is_old else OK, "PostgreSQL", server["version_text"], advice if is_old else "")
    try:
        check_sessions()
    except SystemExit as refusal:
        yield Finding(FAULT, "sessions", "connections share a session", str(refusal.code).removeprefix("topics: "))
    if server["is_standby"]:
        yield Finding(FAULT, "replication", "DATABASE_URL is a standby", "Set DATABASE_URL to the primary.")
    if server["standby_names"] and not server["standbys"]:
        seen = f"synchronous_standby_names is {server['standby_names']!r}, and no such standby is connected"
        yield Finding(FAULT, "replication", seen, "Connect the standby, or unset it: appends with fsync wait for ever.")
    for name, advice in (
        ("fsync", "Set fsync = on: a crash of the machine can destroy the database."),
        ("full_page_writes", "Set full_page_writes = on: a crash of the machine can destroy pages."),
        ("autovacuum", "Set autovacuum = on: otherwise tables grow and reads become slow."),
    ):
        if server[name] != "on":
            yield Finding(FAULT, name, f"is {server[name]}", advice)
    if server["encoding"] != "UTF8":
        yield Finding(FAULT, "encoding", f"is {server['encoding']}", "Create the database with ENCODING 'UTF8'.")
    yield of_connections(server)
    return bool(server["is_standby"])


def of_connections(server: dict[str, Any]) -> Finding:
    """Compares the connections of one `run` with the lowest of PostgreSQL's limits. `server`: the row of SERVER."""
    limits = [
        ("max_connections of PostgreSQL", server["most_connections"], server["reserved"]),
        ("CONNECTION LIMIT of the database", server["database_limit"], 0),
        ("CONNECTION LIMIT of the role", server["role_limit"], 0),
    ]
    most, reserved, name = min(
        (limit - reserved, reserved, name) for name, limit, reserved in limits if limit is not None
    )
    needed = connections_needed()
    seen = f"{server['connections']} open, {needed} needed at most by one `run`, {most} possible"
    advice = f"Set {name} to {needed + reserved + SPARE_CONNECTIONS} or more."
    return Finding(WARNING if needed > most else OK, "connections", seen, advice if needed > most else "")


def connections_needed() -> int:
    """Returns the connections that `manage.py run` opens at most with these settings (docs/guides/sizing.md)."""
    beside = {"worker": 2 * settings.WORKER_PROCESSES + 1, "push": 16, "beat": 2}
    web = settings.WEB_WORKERS * (13 + settings.WEB_THREADS)
    return web + sum(beside[name] for name in settings.TOPICS_PROCESSES)


def of_tables() -> Iterator[Finding]:
    """Checks the migrations, that queues and groups have readers, and that each kind of process gives heartbeats."""
    with closing(connections["default"]) as connection:
        executor = MigrationExecutor(connection)
        plan = executor.migration_plan(executor.loader.graph.leaf_nodes())
        if plan:
            names = first([f"{migration.app_label} {migration.name}" for migration, _ in plan], MOST_NAMED)
            advice = "Run `manage.py migrate`, or start `manage.py run`."
            yield Finding(FAULT, "tables", f"{len(plan)} migrations are missing: {names}", advice)
            return
        if other := objects.differing():
            text = f"{counted(len(other), 'SQL object')} of another version or missing: {first(other, MOST_NAMED)}"
            yield Finding(WARNING, "objects", text, "Run `manage.py migrate`, unless a newer version is being started.")
        seen: dict[str, int] = dict(prepared(ALIVE, ()))
        now = now_ms()
        found = {
            "queues": of_queues(now, run(WaitingQueues(READY_MS, MOST_JUDGED).round(now))),
            "groups": of_groups(now),
            "outbox": of_outbox(now),
        }
        for subject, problems in found.items():
            for each in problems:
                yield Finding(WARNING, subject, each.text.removesuffix("."), each.advice)
    for kind in ("web", *expected(seen)):
        if now - (last := seen.get(kind, 0)) <= STALE_MS:
            yield Finding(OK, kind, "runs")
        else:
            text = f"silent for {(now - last) // 1000:,} s" if last else "never seen"
            yield Finding(FAULT, kind, text, f"Start `manage.py run`, or `manage.py run {kind}` on some host.")


def of_redis() -> Iterator[Finding]:
    with closing(redis.Redis.from_url(settings.REDIS_URL, socket_timeout=5, socket_connect_timeout=5)) as client:
        try:
            yield from of_writes(client)
            yield from of_info(client)
            yield from of_clock("Redis", lambda: redis_ms(client))
        except redis.RedisError as error:
            yield Finding(FAULT, "Redis", f"does not answer: {error}", "Start Redis, or correct REDIS_URL.")


def of_writes(client: redis.Redis) -> Iterator[Finding]:
    """Checks that Redis takes writes: a replica and a full one answer all the same. Raises RedisError."""
    try:
        client.set(f"{settings.TOPICS_REDIS_PREFIX}doctor", 1, px=1000)
        client.publish(f"{settings.TOPICS_REDIS_PREFIX}doctor", "")
    except redis.exceptions.NoPermissionError:
        yield Finding(FAULT, "Redis", "refuses writes to its user", "Give it the rights in docs/deploy.md.")
    except redis.exceptions.ReadOnlyError:
        yield Finding(FAULT, "Redis", "is a replica, which takes no writes", "Let REDIS_URL lead to the master.")
    except redis.exceptions.OutOfMemoryError:
        yield Finding(FAULT, "Redis", "is full (maxmemory), and takes no writes", "Raise maxmemory, or remove keys.")


def of_info(client: redis.Redis) -> Iterator[Finding]:
    """Checks the version, and that Redis removes no keys of ours. Raises RedisError."""
    try:
        server: dict[str, Any] = {**client.info("server"), **client.info("memory")}
    except redis.exceptions.NoPermissionError:
        yield Finding(
            WARNING, "Redis", "answers, and its user may not run INFO", "Allow +info for a look at its version."
        )
        return
    version = str(server["redis_version"])
    is_old = tuple(int(part) for part in version.split(".")[:2]) < LEAST_REDIS
    advice = f"Upgrade Redis to {'.'.join(map(str, LEAST_REDIS))} or later." if is_old else ""
    yield Finding(FAULT if is_old else OK, "Redis", version, advice)
    if server["maxmemory"] and str(policy := server["maxmemory_policy"]).startswith("allkeys"):
        seen = f"maxmemory_policy is {policy}, which removes waiting tasks"
        yield Finding(WARNING, "Redis", seen, "Set noeviction or volatile-lru.")


def of_clock(whose: str, ask: Callable[[], int]) -> Iterator[Finding]:
    """Compares the clock of a server with the clock here, at the middle of the question."""
    before = time.time() * 1000
    theirs = ask()
    took = time.time() * 1000 - before
    apart = abs(theirs - before - took / 2) - took / 2
    if apart > CLOCK_MS:
        level = FAULT if apart > CLOCK_FAULT_MS else WARNING
        yield Finding(level, "clock", f"{apart / 1000:.1f} s from the clock of {whose}", "Run NTP on both machines.")


def postgresql_ms(database: psycopg.Connection[Any]) -> int:
    row = database.execute(server_clock.NOW).fetchone()
    assert row is not None
    return int(row[0])


def redis_ms(client: redis.Redis) -> int:
    seconds, micros = client.time()
    return int(seconds) * 1000 + int(micros) // 1000


def of_machine() -> Iterator[Finding]:
    """Checks the disk of the data folder, and the number of files that a process may open."""
    folder = settings.TOPICS_DATA
    while not folder.exists():
        folder = folder.parent
    disk = shutil.disk_usage(folder)
    is_low = disk.free < LEAST_FREE * disk.total
    seen = f"{size(disk.free)} of {size(disk.total)} are free in {folder}"
    yield Finding(WARNING if is_low else OK, "disk", seen, "Free space, or use a larger disk." if is_low else "")
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = settings.TOPICS_MAX_STREAMS + FILES_BESIDE_STREAMS
    if hard != resource.RLIM_INFINITY and hard < needed:
        advice = f"Raise the hard limit (`ulimit -Hn`, LimitNOFILE=) to {needed}, or set TOPICS_MAX_STREAMS lower."
        yield Finding(WARNING, "open files", f"a process may open {hard:,}, and {needed:,} may be needed", advice)


def of_proxy(url: str, key: str) -> Iterator[Finding]:
    """Checks the way of a client: the address answers, and no proxy holds back a stream."""
    try:
        server = Remote(url, key or None, FIRST_BYTES_SECONDS, retries=0)
        listed = ask(server, "GET", path("topics"), {"page_size": 1})["topics"]
        yield Finding(OK, "proxy", f"{url} answers")
        if not listed:
            yield Finding(OK, "streams", "not tried, because there is no topic yet")
            return
        wanted = {"topics": {listed[0]["topic"]: {"tail": True}}, "heartbeat_ms": 1000}
        session = ask(server, "POST", path("watch"), None, wanted)
    except (TopicsError, Refusal) as error:
        seen = error.message if isinstance(error, TopicsError) else str(error.code).removeprefix("topics: ")
        yield Finding(FAULT, "proxy", seen, "Correct --url, the proxy's upstream, or the key in TOPICS_KEY.")
        return
    try:
        with closing(server.stream(path("watch", session["wid"]), None, FIRST_BYTES_SECONDS)) as stream:
            stream.read(1)
    except (TopicsError, urllib3.exceptions.HTTPError):
        advice = "Turn buffering off in the proxy for /v0/watch/ and …/events (docs/deploy.md)."
        yield Finding(FAULT, "streams", f"nothing arrived in {FIRST_BYTES_SECONDS:.0f} s", advice)
    else:
        yield Finding(OK, "streams", "arrive at once")

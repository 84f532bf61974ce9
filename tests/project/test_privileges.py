"""The login of an analyst cannot harm the server (docs/security.md)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg.errors import InsufficientPrivilege

from tests.api.clients import HttpClient
from tests.instances import Instance
from tests.watch.wire import new_name


@pytest.fixture
def analyst(server: Instance) -> Iterator[psycopg.Connection[Any]]:
    with server.connect() as database:
        database.execute("CREATE ROLE ada LOGIN PASSWORD 'secret' IN ROLE topics_analyst")
        try:
            with psycopg.connect(server.servers.database_url, user="ada", password="secret", autocommit=True) as login:
                yield login
        finally:
            database.execute("DROP ROLE ada")


@pytest.mark.parametrize(
    "statement",
    [
        *(f"SELECT pg_advisory_lock({lock})" for lock in (7001, 7002, 7004, 7100, 7300, 7301)),
        "SELECT pg_advisory_lock(7003, 1)",
        "SELECT pg_advisory_lock_shared(7001)",
        "SELECT pg_advisory_xact_lock(7001)",
        "SELECT pg_advisory_xact_lock_shared(7200, 1)",
        "SELECT pg_try_advisory_lock(7100)",
        "SELECT pg_try_advisory_xact_lock_shared(7300)",
        "SELECT lo_create(0)",
        "SELECT lo_creat(-1)",
        "SELECT lo_from_bytea(0, 'x')",
        "CREATE TEMPORARY TABLE mine (n int)",
        "CREATE TABLE mine (n int)",
        "CREATE FUNCTION now_ms() RETURNS int LANGUAGE sql AS 'SELECT 1'",
        "DO $$ BEGIN LOCK TABLE topics_topichead IN SHARE MODE; END $$",
        "SELECT FROM topics_topichead FOR SHARE",
    ],
)
def test_an_analyst_cannot_hold_the_server_up(analyst: psycopg.Connection[Any], statement: str) -> None:
    assert analyst.execute("SELECT count(*) FROM topic_log").fetchone() is not None
    with pytest.raises(InsufficientPrivilege):
        analyst.execute(statement)


def test_a_routed_topic_is_read_whatever_an_analyst_tries(server: Instance, analyst: psycopg.Connection[Any]) -> None:
    live, source, dest, router = HttpClient(server.port), new_name(), new_name(), new_name()
    live.append(source, 1)
    live.put(f"/v0/routers/{router}", {"source": source, "dest": dest, "from": "earliest"})
    with pytest.raises(InsufficientPrivilege):
        analyst.execute("SELECT pg_advisory_lock(7001)")
    assert [record["data"] for record in live.diff(dest).json["records"]] == [1]


def test_a_role_that_writes_topics_keeps_its_locks(server: Instance) -> None:
    """A server whose own role is no superuser, in a database that a superuser prepared."""
    from topics_project.operations import privileges

    with server.connect() as database:
        database.execute("CREATE ROLE writer LOGIN PASSWORD 'secret'")
        database.execute("GRANT UPDATE ON topics_topichead TO writer")
        try:
            assert {"topics", "writer"} <= {row[0] for row in database.execute(privileges.WRITERS)}
        finally:
            database.execute("REVOKE UPDATE ON topics_topichead FROM writer")
            database.execute("DROP ROLE writer")

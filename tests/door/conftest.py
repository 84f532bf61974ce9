"""Logins of applications, on the database of a running server."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from psycopg import sql

from tests.api.clients import HttpClient
from tests.instances import Instance

Session = psycopg.Connection[Any]


@contextlib.contextmanager
def rolled_back(session: Session) -> Iterator[None]:
    """A transaction, or a savepoint in one, that rolls back."""
    with session.transaction(force_rollback=True):
        yield


@pytest.fixture
def name() -> str:
    return f"t-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def live(server: Instance) -> HttpClient:
    return HttpClient(server.port)


@pytest.fixture(scope="session")
def owner(server: Instance) -> Iterator[Session]:
    """A session of the server's own role, with a search_path that has nothing of ours."""
    with psycopg.connect(server.servers.database_url, autocommit=True) as session:
        yield session


@pytest.fixture
def login(server: Instance, owner: Session) -> Iterator[Callable[..., Session]]:
    """`login("topics_writer", …)` makes a login with these roles, and connects as this login with settings of its own."""
    names: list[str] = []
    with contextlib.ExitStack() as stack:

        def enter(*roles: str) -> Session:
            role = f"app_{uuid.uuid4().hex[:12]}"
            names.append(role)
            owner.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD 'secret'").format(sql.Identifier(role)))
            for each in roles:
                owner.execute(sql.SQL("GRANT {} TO {}").format(sql.Identifier(each), sql.Identifier(role)))
            options = "-csearch_path=pg_catalog -cstandard_conforming_strings=off -carray_nulls=off"
            session = psycopg.connect(
                server.servers.database_url, user=role, password="secret", autocommit=True, options=options
            )
            return stack.enter_context(session)

        yield enter
    for role in names:
        owner.execute("DELETE FROM door_right WHERE login = %s", [role])
        owner.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(role)))


@pytest.fixture
def app(login: Callable[..., Session]) -> Session:
    """The login of an application that reads and writes."""
    return login("topics_writer", "topics_reader")

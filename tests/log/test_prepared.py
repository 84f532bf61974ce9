"""Prepared statements on Django's connection run within its transaction, and raise its errors."""

import pytest
from django.db import connection, transaction
from psycopg import pq

from base.errors import InvalidRequest, NotReady
from store.codec import refused
from store.database import prepared, translated

pytestmark = pytest.mark.django_db(transaction=True)

NOTE = "INSERT INTO prepared_note VALUES (%(n)s) RETURNING n, n > 1, NULL::text"
ALL = "SELECT n FROM prepared_note ORDER BY n"


@pytest.fixture(autouse=True)
def table():
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE prepared_note (n integer PRIMARY KEY)")
    yield
    with connection.cursor() as cursor:
        cursor.execute("DROP TABLE prepared_note")


def test_the_rows_come_with_their_types() -> None:
    assert prepared(NOTE, {"n": 1}) == [(1, False, None)]
    assert prepared(NOTE, {"n": 2}) == [(2, True, None)]
    assert prepared(ALL, ()) == [(1,), (2,)]


def roll_back(n: int) -> None:
    with transaction.atomic():
        prepared(NOTE, {"n": n})
        transaction.set_rollback(True)


def test_it_is_part_of_djangos_transaction() -> None:
    with transaction.atomic():
        prepared(NOTE, {"n": 1})  # the first statement of it
        roll_back(2)
    roll_back(3)
    assert prepared(ALL, ()) == [(1,)]


def test_what_postgresql_refuses_is_refused_and_the_next_runs() -> None:
    for value in ("x", 2**40, "1\0"):
        with pytest.raises(InvalidRequest):
            prepared(NOTE, {"n": value})
    assert prepared(ALL, ()) == []


def test_a_connection_that_ends_on_the_way_is_no_fault_of_ours() -> None:
    [(pid,)] = prepared("SELECT pg_backend_pid()", ())
    with pytest.raises(NotReady):
        prepared("SELECT pg_terminate_backend(%s)", (pid,))
    connection.close()
    assert prepared("SELECT 1", ()) == [(1,)]


def test_what_the_database_lacks_is_named(caplog: pytest.LogCaptureFixture) -> None:
    """It may be migrated, and a function may be missing all the same: to say that it is not migrated would be wrong."""
    for call, missing in (
        ("topic_lost(1)", r"function topic_lost\(integer\)"),
        ("name FROM topics_lost", 'relation "topics_lost"'),
    ):
        for _ in range(2):
            with pytest.raises(NotReady, match=rf"{missing} does not exist\): run `manage.py migrate`"):
                prepared(f"SELECT {call}", ())
    assert [record.message.count("topic_lost") for record in caplog.records] == [1, 0]


def test_an_error_without_a_code_is_a_lost_connection() -> None:
    """libpq makes such a result itself, as when the server's process was killed: nobody is left to say why."""
    prepared("SELECT 1", ())
    result = connection.connection.pgconn.make_empty_result(pq.ExecStatus.FATAL_ERROR)
    assert isinstance(translated(refused(result)), NotReady)

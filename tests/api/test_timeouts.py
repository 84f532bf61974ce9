"""PostgreSQL ends statements that wait for a lock or take too long, only in the processes that serve."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.db import connection

from tests.api.clients import HttpClient
from tests.instances import Instance, until

pytestmark = pytest.mark.deep


LOCK = "SELECT FROM topics_topichead FOR UPDATE"
WORKERS = "SELECT FROM pg_stat_activity WHERE application_name LIKE 'topics worker %'"


@pytest.mark.parametrize(
    ("setting", "words"),
    [("TOPICS_LOCK_TIMEOUT_MS", "another request holds the lock"), ("TOPICS_STATEMENT_TIMEOUT_MS", "took too long")],
)
def test_a_request_that_waits_too_long_is_told_why(
    instances: Callable[..., Instance], setting: str, words: str
) -> None:
    """In the browsable API: the event loop keeps its own limit on statements."""
    server = instances(TOPICS_PROCESSES="worker,beat", **{"TOPICS_LOCK_TIMEOUT_MS": "0", setting: "700"})
    headers = {"accept": "text/html", "authorization": "Bearer k", "content_type": "application/json"}
    headers["sec_fetch_mode"] = "navigate"
    live = HttpClient(server.port)
    live.append("t", 1)
    with server.connect() as database:
        with database.transaction():
            database.execute(LOCK)
            for refused in (
                live.post("/v0/topics/t", {"records": [{"data": 2}], "idempotency_key": "k"}, **headers),
                live.post("/v0/topics/t/delete", {"before_seq": 2}, **headers),
                live.put("/v0/topics/t", {"ttl_ms": 1}, **headers),
            ):
                assert (refused.status, refused.headers["retry-after"]) == (503, "1")
                assert words in refused.body.decode()
        assert live.append("t", 2, idempotency_key="k").json["first_seq"] == 2
        until(lambda: database.execute(WORKERS).fetchall(), "a worker to connect, which has limits of its own")


def test_the_event_loop_does_not_wait_for_a_lock_either(instances: Callable[..., Instance]) -> None:
    server = instances(WEB_WORKERS="1", TOPICS_LOCK_TIMEOUT_MS="700")
    live = HttpClient(server.port)
    live.append("t", 1)
    with server.connect() as database:
        with database.transaction():
            database.execute(LOCK)
            refused = live.append("t", 2)
            assert (refused.status, refused.code) == (503, "not_ready")
            assert [record["data"] for record in live.diff("t").json["records"]] == [1]
        assert live.append("t", 2).json["first_seq"] == 2


@pytest.mark.django_db
@pytest.mark.parametrize("limit", ["statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout"])
def test_migrations_and_commands_take_the_time_they_need(limit: str) -> None:
    with connection.cursor() as cursor:  # as any process that does not serve, this one's connections have no limits
        cursor.execute(f"SHOW {limit}")
        assert cursor.fetchone() == ("0",)

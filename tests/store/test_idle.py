"""A burst opens connections to PostgreSQL. Later they are closed, and the next burst is served as the first was."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.crash.asking import ask
from tests.instances import Instance, until

pytestmark = pytest.mark.deep


BACKENDS = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
TOPICS, CLIENTS = 30, 30


def burst(instance: Instance) -> None:
    """Calls of every kind at once: quick reads, transactions of one topic each, and Django's threads."""

    def client(number: int) -> None:
        name, append = f"t{number % TOPICS}", {"records": [{"data": 1}]}
        for turn in range(5):
            config = {"ttl_ms": 1_000_000 + 5 * number + turn}  # another one each time, so that a transaction stores it
            assert ask(instance.port, "PUT", f"/v0/topics/{name}", config).status in (200, 201)
            assert ask(instance.port, "POST", f"/v0/topics/{name}", append).status == 200
            assert ask(instance.port, "POST", f"/v0/topics/{name}/diff", {}).status == 200
            assert ask(instance.port, "GET", "/v0/topics").status == 200
            assert instance.get("/admin/login/")[0] == 200

    with ThreadPoolExecutor(CLIENTS) as threads:
        list(threads.map(client, range(CLIENTS)))


def test_connections_of_a_burst_are_closed_again(instances: Callable[..., Instance]) -> None:
    instance = instances(TOPICS_IDLE_CONNECTION_SECONDS="3")
    with instance.connect() as database:

        def backends() -> int:
            row = database.execute(BACKENDS).fetchone()
            return int(row[0]) if row else 0

        base = backends()
        for _ in range(2):
            burst(instance)
            assert backends() > base  # else there is nothing to close
            until(lambda: backends() <= base, f"{base} backends again, and not {backends()}")
    assert instance.is_ready()

"""`make shop-demo` in a clone: all that it prints works, and each order counts once, whoever is killed."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from examples.shop.demo import ROLES
from tests.crash.harness.processes import Processes
from tests.deadlines import DEADLINE
from tests.docs.printed import COMMAND, script_of
from tests.docs.shell import run
from tests.instances import ROOT, Instance, free_port, is_free, until

pytestmark = pytest.mark.deep(45)


PLACE = """
WITH placed AS (INSERT INTO orders_order (mail, cents, placed_on, is_confirmed) SELECT 'bulk@example.com', 1, '2026-11-27', true
                  FROM generate_series(1, 400) RETURNING id)
SELECT topics.emit('orders', json_build_object('id', id, 'day', '2026-11-27', 'cents', 1)) FROM placed
"""
IN_THE_MIDDLE = """
SELECT pid FROM pg_stat_activity WHERE backend_xid IS NOT NULL AND query LIKE '%orders_day%' AND usename = 'shop'
"""


@pytest.fixture
def demo(clone: Path) -> Iterator[Instance]:
    while not is_free((port := free_port()) + 1):
        pass
    settings = {"DATABASE_URL": "postgresql://not-this-one", "TOPICS_API_KEYS": "secret-of-somebody:read"}
    made = Instance(clone / ".shop", port, settings, command=["make", "-s", "-C", str(clone), "shop-demo"])
    made.run()
    yield made
    made.kill()


def test_it_creates_each_role_that_the_owner_of_topics_may_not_create() -> None:
    assert set(ROLES) == {file.stem for file in ROOT.glob("*/sql/roles/*.sql")}


@pytest.mark.guarantee("W11")
def test_what_it_prints_works_and_each_order_counts_once(demo: Instance, clone: Path) -> None:
    until(lambda: "SQLAlchemy" in demo.output or demo.exited() is not None, "the demo to start", 180)
    assert demo.exited() is None, demo.output

    answers = run(script_of(COMMAND.findall(demo.output)), demo.url, clone)
    assert [answer.status for answer in answers] == [201, 201, 200, 200, 200]
    assert "placed order 1" in (clone / "said").read_text()
    shop = {name: value for name, _, value in (line.partition("=") for line in (demo.data / "env").read_text().split())}
    until(lambda: invoices(clone, shop) == [3, 3190], "the consumer of SQLAlchemy to count three orders")
    until(lambda: counted(demo) == [3, 3190], "the consumer to count three orders")
    assert totals(demo)["placed"] == 2
    until(lambda: totals(demo)["confirmed"] == 2, "the worker to confirm both orders")

    address = {name: shop[f"PG{name.upper()}"] for name in ("host", "port", "user", "password")}
    with psycopg.connect(**address, dbname=shop["PGDATABASE"], autocommit=True) as session:
        for _ in range(2):
            session.execute(PLACE)
            until(lambda: session.execute(IN_THE_MIDDLE).fetchall(), "a transaction that counts", tick=0.001)
            for each in Processes(demo).with_command("manage.py", " tally"):
                os.kill(each.pid, signal.SIGKILL)
        until(lambda: counted(demo)[0] >= 803, "the next consumer to count the rest")
        until(lambda: lag(session) == 0, "the head")
    assert counted(demo) == [803, 3990]

    assert demo.process is not None
    os.killpg(demo.process.pid, signal.SIGINT)  # a terminal sends it to everything that runs there
    demo.process.wait(2 * DEADLINE)
    until(lambda: not demo.pids(), "every process to end")


def totals(demo: Instance) -> dict[str, Any]:
    (answer,) = run("curl $TOPICS/totals", demo.url, demo.data.parent)
    assert answer.status == 200
    return dict(answer.json)


def counted(demo: Instance) -> list[int]:
    days = totals(demo)["days"]
    return [sum(day["orders"] for day in days), sum(day["cents"] for day in days)]


def invoices(clone: Path, shop: dict[str, str]) -> list[int]:
    """Counts on with SQLAlchemy. Returns the sum of its orders and cents."""
    argv = [clone / ".venv" / "bin" / "python", "examples/shop_sqlalchemy/shop.py", "tally"]
    done = subprocess.run(argv, env=os.environ | shop, cwd=clone, check=True, capture_output=True, text=True)
    lines = [line.split() for line in done.stdout.splitlines()]
    return [sum(int(line[place]) for line in lines) for place in (1, 3)]


def lag(session: psycopg.Connection[Any]) -> int:
    (row,) = session.execute(
        "SELECT count(*) FROM topics.read('orders', topics.read_cursor('orders', 'tally'))"
    ).fetchall()
    return int(row[0])

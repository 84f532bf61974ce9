"""The program of docs/guides/outbox.md, killed at each line of its functions: each committed change becomes one record, in order.

Relays run at once, and the last one after the idempotency window. The last test shows the limit that the guide names."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from tests.deadlines import DEADLINE
from tests.docs.printed import snippets
from tests.instances import ROOT, Instance, until
from tests.preloaded import begin
from tests.watch.wire import Api, new_name
from topics_project.forks import Fork

pytestmark = pytest.mark.deep


NOWHERE = "http://127.0.0.1:9"  # nothing listens there
ORDERS, OUTBOX = "shop_order", "shop_outbox"  # the tables of the program
SHIFT_MS = 2 * 86_400_000  # longer than the window of the guide


class Shop:
    """The program of the guide, with a database of its own."""

    def __init__(self, server: Instance, folder: Path) -> None:
        self.server, self.folder, self.api = server, folder, Api(server.port)
        self.topic = new_name("orders")
        self.api.done("PUT", f"/v0/topics/{self.topic}", {"durability": "fsync", "idempotency_window_ms": 86_400_000})
        (code,) = snippets("docs/guides/outbox.md", "python")
        (folder / "shop.py").write_text(code.replace("/topics/orders", f"/topics/{self.topic}"))
        name = new_name("shop").replace(".", "_").replace("-", "_")
        with server.connect() as connection:
            connection.execute(f'CREATE DATABASE "{name}"')
        given = {**conninfo_to_dict(server.servers.database_url), "dbname": name}
        names = {"dbname": "PGDATABASE", "host": "PGHOST", "port": "PGPORT", "user": "PGUSER", "password": "PGPASSWORD"}
        found = {names[key]: str(value) for key, value in given.items() if key in names}
        self.environment = {**os.environ, **found, "TOPICS": server.url, "PYTHONPATH": str(ROOT)}
        self.database = psycopg.connect(**given, autocommit=True)
        assert self.start("setup").wait() == 0

    def start(self, *arguments: str, lines: int | None = None, topics: str = "") -> Fork:
        """Starts the program. `lines`: of its functions, before it is killed."""
        killed = [] if lines is None else ["-m", "tests.docs.killed", str(lines)]
        environment = {**self.environment, "TOPICS": topics or self.server.url}
        command = [sys.executable, *killed, "shop.py", *arguments]
        return begin(command, environment, self.folder, self.folder / "output")

    def run(self, *arguments: str, lines: int | None = None, topics: str = "") -> bool:
        """Returns whether the program was killed."""
        code = self.start(*arguments, lines=lines, topics=topics).wait(DEADLINE)
        assert code in (0, -9), (self.folder / "output").read_text()
        return code != 0

    @contextlib.contextmanager
    def relay(self) -> Iterator[Fork]:
        process = self.start("relay")
        try:
            yield process
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait(DEADLINE)

    def waiting(self) -> int:
        row = self.database.execute(f"SELECT count(*) FROM {OUTBOX}").fetchone()
        assert row is not None
        return int(row[0])

    def empty(self) -> None:
        """Runs a relay until no row waits."""
        with self.relay() as process:
            until(lambda: not self.waiting() or process.poll() is not None, "the relay to send all rows")
            assert process.poll() is None, (self.folder / "output").read_text()

    def records(self) -> dict[int, list[int]]:
        """Returns the changes of each order in the topic, in the order of their records."""
        changes: dict[int, list[int]] = {}
        for record in self.read():
            assert record["$tag"] == f"order:{record['data']['id']}"
            changes.setdefault(record["data"]["id"], []).append(record["data"]["change"])
        return changes

    def read(self) -> list[dict[str, Any]]:
        body = {"limit": 10_000, "include_tags": True}
        records: list[dict[str, Any]] = self.api.done("POST", f"/v0/topics/{self.topic}/diff", body)["records"]
        return records

    def count(self) -> int:
        return len(self.read())

    def committed(self) -> dict[int, list[int]]:
        """Returns the changes of each order in the database."""
        rows = self.database.execute(f"SELECT id, changes FROM {ORDERS} WHERE changes > 0")
        return {id: list(range(1, changes + 1)) for id, changes in rows}

    def age_keys(self) -> None:
        """Makes each key of the topic older than the window."""
        with self.server.connect() as connection:
            done = connection.execute(
                "UPDATE topics_idempotencykey SET ts = ts - %s"
                " WHERE topic_id = (SELECT id FROM topics_topic WHERE name = %s)",
                (SHIFT_MS, self.topic),
            )
            assert done.rowcount > 0


@pytest.fixture
def shop(server: Instance, tmp_path: Path) -> Iterator[Shop]:
    shop = Shop(server, tmp_path)
    with contextlib.closing(shop.database):
        yield shop


@pytest.mark.parametrize(("page", "tag"), [("docs/guides/outbox.md", "order:7"), ("README.md", None)])
def test_a_record_is_emitted_in_the_transaction_of_its_row(server: Instance, page: str, tag: str | None) -> None:
    """The statements of the page, and with a rollback instead of the commit."""
    (code,) = snippets(page, "sql")
    topic = new_name("orders")
    code = code.replace("'orders'", f"'{topic}'").replace("shop_orders", "emit_orders")
    with server.connect() as connection:
        connection.execute("CREATE TABLE emit_orders (id int PRIMARY KEY, state text)")
        connection.execute("INSERT INTO emit_orders VALUES (7, 'open')")
        for text in (code.replace("COMMIT", "ROLLBACK").replace("paid", "undone"), code):
            for statement in text.split(";")[:-1]:
                connection.execute(statement)
        until(lambda: connection.execute("SELECT 1 FROM topic_log WHERE topic = %s", [topic]).fetchone(), "the record")
        assert connection.execute("TABLE emit_orders").fetchall() == [(7, "paid")]
        connection.execute("DROP TABLE emit_orders")
    body = {"limit": 10, "include_tags": True}
    (record,) = Api(server.port).done("POST", f"/v0/topics/{topic}/diff", body)["records"]
    assert (record["data"], record.get("$tag")) == ({"id": 7, "state": "paid"}, tag)


@pytest.mark.guarantee("W6")
def test_each_change_becomes_one_record_whatever_is_killed(shop: Shop) -> None:
    lines = 0
    while shop.run("change", str(lines % 2), lines=lines):
        lines += 1
    assert lines >= 8  # the change and its relay
    lines, sent_twice = 0, False
    shop.empty()
    while not lines or shop.waiting():  # until a relay dies after its delete
        shop.run("change", str(lines % 2), topics=NOWHERE)  # the change succeeds, and its row waits for the relay
        assert shop.run("relay", lines=lines)
        sent_twice |= shop.count() + shop.waiting() > sum(map(len, shop.committed().values()))
        lines += 1
    assert sent_twice  # a relay died between the append and the delete
    shop.empty()
    assert shop.records() == shop.committed()


def test_relays_at_once_send_each_row_once_also_after_the_window(shop: Shop) -> None:
    choices = random.Random(7)
    for turn in range(4):
        with shop.relay(), shop.relay(), shop.relay():
            target = shop.count() + choices.randint(0, 4)  # before the changes, which can be sent at once
            changes = [shop.start("change", str(n % 2)) for n in range(4)]
            until(lambda: shop.count() >= target, "some records")  # noqa: B023
            if turn % 2:
                changes[0].send_signal(signal.SIGKILL)
        for each in changes:
            each.wait(DEADLINE)
    shop.empty()
    assert shop.records() == shop.committed()
    shop.age_keys()
    shop.run("change", "0", topics=NOWHERE)
    shop.empty()
    assert shop.records() == shop.committed()


def test_a_row_doubles_only_if_no_relay_deletes_it_within_the_window(shop: Shop) -> None:
    """The guide names this limit."""
    shop.run("change", "5", topics=NOWHERE)
    lines = 0
    while not shop.read():
        assert shop.waiting() == 1
        assert shop.run("relay", lines=lines)
        lines += 1
    assert shop.waiting() == 1
    shop.age_keys()
    shop.empty()
    assert shop.records() == {5: [1, 1]}

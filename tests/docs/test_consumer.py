"""The consumer of docs/guides/consumer.md, two at a time and killed again and again: each record has its invoice, once.

An invoice for a record that a crash of the server takes back is undone."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.crashes import take_back
from tests.deadlines import DEADLINE
from tests.docs.printed import snippets
from tests.instances import Instance, until
from tests.processes import child_process
from tests.watch.wire import Api, new_name

pytestmark = pytest.mark.deep


KILLS, BATCH = 6, 40


def test_it_survives_kills_and_bills_each_order_once(server: Instance, tmp_path: Path) -> None:
    (code,) = snippets("docs/guides/consumer.md", "python")
    api, topic = Api(server.port), new_name("orders")
    program = tmp_path / "consumer.py"
    # A window of a few records, so that a kill is likely to come between two.
    program.write_text(
        re.sub(r"/topics/orders/", f"/topics/{topic}/", code).replace('"wait_ms"', '"limit": 3, "wait_ms"')
    )
    environment = {**os.environ, "TOPICS": server.url}

    def billed() -> list[tuple[int, int]]:
        try:
            with sqlite3.connect(tmp_path / "billing.db") as database:
                return list(database.execute("SELECT seq, order_id FROM invoice ORDER BY rowid"))
        except sqlite3.OperationalError:  # it has not got so far
            return []

    def run_until(done: Callable[[], bool]) -> None:
        """Two at once, as when one that was taken for dead is not: they share the cursor."""
        start = partial(child_process, [sys.executable, str(program)], env=environment, cwd=tmp_path)
        with start() as one, start() as other:
            until(lambda: done() or one.poll() or other.poll(), "the consumers to bill")
            assert (one.poll(), other.poll()) == (None, None)
            one.kill()
            other.kill()

    head = 0
    for _ in range(KILLS):
        head = api.append(topic, *({"id": head + n} for n in range(1, BATCH + 1)))
        run_until(partial(lambda before: len(billed()) > before, len(billed())))
    run_until(lambda: len(billed()) >= head)
    assert billed() == [(seq, seq) for seq in range(1, head + 1)]
    with server.connect() as database:
        take_back(database.execute, topic, head - 2)
    last = api.append(topic, {"id": head + 1})
    run_until(lambda: billed()[-1][0] == last)
    assert billed() == [*((seq, seq) for seq in range(1, head - 1)), (last, head + 1)]


def test_it_reads_and_commits_with_a_key(instances: Callable[..., Instance], tmp_path: Path) -> None:
    """The key has the scopes that the guide names. It cannot create a topic."""
    writer, consumer = "writer-0123456789", "consumer-0123456789"
    server = instances(TOPICS_API_KEYS=f"{writer}:write,{consumer}:read+commit")
    (code,) = snippets("docs/guides/consumer.md", "python")
    (tmp_path / "consumer.py").write_text(code)

    def call(method: str, path: str, key: str, body: object) -> int:
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {key}"}
        request = urllib.request.Request(server.url + path, json.dumps(body).encode(), headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=DEADLINE) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            with error:
                return error.code

    def billed() -> list[tuple[int, int]]:
        try:
            with sqlite3.connect(tmp_path / "billing.db") as database:
                return list(database.execute("SELECT seq, order_id FROM invoice ORDER BY rowid"))
        except sqlite3.OperationalError:
            return []

    assert call("POST", "/v0/topics/orders", writer, {"records": [{"data": {"id": 7}}]}) == 201
    environment = {**os.environ, "TOPICS": server.url, "TOPICS_KEY": consumer}
    with child_process([sys.executable, "consumer.py"], env=environment, cwd=tmp_path) as program:
        until(lambda: program.poll() is not None or billed(), "the consumer to bill")
        program.kill()
    assert billed() == [(1, 7)]
    cursor = "/v0/topics/orders/cursors/mailer"
    assert call("PUT", cursor, consumer, {"seq": 1, "expected_seq": 0}) == 201
    assert call("PUT", cursor, consumer, {"seq": 1, "expected_seq": 0}) == 409
    assert call("PUT", cursor, writer, {"seq": 1}) == 403
    assert call("PUT", "/v0/topics/other", consumer, {}) == 403

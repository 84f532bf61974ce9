"""The consumer of docs/guides/consumer.md, two at a time and killed again and again: each record has its invoice, once.

An invoice for a record that a crash of the server takes back is undone."""

from __future__ import annotations

import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests.crashes import take_back
from tests.docs.printed import snippets
from tests.instances import Instance, until
from tests.watch.wire import Api, new_name

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
        start = partial(subprocess.Popen, [sys.executable, str(program)], env=environment, cwd=tmp_path)
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

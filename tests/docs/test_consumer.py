"""The consumer of docs/guides/consumer.md, two at a time and killed again and again: each record has its invoice, once."""

from __future__ import annotations

import os
import re
import sqlite3
import subprocess
import sys
from functools import partial
from pathlib import Path

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

    def run_until(wanted: int) -> None:
        """Two at once, as when one that was taken for dead is not: they share the cursor."""
        start = partial(subprocess.Popen, [sys.executable, str(program)], env=environment, cwd=tmp_path)
        with start() as one, start() as other:
            until(lambda: len(billed()) >= wanted or one.poll() or other.poll(), "the consumers to bill")
            assert (one.poll(), other.poll()) == (None, None)
            one.kill()
            other.kill()

    head = 0
    for _ in range(KILLS):
        head = api.append(topic, *({"id": head + n} for n in range(1, BATCH + 1)))
        run_until(len(billed()) + 1)
    run_until(head)
    assert billed() == [(seq, seq) for seq in range(1, head + 1)]

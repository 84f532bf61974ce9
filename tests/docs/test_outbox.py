"""The relay of docs/guides/publish.md, killed at each of its lines: each row of the outbox becomes one record, in order."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

from tests.docs.printed import snippets
from tests.instances import Instance
from tests.watch.wire import Api, new_name

# Runs the relay, and ends the process like a kill before the line with this number is run.
KILLED = """
import os, runpy, sys
left = int(sys.argv[1])

def trace(frame, event, arg):
    global left
    if frame.f_code.co_filename == "relay.py" and event == "line":
        left -= 1
        if left < 0:
            os._exit(9)
    return trace

sys.settrace(trace)
runpy.run_path("relay.py")
"""


def test_a_relay_that_dies_at_any_line_stores_each_row_once(server: Instance, tmp_path: Path) -> None:
    (code,) = snippets("docs/guides/publish.md", "python")
    api, topic = Api(server.port), new_name("orders")
    (tmp_path / "relay.py").write_text(code.replace("/topics/orders", f"/topics/{topic}"))
    database = sqlite3.connect(tmp_path / "shop.db", isolation_level=None)
    database.execute("CREATE TABLE outbox (id INTEGER PRIMARY KEY AUTOINCREMENT, data TEXT)")
    database.execute("INSERT INTO outbox (data) VALUES ('0')")
    environment = {**os.environ, "TOPICS": server.url}
    sent, lines = 1, 0
    while True:
        command = [sys.executable, "-c", KILLED, str(lines)]
        ended = subprocess.run(command, cwd=tmp_path, env=environment, check=False).returncode
        assert ended in (0, 9)
        if ended == 0:
            break
        lines += 1
        database.execute("INSERT INTO outbox (data) VALUES (?)", (str(sent),))
        sent += 1
        if lines > 20:  # each line of the loop was the last one of some run
            lines = 1_000_000
    assert sent > 20
    assert database.execute("SELECT count(*) FROM outbox").fetchone() == (0,)
    read = api.done("POST", f"/v0/topics/{topic}/diff", {"limit": 1000})
    assert [record["data"] for record in read["records"]] == list(range(sent))

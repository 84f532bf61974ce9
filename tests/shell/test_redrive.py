"""`topics redrive`: dead letters go back to their queues, here and over HTTP."""

from __future__ import annotations

import json
import os
import pty
import sys
from typing import Any

import pytest

from shell.cli import main
from shell.local import Local
from shell.remote import Remote
from shell.server import CommandServer, ask
from tests.shell.conftest import HERE, Shell


def server() -> CommandServer:
    """The server of the test's commands."""
    return Remote(os.environ["TOPICS_URL"], None) if "TOPICS_URL" in os.environ else Local()


def bury(dead: str, *queues: str) -> None:
    """Creates the queues, and a dead letter of each with its number as data."""
    for queue in dict.fromkeys(queues):
        ask(server(), "PUT", f"/v0/topics/{queue}", None, {"type": "queue"})
    records: list[Any] = [
        {"$seq": n + 1, "$ts": 1, "data": n, "meta": {"$dead_letter_from": queue}} for n, queue in enumerate(queues)
    ]
    # Only a record of another server can have the stamp.
    ask(server(), "PUT", f"/v0/topics/{dead}", None, {"sealed": True})
    ask(server(), "POST", f"/v0/topics/{dead}", None, {"copy": True, "records": records})
    ask(server(), "PUT", f"/v0/topics/{dead}", None, {"sealed": False})


def data(topic: str) -> list[int]:
    return [each["data"] for each in ask(server(), "POST", f"/v0/topics/{topic}/diff", None, {})["records"]]


def test_letters_go_back(either: Shell, name: str) -> None:
    bury(f"{name}-dead", name, f"{name}-2", name, name)
    dry = either("redrive", f"{name}-dead", "--dry-run")
    assert dry.out.decode() == f"3 letters would move to {name}\n1 letter would move to {name}-2\n"
    assert data(name) == []
    assert either("redrive", f"{name}-dead", "--limit", 1).out == f"1 letter moved to {name}\n".encode()
    assert (data(name), data(f"{name}-dead")) == ([0], [1, 2, 3])
    done = either("redrive", f"{name}-dead", "--queue", name, "--seq", 2, "--seq", 4, "--json")
    assert json.loads(done.out) == {
        "topic": f"{name}-dead", "moved": 1, "queues": {name: 1}, "skipped": [], "dry_run": False,
    }  # fmt: skip
    assert either("redrive", f"{name}-dead", "--appended-by", "n").out == b"no letter moved\n"
    assert (data(name), data(f"{name}-dead")) == ([0, 3], [1, 2])


def test_letters_that_stay_are_an_error(either: Shell, name: str) -> None:
    bury(f"{name}-dead", name, f"{name}-2")
    either("delete", name)
    done = either("redrive", f"{name}-dead")
    assert (done.code, done.out) == (1, f"1 letter moved to {name}-2\n".encode())
    assert done.err == f"topics: 1 letter cannot move: topic '{name}' does not exist"
    assert either("redrive", f"{name}-absent").code == 1
    assert either("redrive", f"{name}-dead", "--match", "a*").code == 2


@pytest.mark.parametrize(("typed", "left"), [(b"n\n", 2), (b"y\n", 0)])
def test_somebody_at_a_terminal_is_asked(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, typed: bytes, left: int
) -> None:
    bury("dead", "a", "a")
    terminal, ours = pty.openpty()
    os.write(terminal, typed)
    with os.fdopen(ours) as source:
        monkeypatch.setattr(sys, "stdin", source)
        if left:
            with pytest.raises(SystemExit, match="nothing was changed"):
                main(["redrive", "dead"], "topics", HERE)
        else:
            main(["redrive", "dead"], "topics", HERE)
    os.close(terminal)
    assert len(data("dead")) == left

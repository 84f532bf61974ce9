"""`make gateway-demo` in a clone: all that it prints works, and Ctrl-C ends all of it."""

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.deadlines import DEADLINE
from tests.docs.printed import COMMAND, script_of
from tests.docs.shell import run
from tests.instances import Instance, free_port, is_free, until

pytestmark = pytest.mark.deep


Demo = Callable[..., Instance]


@pytest.fixture
def demo(clone: Path) -> Iterator[Demo]:
    """`demo(PORT="…")` starts one by `make`, in the clone."""
    begun: list[Instance] = []

    def begin(port: int, data: Path = clone / ".demo", **settings: str) -> Instance:
        made = Instance(data, port, settings, command=["make", "-s", "-C", str(clone), "gateway-demo"])
        begun.append(made)
        made.run()
        return made

    yield begin
    for made in begun:
        made.kill()


def three_ports() -> int:
    """Returns a free port, behind which two more are free."""
    while True:
        port = free_port()
        if is_free(port + 1) and is_free(port + 2):
            return port


def test_what_it_prints_works_until_ctrl_c(demo: Demo, clone: Path) -> None:
    first = demo(three_ports(), DATABASE_URL="postgresql://not-this-one", TOPICS_API_KEYS="secret-of-somebody:read")
    until(lambda: "/gateway/health" in first.output or first.exited() is not None, "the demo to start", 180)
    assert first.exited() is None, first.output

    answers = run(script_of(COMMAND.findall(first.output)), first.url, clone)
    assert [answer.status for answer in answers] == [201, 201, 200, 200, 200]
    _, _, topics, records, health = answers
    assert [topic["topic"] for topic in topics.json["topics"]] == ["eu.orders", "us.orders"]
    assert [record["data"] for record in records.json["records"]] == [{"id": 2}]
    assert health.json["status"] == "ready"
    assert "eu -> cluster eu" in (clone / "said").read_text()
    streamed = (clone / "endless").read_text()
    assert "eu.orders" in streamed or "us.orders" in streamed

    taken = f"port {first.port} is in use: set PORT to a free port. The next two ports must be free, too."
    runs = f"the demo already runs on {first.data}: stop it, or set TOPICS_DATA to another folder."
    no_port = "PORT=70000 is not a whole number from 1 to 65533 (default 4100)."
    for port, data, why in (
        (first.port, clone / "other", taken),
        (three_ports(), first.data, runs),
        (70_000, clone / "other", no_port),
    ):
        refused = demo(port, data)
        until(lambda refused=refused: refused.exited() is not None, "the refusal")
        assert refused.output.splitlines()[0] == f"topics: {why}"

    assert first.process is not None
    os.killpg(first.process.pid, signal.SIGINT)  # a terminal sends it to everything that runs there
    first.process.wait(2 * DEADLINE)
    until(lambda: not first.pids(), "every process to end")

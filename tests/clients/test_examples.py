"""Each example with a client starts with its line, and does what it shows."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.deadlines import DEADLINE
from tests.instances import OURS, ROOT, Instance, free_port, is_free, until
from tests.watch.browser import open_browser
from tests.watch.wire import Api

pytestmark = pytest.mark.deep(32)


Start = Callable[..., Instance]


def two_ports() -> int:
    """Returns a free port whose next port is free, too."""
    while True:
        port = free_port()
        if is_free(port + 1):
            return port


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Start]:
    """Starts an example that runs until Ctrl-C."""
    begun: list[Instance] = []

    def begin(name: str, port: int, **settings: str) -> Instance:
        folder = tmp_path_factory.mktemp(name)
        settings["PYTHONPATH"] = str(ROOT)
        made = Instance(folder, port, settings, command=[sys.executable, "-m", f"examples.{name}"])
        begun.append(made)
        made.run()
        until(lambda: "Ctrl-C" in made.output or made.exited() is not None, f"{name} to start", 120)
        assert made.exited() is None, made.output
        return made

    yield begin
    for made in begun:
        made.end()


@pytest.fixture(scope="module")
def ports() -> dict[str, int]:
    return {"chat": two_ports(), "dashboard": free_port()}


@pytest.fixture(scope="module")
def chat(start: Start, ports: dict[str, int]) -> Instance:
    """The chat with its own server, which the other examples use, too."""
    origins = ",".join(f"http://127.0.0.1:{port}" for port in ports.values())
    return start("chat", ports["chat"], CORS_ALLOWED_ORIGINS=origins)


Ended = subprocess.CompletedProcess[str]


@pytest.fixture
def try_out(chat: Instance, tmp_path: Path) -> Callable[..., Ended]:
    """Runs an example that ends, with the server of the chat if the settings name no other."""

    def try_out(name: str, **settings: str) -> Ended:
        kept = {each: value for each, value in os.environ.items() if each not in OURS}
        kept |= {
            "TOPICS_URL": f"http://127.0.0.1:{chat.port + 1}",
            "TOPICS_DATA": str(tmp_path),
            "PORT": str(free_port()),
        }
        command = [sys.executable, "-m", f"examples.{name}"]
        return subprocess.run(
            command, cwd=ROOT, env=kept | settings, capture_output=True, text=True, timeout=2 * DEADLINE
        )

    return try_out


@pytest.fixture
def run(try_out: Callable[..., Ended]) -> Callable[..., str]:
    """Runs an example to its end. Returns its output."""

    def run(name: str, **settings: str) -> str:
        done = try_out(name, **settings)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def test_two_workers_share_a_queue(run: Callable[..., str]) -> None:
    lines = run("work_queue").splitlines()
    assert sorted(int(each.split()[-1]) for each in lines[:-1]) == [*range(7), *range(8, 12)]
    assert lines[-1] == "image 7 is a dead letter: no image"


def test_a_read_model_counts_each_booking_once(run: Callable[..., str], chat: Instance) -> None:
    balances: dict[str, float] = {}
    for number in (0, 100):
        first, *rows = run("read_model").splitlines()
        assert first == f"100 bookings after seq {number}"
        balances = {name: round(float(amount) * 100) for name, amount in map(str.split, rows)}
    api = Api(chat.port + 1)
    booked: dict[str, int] = {}
    for record in api.done("GET", "/v0/topics/bookings/records?limit=1000")["records"]:
        booked[record["data"]["account"]] = booked.get(record["data"]["account"], 0) + record["data"]["cents"]
    assert balances == booked


def test_a_read_model_counts_all_bookings_of_another_server(run: Callable[..., str], server: Instance) -> None:
    run("read_model")
    assert run("read_model", TOPICS_URL=server.url).splitlines()[0].endswith(" bookings after seq 0")


def test_a_page_that_cannot_call_the_server_is_refused(try_out: Callable[..., Ended], chat: Instance) -> None:
    """A browser would keep the answers from it, and it would stay empty."""
    port, url = free_port(), f"http://127.0.0.1:{chat.port + 1}"
    origin = f"http://127.0.0.1:{port}"
    said = f"topics: pages of {origin} may not call {url}: start that server with CORS_ALLOWED_ORIGINS={origin}.\n"
    for name in ("dashboard", "chat"):
        assert try_out(name, PORT=str(port)).stderr == said


def test_a_port_that_is_in_use_is_refused(try_out: Callable[..., Ended], chat: Instance) -> None:
    said = f"topics: port {chat.port} is in use: set PORT to a free port.\n"
    assert try_out("chat", PORT=str(chat.port)).stderr == said


@pytest.mark.browser
def test_a_page_shows_what_others_write(chat: Instance) -> None:
    with open_browser() as ada, open_browser() as bob:
        for each, name in ((ada, "ada"), (bob, "bob")):
            each.visit(f"http://127.0.0.1:{chat.port}/")
            until(lambda each=each: each.run("document.querySelector('form')?.hidden") is False, "the page")  # type: ignore[misc]
            each.run(f"document.querySelector('#name').value = '{name}'; 0")
        ada.run("document.querySelector('#text').value = 'hello'; document.querySelector('button').click(); 0")
        said = "[...document.querySelectorAll('#room p')].map((line) => line.textContent)"
        for each in (ada, bob):
            until(lambda each=each: each.run(said) == ["ada hello"], "the message")  # type: ignore[misc]
        bob.run("document.querySelector('#name').value = 'b'.repeat(129); 0")
        bob.run("document.querySelector('#text').value = 'hi'; document.querySelector('button').click(); 0")
        until(lambda: bob.run("document.querySelector('output').value"), "the refusal")
        assert bob.run("document.querySelector('#text').value") == "hi"


@pytest.mark.browser
def test_a_dashboard_sums_all_sales(chat: Instance, start: Start, ports: dict[str, int]) -> None:
    url = f"http://127.0.0.1:{chat.port + 1}"
    dashboard = start("dashboard", ports["dashboard"], TOPICS_URL=url)
    api = Api(chat.port + 1)
    with open_browser() as browser:
        browser.visit(f"http://127.0.0.1:{ports['dashboard']}/")

        def shown() -> Any:
            return browser.run("document.querySelector('#total')?.value")

        until(lambda: shown() not in (None, "", "0.00"), "a sale")
        assert dashboard.process is not None
        os.killpg(dashboard.process.pid, signal.SIGINT)
        dashboard.process.wait(DEADLINE)
        records = api.done("GET", "/v0/topics/dashboard.sales/records?limit=1000")["records"]
        total = sum(record["data"]["cents"] for record in records)
        until(lambda: shown() == f"{total / 100:.2f}", "the last sale")


def test_every_example_has_a_line_in_the_makefile() -> None:
    lines = re.findall(r"-m examples\.(\w+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    programs = {each.parent.name for each in (ROOT / "examples").glob("*/__main__.py")}
    assert programs <= set(lines)

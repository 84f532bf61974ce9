"""docs/tutorials/webhook.md and docs/webhooks.md as they are printed, and the calls that docs/push.md lists."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from push.api.urls import endpoints
from tests.docs.printed import commands, is_chore, snippets
from tests.instances import ROOT, WHOLE, Instance, free_port, until

PAGE = (ROOT / "docs" / "push.md").read_text()
TUTORIAL, WEBHOOKS = "docs/tutorials/webhook.md", "docs/webhooks.md"


@pytest.fixture
def printed(
    request: pytest.FixtureRequest, instances: Callable[..., Instance], tmp_path: Path
) -> Iterator[Callable[[str], str]]:
    """Runs a command of the page against an instance with the page's settings. What runs on ends with the test."""
    page = request.param
    line = next(each for each in commands(page) if each.endswith("make run"))
    (script,) = (each.split()[1] for each in commands(page) if each.startswith("python3"))
    (receiver,) = snippets(page, "python")
    settings = dict(word.split("=") for word in line.split() if "=" in word)
    instance, port, running = instances(**WHOLE, **settings), str(free_port()), list[subprocess.Popen[bytes]]()

    (tmp_path / script).write_text(receiver.replace("8080", port))

    def run(command: str) -> str:
        command = command.replace("localhost:4000", f"127.0.0.1:{instance.port}").replace("8080", port)
        if command.startswith("python3"):
            output = (tmp_path / "printed").open("wb")
            running.append(
                subprocess.Popen(
                    ["bash", "-c", f"exec {command}"],
                    stdout=output,
                    stderr=output,
                    cwd=tmp_path,
                    env={"PATH": "/usr/bin:/bin", "PYTHONUNBUFFERED": "1"},
                )
            )
            output.close()
            return ""
        return subprocess.run(["bash", "-euc", command], capture_output=True, text=True, check=True).stdout

    yield run
    for each in running:
        each.kill()
        each.wait()


@pytest.mark.parametrize("printed", [TUTORIAL], indirect=True)
def test_the_tutorial_delivers_its_event(printed: Callable[[str], str], tmp_path: Path) -> None:
    shop, billing, published, _, subscribed, listed = [
        printed(command) for command in commands(TUTORIAL) if not is_chore(command)
    ]
    assert json.loads(shop) == {"name": "shop", "token": "shop--1"}
    assert json.loads(billing) == {"name": "billing", "token": "billing--1"}
    assert (published, subscribed) == ("", "")
    assert json.loads(listed)[0]["subscriber"] == "billing"
    line = "orders create https://shop.example/orders/1"
    until(lambda: line in (tmp_path / "printed").read_text(), "the event to be printed")


@pytest.mark.parametrize("printed", [WEBHOOKS], indirect=True)
def test_the_page_of_webhooks_delivers_its_record(printed: Callable[[str], str], tmp_path: Path) -> None:
    for command in commands(WEBHOOKS):
        if is_chore(command):
            continue
        told = printed(command)
        assert "error" not in json.loads(told or "{}"), told
        if "/v0/topics/orders" in command:
            until(lambda: "orders 1 {'total': 19.9}" in (tmp_path / "printed").read_text(), "the record to be printed")
    until(lambda: "webhooks.test" in (tmp_path / "printed").read_text(), "the test to be printed")


def test_every_call_stands_in_the_table() -> None:
    calls = {
        f"{method} {re.sub(r'{.+?}', ':x', path)}"
        for each in endpoints
        if each.operation.is_bus
        for method, path in each.operation.paths
    }
    named = set()
    for row in re.findall(r"^\| `((?:GET|POST|DELETE) .*?)\|", PAGE, re.MULTILINE):
        method = row.split()[0]
        named |= {
            f"{method} {re.sub(r':[a-z]+', ':x', path)}" for path in re.findall(r"(/[a-z_/:]+)", row.split("{")[0])
        }
    assert named == calls

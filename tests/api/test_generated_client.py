"""A client that openapi-python-client generates from /v0/schema does what its names say, against a running instance."""

from __future__ import annotations

import importlib
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.deadlines import DEADLINE
from tests.instances import Instance, until
from topics_project.urls import DESCRIBED

pytestmark = pytest.mark.deep


PACKAGE = "generated_topics_client"
Part = Callable[[str], ModuleType]


@pytest.fixture(scope="module")
def part(server: Instance, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Part]:
    """`part("models")` is a module of the generated package."""
    folder = tmp_path_factory.mktemp("generated")
    with urllib.request.urlopen(f"{server.url}/v0/schema", timeout=DEADLINE) as answer:
        (folder / "schema.json").write_bytes(answer.read())
    (folder / "config.yaml").write_text("post_hooks: []\n")  # nobody will read it: no formatter
    arguments = ["--path", "schema.json", "--output-path", PACKAGE, "--meta", "none", "--config", "config.yaml"]
    command = [sys.executable, "-m", "openapi_python_client", "generate", *arguments, "--fail-on-warning"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "warning" not in (done.stdout + done.stderr).lower(), done.stdout + done.stderr
    sys.path.insert(0, str(folder))
    yield lambda name: importlib.import_module(f"{PACKAGE}.{name}")
    sys.path.remove(str(folder))
    for name in [name for name in sys.modules if name.partition(".")[0] == PACKAGE]:
        del sys.modules[name]


@pytest.fixture
def client(server: Instance, part: Part) -> Iterator[Any]:
    with part("client").Client(base_url=server.url, raise_on_unexpected_status=True) as client:
        yield client


def test_every_call_is_generated(part: Part) -> None:
    folder = Path(str(part("api").__file__)).parent
    calls = {file.stem for file in folder.glob("*/*.py")} - {"__init__"}
    assert calls == {each.id for each in DESCRIBED.operations}


def test_it_appends_reads_and_routes(part: Part, client: Any, name: str) -> None:
    models, append = part("models"), part("api.records.append")
    config = models.Config(cap_records=1000, durability=models.Durability.FSYNC)
    made = part("api.topics.put_topic").sync(name, client=client, body=config)
    assert (made.created, made.config.cap_records, made.config.durability) == (True, 1000, "fsync")

    records = [models.NewRecord(data={"id": each}, tag=f"order:{each}") for each in (7, 8)]
    done = append.sync(name, client=client, body=models.Append(records=records), idempotency_key="once")
    assert (done.first_seq, done.last_seq, done.deduped) == (1, 2, False)
    again = append.sync(name, client=client, body=models.Append(records=records), idempotency_key="once")
    assert (again.seqs, again.deduped) == ([1, 2], True)

    wanted = models.RouterConfig(source=name, dest=f"{name}-copy", from_="earliest", filter_="order:8")
    router = part("api.routers.put_router").sync(f"{name}>copy", client=client, body=wanted)
    assert (router.created, router.filter_) == (True, ["tag", "Eq", "order:8"])

    diff = part("api.records.read")
    read = diff.sync(name, client=client, body=models.Diff(include_tags=True))
    assert [(each.seq, each.tag, each.data) for each in read.records] == [
        (1, "order:7", {"id": 7}),
        (2, "order:8", {"id": 8}),
    ]
    assert (read.caught_up, read.next_from_seq) == (True, 2)
    copied = until(lambda: diff.sync(f"{name}-copy", client=client, body=models.Diff()).records, "the copy")
    assert [each.data for each in copied] == [{"id": 8}]


def test_a_refusal_has_a_code(part: Part, client: Any, name: str) -> None:
    models = part("models")
    absent = part("api.records.read").sync(name, client=client, body=models.Diff())
    assert isinstance(absent, models.Error)
    assert absent.error.code is models.Code.TOPIC_NOT_FOUND
    assert absent.error.detail["topic"] == name

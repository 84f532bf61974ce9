"""examples/gateway/: every file is checked and served, and the calls of its header are answered as they are printed."""

import re
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from gateway import plugins
from tests import preloaded
from tests.docs.printed import text_of
from tests.docs.shell import run
from tests.gateway.running import Running
from tests.instances import ROOT, start

FOLDER = ROOT / "examples" / "gateway"
FILES = sorted(FOLDER.glob("*.yaml"))
CALL = re.compile(
    r"^#     ((?:curl|topics|sleep) .*?)(?:  # (\d{3}))?$", re.MULTILINE
)  # with the status that it is printed to be refused with


@pytest.fixture(scope="module")
def ports() -> Iterator[dict[str, str]]:
    """The two servers of the examples, by the ports that the examples print."""
    with start() as eu, start() as us:
        yield {"4101": str(eu.port), "4102": str(us.port)}


@pytest.fixture
def serve(tmp_path: Path, ports: dict[str, str]) -> Iterator[Callable[[Path], Running]]:
    started: list[Running] = []

    def serve(file: Path) -> Running:
        shutil.copytree(FOLDER / "files", tmp_path / "files")
        running = Running(tmp_path, yaml.safe_load(moved(file.read_text(), ports)))
        started.append(running)
        return running.start()

    yield serve
    for running in started:
        running.kill()


def moved(text: str, ports: dict[str, str]) -> str:
    return re.sub("|".join(ports), lambda found: ports[found[0]], text)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_check_has_nothing_to_say_against_it(file: Path) -> None:
    command = [sys.executable, str(ROOT / "manage.py"), "gateway", "check", str(file.relative_to(ROOT))]
    done = preloaded.run(command, folder=ROOT)
    assert (done.returncode, done.stderr) == (0, "")
    assert "virtual cluster all" in done.stdout


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_it_is_served_and_its_header_works_as_printed(
    file: Path, serve: Callable[[Path], Running], ports: dict[str, str], tmp_path: Path
) -> None:
    running = serve(file)
    calls = CALL.findall(file.read_text())
    script = moved("\n".join(call for call, _ in calls), {**ports, "4100": str(running.port)})
    script = script.replace(f"examples/gateway/{file.name}", str(running.file))
    topics = f'topics() {{ {sys.executable} {ROOT}/manage.py "$@" >&2; }}\n'
    answers = run(topics + script, f"http://localhost:{running.port}", tmp_path)
    expected = [int(refused or 200) // 100 for call, refused in calls if call.startswith("curl")]
    assert [answer.status // 100 for answer in answers] == expected
    assert running.health() == "ready"


def test_every_router_has_an_example_that_the_page_names() -> None:
    used = {
        definition["type"] for file in FILES for definition in yaml.safe_load(file.read_text())["routerDefinitions"]
    }
    assert used == set(plugins.OURS["router"])
    page = text_of("docs/gateway.md")
    assert [file.name for file in FILES if f"`{file.name}`" not in page] == []

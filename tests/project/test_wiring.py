"""Every slot is filled once, by topics_project/wiring.py."""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest
from django.conf import settings

from base.slot import Slot
from tests.deadlines import DEADLINE
from topics_project import wiring
from wire.process import shutdown

ROOT = Path(settings.BASE_DIR)


@cache
def slots() -> dict[str, Slot[object]]:
    modules = {".".join(file.relative_to(ROOT).with_suffix("").parts): name for file, name in declared()}
    return {f"{module}.{name}": getattr(import_module(module), name) for module, name in modules.items()}


def declared() -> Iterator[tuple[Path, str]]:
    """Yields the file and the name of each slot."""
    packages = (folder for folder in ROOT.iterdir() if folder.name != "tests" and not folder.name.startswith("."))
    for file in (file for package in packages for file in package.rglob("*.py")):
        text = file.read_text()
        for node in ast.walk(ast.parse(text)) if "Slot[" in text else ():
            match node:
                case ast.AnnAssign(target=ast.Name(id=name), annotation=kind) if "Slot[" in ast.unparse(kind):
                    yield file, name


def test_a_second_value_is_refused() -> None:
    slot: Slot[int] = Slot()
    with pytest.raises(AttributeError):
        slot.value  # noqa: B018 - the read itself raises
    slot.set(1)
    with pytest.raises(RuntimeError, match="already holds 1"):
        slot.set(2)
    assert slot.value == 1


def test_django_fills_every_slot() -> None:
    empty = {name for name, slot in slots().items() if not hasattr(slot, "value")}
    # The slot of the shutdown has a value only in a web process.
    assert empty <= {"wire.process.shutdown.holders"}
    assert len(slots()) >= 8


def test_a_web_process_fills_the_rest() -> None:
    program = (
        "from topics_project import serve; from wire.process import shutdown; from store import serving; serve.wiring.wire_web();"
        "print(len(shutdown.holders.value), serving.process.holds)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=DEADLINE, check=True
    )
    assert done.stdout.split() == ["3", "True"]


def test_a_second_wiring_is_refused() -> None:
    with pytest.raises(RuntimeError, match="already holds"):
        wiring.wire()
    assert not hasattr(shutdown.holders, "value")


@pytest.mark.parametrize(
    ("code", "fault"),
    [
        ("from topics import hooks\nhooks.before_read = print\n", "hooks.before_read belongs to topics.hooks"),
        ("from wire.metrics import collectors\ncollectors.append(print)\n", "collectors belongs to wire.metrics"),
        ("from wire.process import pulse\npulse.steps += [print]\n", "pulse.steps belongs to wire.process.pulse"),
        ("import console.metrics\n", "watch is below console"),
        ("from watch import other\n", "watch, watch.other: these modules import each other in a circle"),
    ],
)
def test_the_check_refuses_other_ways(tmp_path: Path, code: str, fault: str) -> None:
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci/layers.py", tmp_path / ".ci")
    (tmp_path / "watch").mkdir()
    (tmp_path / "watch/__init__.py").write_text(code)
    (tmp_path / "watch/other.py").write_text("import watch\n")
    done = subprocess.run(
        [sys.executable, tmp_path / ".ci/layers.py"], capture_output=True, text=True, timeout=DEADLINE
    )
    assert done.returncode == 1
    assert fault in done.stdout

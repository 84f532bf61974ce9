"""`pip install .` gives the whole product and nothing else, and one version stands everywhere."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.instances import OURS, ROOT, Instance
from tests.project.test_settings import GOOD
from topics_project import __version__

LOAD = """
import django; django.setup()
from django.contrib.staticfiles.finders import find
from django.template.loader import get_template
from console import documents
print(get_template("admin/base_site.html").origin.name, find("console/console.css"))
assert "<h1" in documents.body("index.md") and documents.outline()
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return zipfile.ZipFile(next(folder.glob("*.whl")))


def test_what_the_wheel_says_of_itself(wheel: zipfile.ZipFile) -> None:
    info = f"topics-{__version__}.dist-info"
    metadata = wheel.read(f"{info}/METADATA").decode()
    assert "License-Expression: MIT" in metadata
    assert "Author: The topics authors" in metadata
    assert wheel.read(f"{info}/entry_points.txt").decode().split() == [
        "[console_scripts]", "topics", "=", "topics_project.__main__:main",
    ]  # fmt: skip
    assert "MIT License" in wheel.read(f"{info}/licenses/LICENSE").decode()


def test_a_type_checker_of_a_plugin_finds_the_types(wheel: zipfile.ZipFile) -> None:
    """`gateway.api` and the packages that its types come from say that they have types."""
    read = ast.walk(ast.parse((ROOT / "gateway" / "api.py").read_text()))
    modules = {each.module for each in read if isinstance(each, ast.ImportFrom) and each.module}
    packages = {"gateway", *(module.partition(".")[0] for module in modules)}
    ours = {
        name.partition("/")[0] for name in wheel.namelist() if name.count("/") == 1 and name.endswith("__init__.py")
    }
    marked = {name.partition("/")[0] for name in wheel.namelist() if name.endswith("/py.typed")}
    assert {"base", "contract", "http1", "wire"} <= packages & ours <= marked


def test_what_is_installed_finds_its_own_files(wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    wheel.extractall(tmp_path / "site")
    inherited = {name: value for name, value in os.environ.items() if name not in (*OURS, "TOPICS_DATA")}
    env = {**inherited, **GOOD, "PYTHONPATH": str(tmp_path / "site"), "XDG_DATA_HOME": str(tmp_path)}
    env["DJANGO_SETTINGS_MODULE"] = "topics_project.settings"

    def python(*argv: str) -> str:
        done = subprocess.run(
            [sys.executable, *argv], env=env, cwd=tmp_path, capture_output=True, text=True, check=True
        )
        return done.stdout

    template, style = python("-c", LOAD).split()
    assert template == str(tmp_path / "site/topics_project/templates/admin/base_site.html")
    assert style == str(tmp_path / "site/console/static/console/console.css")
    folder = "from embedded.folder import data_dir; print(data_dir())"
    assert python("-c", folder).strip() == str(tmp_path / "topics")
    called = "import sys; sys.argv = ['topics', 'tail', '--help']; from topics_project.__main__ import main; main()"
    assert "usage: topics tail" in python("-c", called).lower()


def test_one_version(server: Instance) -> None:
    assert f'"version":"{__version__}"' in server.get("/v0/health")[1]
    assert f"topics {__version__}<" in server.get("/admin/login/")[1]
    assert __version__ in server.get("/v0/schema")[1]
    for command in (["manage.py", "--version"], ["-m", "topics_project", "--version"]):
        said = subprocess.run([sys.executable, *command], cwd=ROOT, capture_output=True, text=True, check=True).stdout
        assert said == f"topics {__version__}\n"
    texts = [(ROOT / path).read_text() for path in ("docker-compose.yml", "deploy/kubernetes.yaml")]
    tags = [tag for text in texts for tag in re.findall(r"image: topics:(\S+)", text)]
    assert set(tags) == {__version__}

"""deploy/mirror/: each file is well formed, and its process mirrors with the settings of mirror.env."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from shell.cli import program
from tests.api.clients import HttpClient
from tests.deadlines import DEADLINE
from tests.deploy.test_manifests import COMPOSE, image, refused_of
from tests.instances import ROOT, start, until

FOLDER = ROOT / "deploy" / "mirror"
KEY = "key-of-both-0123456789"
COMMAND = ["python", "manage.py", "topics", "mirror"]


def settings() -> dict[str, str]:
    lines = (FOLDER / "mirror.env").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def test_the_settings_are_variables_of_the_command() -> None:
    known = {option.envvar for option in (*program.params, *program.commands["mirror"].params)}
    assert set(settings()) <= known


def test_the_process_mirrors_with_these_settings(tmp_path: Path) -> None:
    """As the image runs it: a folder without data, no database, and the environment of mirror.env alone."""
    with (
        start(TOPICS_API_KEYS=f"{KEY}:read+write+commit+admin") as fra,
        start(TOPICS_API_KEYS=f"{KEY}:read+write+commit+admin") as iad,
    ):
        given = {**settings(), "TOPICS_URL": fra.url, "TOPICS_MIRROR_URL": iad.url, "PATH": os.environ["PATH"]}
        given |= {"TOPICS_KEY": KEY, "TOPICS_MIRROR_KEY": KEY, "TOPICS_DATA": str(tmp_path / "none")}
        body = {"records": [{"data": 1}]}
        assert HttpClient(fra.port).post("/v0/topics/chat", body, authorization=f"Bearer {KEY}").status == 201
        argv = [sys.executable, str(ROOT / "manage.py"), *COMMAND[2:]]
        said = tmp_path / "said"
        with said.open("w") as output, subprocess.Popen(argv, env=given, cwd=tmp_path, stderr=output) as running:
            try:
                until(lambda: said.read_text().count("runs, from seq") == 2 or running.poll() is not None, "the mirror")
                running.terminate()
                assert running.wait(DEADLINE) == 0, said.read_text()
            finally:
                running.kill()
        reply = HttpClient(iad.port).get("/v0/topics/chat", authorization=f"Bearer {KEY}")
        assert reply.status == 200
    assert not (tmp_path / "none").exists()


def test_compose_and_kubernetes_run_it() -> None:
    (service,) = yaml.safe_load((FOLDER / "compose.yaml").read_text())["services"].values()
    assert service["command"] == COMMAND
    assert service["image"] == COMPOSE["services"]["web"]["image"]
    assert service["env_file"] == ["secrets/mirror.env"]
    (manifest,) = yaml.safe_load_all((FOLDER / "kubernetes.yaml").read_text())
    assert refused_of(manifest) == []
    pod = manifest["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert (container["command"], container["image"]) == (COMMAND, service["image"])
    assert f"{pod['securityContext']['runAsUser']}:{pod['securityContext']['runAsGroup']}" == image("USER")[0]


def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    text = (FOLDER / "topics-mirror.service").read_text()
    assert re.findall("^ExecStart=(.*)$", text, re.M) == ["/opt/topics/.venv/bin/python manage.py topics mirror"]
    if shutil.which("systemd-analyze") is None:
        pytest.skip("NOT TRIED: there is no systemd-analyze here (apt-get install systemd)")
    unit = tmp_path / "topics-mirror.service"
    unit.write_text(text.replace("/opt/topics/.venv/bin/python manage.py", f"{sys.executable} {ROOT}/manage.py"))
    verified = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", unit], capture_output=True, text=True, check=False
    )
    assert (verified.returncode, verified.stderr) == (0, "")

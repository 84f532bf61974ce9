"""docker-compose.yml and the line that README prints for it, as far as they can be tried without Docker: the environment that the
line gives a web process starts one."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import urllib.error
import urllib.request

import yaml

from tests.docs.printed import commands
from tests.instances import OURS, ROOT, Instance, free_port, until

COMPOSE = (ROOT / "docker-compose.yml").read_text()
SAID = re.compile(r"\$\{(\w+)(?::([-?])([^}]*))?\}")
SETTING = re.compile(r"(\w+)=('[^']*'|\S+)")


def printed() -> dict[str, str]:
    """The settings of README's line, where it has an ellipsis with a value."""
    (line,) = [command for command in commands("README.md") if "docker compose up" in command]
    return {name: value.strip("'").replace("…", "0123456789abcdef" * 4) for name, value in SETTING.findall(line)}


def environment(given: dict[str, str]) -> dict[str, str]:
    """What Compose puts into the container of `web`. Raises KeyError for a variable that it insists on."""

    def value(found: re.Match[str]) -> str:
        name, how, rest = found.groups()
        return given.get(name) or (rest if how == "-" else given[name])

    web = yaml.safe_load(COMPOSE)["services"]["web"]["environment"]
    return {name: SAID.sub(value, str(text)) for name, text in web.items()}


def test_both_print_the_same_line() -> None:
    (line,) = [command for command in commands("README.md") if "docker compose up" in command]
    assert f"#   {line}" in COMPOSE


def test_the_printed_line_starts_a_web_process(server: Instance) -> None:
    """On the shared instance's PostgreSQL and Redis, at the address of the image."""
    port = free_port()
    inherited = {name: value for name, value in os.environ.items() if name not in (*OURS, "TOPICS_DATA")}
    image = dict(re.findall(r"(HOST)=(\S+)", (ROOT / "Dockerfile").read_text()))
    ours = {"DATABASE_URL": server.servers.database_url, "REDIS_URL": server.servers.redis_url}
    settings = {**environment(printed()), **image, **ours, "PORT": str(port), "WEB_WORKERS": "1"}
    folder = {"TOPICS_DATA": str(server.data / "compose")}
    argv = [sys.executable, str(ROOT / "manage.py"), "run", "web"]
    with subprocess.Popen(argv, env={**inherited, **settings, **folder}) as web:
        try:
            until(lambda: web.poll() is not None or ask(port, "/v0/ready") == 200, "the web process")
            assert web.poll() is None
            secret = printed()["TOPICS_API_KEYS"].partition(":")[0]
            assert (ask(port, "/v0/topics"), ask(port, "/v0/topics", secret)) == (401, 200)
        finally:
            web.terminate()


def ask(port: int, path: str, secret: str = "") -> int:
    headers = {"Authorization": f"Bearer {secret}"} if secret else {}
    try:
        with urllib.request.urlopen(
            urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers=headers)
        ) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code
    except OSError:
        return 0

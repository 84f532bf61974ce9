"""docker-compose.yml and the line that README prints for it, as far as they can be tried without Docker: the environment that the
line gives a web process starts one."""

from __future__ import annotations

import re

import yaml

from tests.docs.printed import commands
from tests.docs.process import ask, web
from tests.instances import ROOT, Instance

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
    image = dict(re.findall(r"(HOST)=(\S+)", (ROOT / "Dockerfile").read_text()))
    ours = {"DATABASE_URL": server.servers.database_url, "REDIS_URL": server.servers.redis_url}
    secret = printed()["TOPICS_API_KEYS"].partition(":")[0]
    with web(server.data / "compose", **{**environment(printed()), **image, **ours}) as port:
        assert (ask(port, "/v0/topics"), ask(port, "/v0/topics", secret)) == (401, 200)

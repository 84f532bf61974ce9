"""docs/gateway.md and docs/gateway-plugins.md: their configuration, commands and plugin work as printed."""

import hashlib
import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
import trustme
import yaml

from gateway import api, plugins, testing
from gateway.errors import (
    BeingMoved,
    NodeUnreachable,
    NotOffered,
    NotSupported,
    RouterFailed,
    RoutesFailed,
    UnknownRoute,
    UpstreamTimeout,
)
from gateway.filters.authenticate import parse_keys
from gateway.routers.splice.router import SpliceConfig, Splices
from tests.docs.printed import commands, snippets, text_of
from tests.gateway.running import Running, free_port
from tests.instances import ROOT, until
from tests.preloaded import run

PAGE, PLUGINS = "docs/gateway.md", "docs/gateway-plugins.md"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The printed configuration, with the files that it names."""
    (tmp_path / "eu").write_text("a key of the upstream's")
    trustme.CA().cert_pem.write_to_path(tmp_path / "us-ca.pem")
    found = tmp_path / "gateway.yaml"
    found.write_text(snippets(PAGE, "yaml")[0].replace("/run/secrets/eu", str(tmp_path / "eu")))
    return found


def typed(command: str, file: Path) -> str:
    words = command.removeprefix("topics ").replace("FILE", str(file)).split()
    done = run([sys.executable, str(ROOT / "manage.py"), *words])
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_configuration_and_the_commands_are_as_printed(file: Path) -> None:
    check, explain, serve, *_ = commands(PAGE)
    assert "route us (id 1)" in typed(check, file)
    assert "eu -> cluster eu, any node: GET /v0/topics/eu.orders" in typed(explain, file)
    assert serve.endswith("topics gateway serve FILE --processes 2")


def test_the_printed_kafka_cluster_is_one(tmp_path: Path) -> None:
    file = tmp_path / "gateway.yaml"
    file.write_text(snippets("docs/kafka.md", "yaml")[0])
    told = typed("topics gateway check FILE", file)
    assert "cluster big: kafka://10.0.1.1:9092,10.0.1.2:9092" in told
    assert "claim" not in told  # the other cluster offers it
    way = typed("topics gateway explain FILE GET /v0/topics/clicks.web", file)
    assert "big -> cluster big, any node" in way


def test_the_printed_line_of_a_key_is_one() -> None:
    line = next(command for command in commands(PAGE) if command.startswith("printf"))
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=True)
    assert parse_keys(done.stdout) == {hashlib.sha256(b"the-secret").digest(): api.Subject("billing", ("reader",))}


def test_the_command_serves_with_two_processes(tmp_path: Path) -> None:
    configuration = {
        "clusterDefinitions": [{"name": "eu", "nodes": [{"id": 0, "url": f"http://127.0.0.1:{free_port()}"}]}],
        "virtualClusters": [{"name": "all", "gateways": [{"host": "127.0.0.1"}], "target": {"cluster": "eu"}}],
    }
    running = Running(tmp_path, configuration, {"GATEWAY_KEY": "x" * 32}, ("--processes", "2")).start()
    try:
        until(lambda: running.output.count("Serving configuration") == 2, "both processes")
        assert running.health() == "degraded"
        assert running.stop() == 0
    finally:
        running.kill()


def test_the_printed_plugins_are_what_the_api_wants() -> None:
    names: dict = {}
    for code in snippets(PLUGINS, "python"):
        exec(code, names)
    factory = names["ByHourFactory"]()
    assert plugins.config_type(factory) is names["ByHourConfig"]
    assert isinstance(names["ByHour"](None), api.Router)
    assert isinstance(names["Stamp"](), api.Filter)
    names["test_a_request_takes_one_of_the_two_routes"]()


def test_a_filter_is_tried_by_the_test_kit() -> None:
    names: dict = {}
    for code in snippets(PLUGINS, "python"):
        if "class Stamp" in code:
            exec(code, names)

    class StampFactory(api.FilterFactory):
        def initialize(self, context: api.FilterFactoryContext, config: api.NoConfig) -> None: ...

        def create_filter(self, context, data):
            return names["Stamp"]()

        def close(self, data: None) -> None: ...

    with testing.filtering(StampFactory()) as gateway:
        assert gateway.call("GET", "/v0/topics/orders").status == 200
        assert gateway.servers["one"].requests[0].header(b"x-stamp") == b"1"
    assert testing.TYPE not in plugins.names("filter")


def test_the_printed_splice_is_one() -> None:
    config = msgspec.convert(yaml.safe_load(snippets(PAGE, "yaml")[1])["config"], SpliceConfig)
    old, new = Splices(config).topics["orders"].segments
    assert (old.end, new.begin, new.end) == (2, 2, None)


def test_every_refusal_of_the_gateway_has_its_row() -> None:
    rows = set(re.findall(r"^\| (\d{3}) \| `(\w+)` \|", text_of(PAGE), re.MULTILINE))
    refusals = (BeingMoved, NodeUnreachable, NotOffered, NotSupported, RouterFailed, RoutesFailed, UnknownRoute)
    assert rows == {(str(each.status), each.code) for each in (*refusals, UpstreamTimeout)}


def test_every_plugin_of_ours_has_its_section() -> None:
    text = text_of(PAGE)
    for names in plugins.OURS.values():
        assert all(f"### {name}\n" in text for name in names)

"""One report has every fault of a file, with its line and the change to make. A file without one is typed throughout."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.configuration import check
from gateway.configuration.load import Configuration, Faulty, load
from gateway.configuration.shapes import Plugins, PluginType, Tls


class Nothing(msgspec.Struct, forbid_unknown_fields=True):
    """No field."""


class Table(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    default_route: str
    exact: dict[str, str] = {}
    most_tries: int = 3


PLUGINS = Plugins(
    {"UnionRouter": PluginType(Nothing), "TopicRouter": PluginType(Table)},
    {
        "Audit": PluginType(Nothing),
        "Authenticate": PluginType(Nothing, frozenset({"virtual cluster"}), once=True),
        "ApiKey": PluginType(Nothing, frozenset({"route to a cluster"}), once=True),
    },
)
US = 'nodes: [{id: 0, url: "http://us.internal:4000"}]'
WHOLE = """\
clusterDefinitions:
  - name: eu
    nodes: [{id: 0, url: "http://10.0.0.1:4000"}, {id: 1, url: "https://10.0.0.2:4000"}]
    timeouts: {connectMs: 200}
  - {name: us, nodes: [{id: 0, url: "http://us.internal:4000"}]}
filterDefinitions:
  - {name: eu-key, type: ApiKey}
  - {name: who, type: Authenticate}
routerDefinitions:
  - name: by-topic
    type: TopicRouter
    config: {defaultRoute: eu, exact: {orders: us}}
    routes:
      - {name: eu, id: 0, filters: [eu-key], target: {cluster: eu}}
      - {name: us, id: 1, target: {cluster: us}}
virtualClusters:
  - name: all
    gateways: [{host: topics.example.org}, {prefix: /vc/all}]
    filters: [who]
    target: {router: by-topic}
"""


def read(folder: Path, text: str) -> Configuration:
    file = folder / "gateway.yaml"
    file.write_text(text)
    return load(file, PLUGINS)


def report(folder: Path, text: str) -> list[str]:
    """The lines of the report, without the file's name."""
    with pytest.raises(Faulty) as caught:
        read(folder, text)
    name = str(folder / "gateway.yaml")
    lines = str(caught.value).splitlines()
    assert all(line.startswith(f"{name}:") for line in lines)
    return [line.removeprefix(f"{name}:") for line in lines]


def line_of(text: str, word: str) -> int:
    return next(number for number, line in enumerate(text.splitlines(), 1) if word in line)


def test_a_whole_file_is_typed(tmp_path: Path) -> None:
    found = read(tmp_path, WHOLE)
    assert found.routers["by-topic"].config == Table("eu", {"orders": "us"})
    assert found.clusters["eu"].timeouts.connect_ms == 200
    assert found.clusters["us"].timeouts.answer_ms == 10_000
    assert [type(each).__name__ for each in found.reachable("all")] == [
        "VirtualCluster",
        "FilterDefinition",
        "RouterDefinition",
        "FilterDefinition",
        "ClusterDefinition",
        "ClusterDefinition",
    ]


@pytest.mark.parametrize(
    ("old", "new", "word", "said"),
    [
        ("router: by-topic", "router: by-topik", "by-topik", "router 'by-topik' does not exist. Did you mean 'by-topic'?"),
        ("cluster: us", "cluster: asia", "asia", "cluster 'asia' does not exist: expected one of eu, us."),
        ("filters: [who]", "filters: [whom]", "whom", "filter 'whom' does not exist. Did you mean 'who'?"),
        ("type: TopicRouter", "type: TopikRouter", "Topik", "router 'TopikRouter' does not exist. Did you mean 'TopicRouter'?"),
        ("connectMs: 200", "connectMs: 0", "connectMs", "clusterDefinitions[0].timeouts.connectMs: Expected int >= 1."),
        ("connectMs: 200", "conectMs: 200", "conectMs", "unknown field. Did you mean 'connectMs'?"),
        ("defaultRoute: eu", "defaultRoute: 7", "config:", "config.defaultRoute: Expected str, got int."),
        ("defaultRoute: eu, ", "", "config:", "the field 'defaultRoute' is missing."),
        ("id: 1, target", "id: 0, target", "{name: us, id", "0 is already used in line 14: choose another name."),
        ("id: 1, target", "id: 2, target", "{name: us, id", "the id 2 is too large: expected 0 to 1 for 2 routes."),
        ("{name: us, id: 1", "{name: eu, id: 1", "{name: eu, id: 1", "'eu' is already used in line 14: choose another name."),
        ("filters: [who]", "filters: [who, eu-key]", "[who, eu", "move it to a route to a cluster, its only place."),
        ("filters: [eu-key]", "filters: [eu-key, eu-key]", "[eu-key, ", "is already a filter ApiKey: remove one"),
        ("{cluster: us}}", "{cluster: us, router: by-topic}}", "cluster: us,", "found cluster and router."),
        ("{cluster: us}}", "{}}", "target: {}", "expected exactly one of cluster and router, found neither."),
        ("{prefix: /vc/all}", "{prefix: /vc/all/}", "/vc/all/", "invalid prefix '/vc/all/': expected /NAME"),
        ("{prefix: /vc/all}", "{prefix: /gateway/x}", "/gateway/x", "/gateway is reserved for the gateway itself"),
        ("{prefix: /vc/all}", "{host: Topics.example.org}", "Topics.example", "'host topics.example.org' is already used"),
        ("host: topics.example.org", "host: 'http://x:80'", "host:", "expected a host name without scheme, port"),
        ('"http://us.internal:4000"', '"us.internal:4000"', "us.internal", "expected http://HOST:PORT or https://HOST:PORT."),
        ('"http://us.internal:4000"', '"http://us:4000/v0"', "us:4000/v0", "invalid node address 'http://us:4000/v0'"),
        ("name: us, nodes", "name: yes, nodes", "yes", "Expected str, got bool: put the word in quotes."),
        ("name: us, nodes: [{id: 0", "name: us, tls: {}, nodes: [{id: 0", "tls", "because no node has an https:// URL"),
        ("timeouts:", "tls: {ca: none.pem}\n    timeouts:", "none.pem", "does not exist"),
        ("timeouts:", f"tls: {{ca: {'x' * 300}}}\n    timeouts:", "xxx", "cannot be looked at: File name too long."),
        ("timeouts:", "tls: {key: k.pem}\n    timeouts:", "k.pem", "expected exactly one"),
        ("    filters: [who]\n", "    filters: [who]\n    filters: []\n", "filters: []", "'filters' occurs twice"),
        ("    filters: [who]\n", "", "name: who", "no virtual cluster uses the filter 'who': use the filter, or remove it."),
        (
            "    filters: [who]\n",
            "    filters: [who]\n    without: [apend]\n",
            "apend",
            "operation 'apend' does not exist. Did you mean 'append'?",
        ),
        ("    filters: [who]\n", "    filters: [who]\n    without: [read, read]\n", "without", "'read' is already used in line"),
        ("nodes: [{id: 0, url: \"http://us.internal:4000\"}]", "nodes: []", "nodes: []", "Expected array of length >= 1."),
        (US, "kafka: {bootstrapServers: 'http://k:9092'}", "k:9092", "invalid address 'http://k:9092': expected HOST:PORT."),
        (US, "kafka: {bootstrapServers: 'k:9', security: {ca: c.pem, protocol: ssl}}", "c.pem", "does not exist"),
        (US, "kafka: {bootstrapServers: 'k:9', security: {username: me}}", "me}", "which need all three."),
        (US, "kafka: {bootstrapServers: 'k:9'}, addKeys: true", "addKeys", "tls and addKeys are for servers"),
        (US, "kafka: {bootstrapServers: 'k:9'}, " + US, "k:9", "expected exactly one of nodes and kafka"),
        ("virtualClusters:", "virtualCluster:", "virtualCluster:", "unknown field. Did you mean 'virtualClusters'?"),
    ],
)  # fmt: skip
def test_a_fault_is_told_with_its_line_and_the_change(tmp_path: Path, old: str, new: str, word: str, said: str) -> None:
    if "key: k.pem" in new:
        said = "certificate and key need each other: add the missing one."
    assert old in WHOLE
    text = WHOLE.replace(old, new, 1)
    lines = report(tmp_path, text)
    line, what = next((line.split(":", 1) for line in lines if said in line), ("", f"{said!r} is not in {lines}"))
    assert said in what
    assert int(line) == line_of(text, word)


def test_every_fault_is_in_one_report(tmp_path: Path) -> None:
    text = WHOLE.replace("connectMs: 200", "connectMs: no, answerMs: 0").replace("id: 1, url", "id: x, url")
    text = text.replace("defaultRoute: eu", "defaultRoute: 1, mostTries: many")
    # Types come first: what refers to what is checked once each definition can be read.
    assert len(report(tmp_path, text)) == 3
    text = WHOLE.replace("cluster: us}}", "cluster: asia}}").replace(
        "defaultRoute: eu", "defaultRoute: 1, mostTries: many"
    )
    lines = report(tmp_path, text)
    assert len(lines) == 4  # asia is unknown, us is unused, and two fields of the configuration
    assert [int(line.split(":")[0]) for line in lines] == sorted(int(line.split(":")[0]) for line in lines)


def test_a_cycle_is_told_with_its_path(tmp_path: Path) -> None:
    routers = """
  - {name: a, type: UnionRouter, routes: [{name: x, id: 0, target: {router: c}}]}
  - {name: b, type: UnionRouter, routes: [{name: x, id: 0, target: {router: c}}]}
  - {name: c, type: UnionRouter, routes: [{name: x, id: 0, target: {router: b}}, {name: y, id: 1, target: {cluster: us}}]}
"""
    text = WHOLE.replace("routerDefinitions:\n", f"routerDefinitions:{routers}").replace(
        "cluster: us}}\nv", "router: a}}\nv"
    )
    cycles = [line for line in report(tmp_path, text) if "cycle" in line]
    assert len(cycles) == 1
    assert "Routers form a cycle: c -> b -> c. Remove one of these routes." in cycles[0]


def test_a_change_is_seen_where_it_reaches_and_nowhere_else(tmp_path: Path) -> None:
    other = "  - {name: other, gateways: [{prefix: /other}], target: {cluster: us}}\n"
    before = read(tmp_path, WHOLE + other)
    after = read(tmp_path, (WHOLE + other).replace("10.0.0.1:4000", "10.0.0.9:4000"))
    assert before.fingerprint != after.fingerprint
    assert before.reachable("all") != after.reachable("all")
    assert before.reachable("other") == after.reachable("other")


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "7", "a: [", "a: *b", "&a [*a]", "virtualClusters: &a [*a]", "\0", "a: 2026-99-99", "<<: {a: 1}", "{1: 2}",
        "- &x {a: *x}", "{[1]: 2}", "? {a: b}\n: c",
    ],
)  # fmt: skip
def test_what_is_no_configuration_is_a_report_and_no_traceback(tmp_path: Path, text: str) -> None:
    assert report(tmp_path, text)


def test_a_file_that_cannot_be_read_is_a_report(tmp_path: Path) -> None:
    with pytest.raises(Faulty, match="Cannot read the file: No such file"):
        load(tmp_path / "none.yaml", PLUGINS)
    (tmp_path / "latin").write_bytes(b"\xff")
    with pytest.raises(Faulty, match="not UTF-8"):
        load(tmp_path / "latin", PLUGINS)


VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
)


@given(place=st.integers(0, 200), value=VALUES)
def test_any_value_anywhere_is_served_or_reported(
    tmp_path_factory: pytest.TempPathFactory, place: int, value: Any
) -> None:
    """A value of the whole file is replaced by any other."""
    import yaml

    document = yaml.safe_load(WHOLE)
    spots = list(spots_of(document))
    holder, key = spots[place % len(spots)]
    holder[key] = value
    folder = tmp_path_factory.mktemp("any")
    try:
        read(folder, yaml.safe_dump(document))
    except Faulty as error:
        assert error.faults


def test_a_kafka_cluster_needs_its_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "find_spec", lambda package: None)
    (line,) = report(tmp_path, WHOLE.replace(US, "kafka: {bootstrapServers: 'k:9'}"))
    assert line.endswith("the package confluent-kafka is not installed: run `pip install 'topics[kafka]'`.")


def spots_of(value: Any) -> Any:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in list(items):
        yield value, key
        yield from spots_of(inner)


def test_client_certificates_come_in_pairs() -> None:
    with pytest.raises(ValueError, match="add the missing one"):
        Tls(certificate="c.pem")

"""The filter Audit writes a line for each request: also for refused and failed ones, and after each reload."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.running import Running, cluster, route
from tests.gateway.test_static import head_of, raw_upstream
from tests.instances import Instance, free_port, until

Gateways = Callable[..., Running]


def audited(*ports: int, file: Path, **more: Any) -> dict[str, Any]:
    """Audit, then Deny, before a router with a route to each port: topics that begin with `0.`, `1.` and so on."""
    names = [str(number) for number in range(len(ports))]
    table = {"prefixes": {f"{name}.": name for name in names[1:]}, "default": "0"}
    routes = [route(name, int(name), cluster=name) for name in names]
    return {
        "clusterDefinitions": [
            cluster(name, port, timeouts={"answerMs": 500}) for name, port in zip(names, ports, strict=True)
        ],
        "filterDefinitions": [
            {"name": "audit", "type": "Audit", "config": {"file": str(file), "of": "all"}},
            {"name": "deny", "type": "Deny", "config": {"rules": [{"topics": ["secret*"], **more}]}},
        ],
        "routerDefinitions": [{"name": "by-topic", "type": "TopicRouter", "config": table, "routes": routes}],
        "virtualClusters": [
            {
                "name": "all",
                "gateways": [{"host": "127.0.0.1"}],
                "filters": ["audit", "deny"],
                "target": {"router": "by-topic"},
            }
        ],
    }


def lines(file: Path) -> list[tuple[str, int]]:
    return [(line["operation"], line["status"]) for line in map(json.loads, file.read_text().splitlines())]


def test_lines_continue_after_reloads(
    two_servers: tuple[Instance, Instance], gateways: Gateways, tmp_path: Path, name: str
) -> None:
    file = tmp_path / "audit.log"
    gateway = gateways(audited(two_servers[0].port, file=file))
    client = gateway.client()
    for number in range(3):
        client.append(name, number)
        assert len(lines(file)) == number + 1
        before = client.get("/gateway/health").json["configuration"]
        gateway.write(audited(two_servers[0].port, file=file, reason=f"reason {number}"))
        until(lambda old=before: client.get("/gateway/health").json["configuration"] != old, "the reload")
    client.append(name, 3)
    assert len(lines(file)) == 4


def test_refused_and_failed_requests_have_a_line(
    two_servers: tuple[Instance, Instance], gateways: Gateways, tmp_path: Path, name: str
) -> None:
    file = tmp_path / "audit.log"
    gateway = gateways(audited(two_servers[0].port, free_port(), file=file))
    client = gateway.client()
    asked = [
        ("GET", f"/v0/topics/{name}", "get_topic", 404),
        ("PUT", "/v0/topics/secret1", "put_topic", 403),
        ("PUT", "/v0/topics/1.x", "put_topic", 502),
        ("PUT", "/node/7/v0/topics/x", "put_topic", 404),
        ("GET", "/v0/watch/g_x", "follow_watch", 404),
        ("GET", f"/v0/topics%2F{name}", "other", 404),
        ("POST", f"/v0/topics/{name}%2Fdelete", "other", 404),
    ]
    for method, path, _, status in asked:
        assert client.call(method, path).status == status, path
    assert lines(file) == [(operation, status) for _, _, operation, status in asked]


def test_a_request_whose_client_left_has_a_line(gateways: Gateways, tmp_path: Path) -> None:
    file = tmp_path / "audit.log"
    arrived: list[bytes] = []

    def silent(connection: socket.socket) -> None:
        while b"PUT" not in (head := head_of(connection)):
            connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")
        arrived.append(head)
        connection.recv(1)

    with raw_upstream(silent) as port:
        configuration = audited(port, file=file)
        configuration["clusterDefinitions"][0]["timeouts"] = {"answerMs": 60_000}
        gateway = gateways(configuration)
        with gateway.connect() as client:
            client.sendall(b"PUT /v0/topics/x HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
            until(lambda: arrived, "the request to arrive")
        until(lambda: lines(file) == [("put_topic", 499)], "the line")


def test_the_list_of_nodes_passes_the_filters(gateways: Gateways, tmp_path: Path) -> None:
    file = tmp_path / "audit.log"
    configuration = audited(free_port(), file=file)
    keys = (f"ours {sha256(b'secret').hexdigest()}", f"guest {sha256(b'guest').hexdigest()} guest")
    (tmp_path / "keys").write_text("\n".join(keys))
    rule = {"operations": ["list_nodes"], "roles": ["guest"]}
    configuration["filterDefinitions"][1]["config"]["rules"].append(rule)
    configuration["filterDefinitions"].append(
        {"name": "who", "type": "Authenticate", "config": {"keysFile": str(tmp_path / "keys")}}
    )
    configuration["virtualClusters"][0]["filters"] = ["audit", "who", "deny"]
    client = gateways(configuration).client()
    refused = client.get("/v0/nodes")
    assert (refused.status, refused.code) == (401, "unauthorized")
    assert client.get("/v0/%6eodes", authorization="Bearer guest").status == 403
    assert client.get("/v0/nodes", authorization="Bearer secret").json["nodes"][0]["id"] == 0
    assert lines(file) == [("list_nodes", 401), ("list_nodes", 403), ("list_nodes", 200)]


@pytest.mark.parametrize("place", ["route", "virtual cluster"])
def test_a_filter_sees_errors_behind_it_and_its_answer_counts(
    two_servers: tuple[Instance, Instance], gateways: Gateways, place: str
) -> None:
    """Prefix hides its prefix also in the errors of routers and filters behind it."""
    table = {"prefixes": {"tenant.known": "one"}}
    configuration: dict[str, Any] = {
        "clusterDefinitions": [cluster("one", two_servers[0].port)],
        "filterDefinitions": [{"name": "tenant", "type": "Prefix", "config": {"prefix": "tenant."}}],
        "routerDefinitions": [
            {"name": "by-topic", "type": "TopicRouter", "config": table, "routes": [route("one", 0, cluster="one")]},
        ],
        "virtualClusters": [{"name": "all", "gateways": [{"host": "127.0.0.1"}], "target": {"router": "by-topic"}}],
    }
    if place == "route":
        outer = {"name": "outer", "type": "StaticRouter", "routes": [route("in", 0, "tenant", router="by-topic")]}
        configuration["routerDefinitions"].append(outer)
        configuration["virtualClusters"][0]["target"] = {"router": "outer"}
    else:
        configuration["virtualClusters"][0]["filters"] = ["tenant"]
    refused = gateways(configuration).client().get("/v0/topics/elsewhere")
    assert (refused.status, refused.code) == (404, "unknown_route")
    assert b"elsewhere" in refused.body
    assert b"tenant." not in refused.body

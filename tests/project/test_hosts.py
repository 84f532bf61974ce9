"""Only requests to names of ALLOWED_HOSTS are answered, whichever live they knock at."""

import json
import socket
from collections.abc import Callable

import pytest

from tests.instances import Instance
from tests.project.signing_in import Page, ask

DOORS = [
    ("GET", "/admin/login/"),
    ("GET", "/static/admin/css/base.css"),
    ("GET", "/v0/topics"),
    ("GET", "/v0/docs"),
    ("POST", "/v0/topics/hosts"),
    ("POST", "/v0/topics/hosts/diff"),
    ("GET", "/v0/topics/hosts/events"),
    ("GET", "/v0/watch/x"),
]


@pytest.mark.parametrize(("method", "path"), DOORS)
@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:4000", "127.0.0.1.evil.example", "10.1.2.3", "[::2]", "", "@"]
)
def test_a_strange_name_is_refused_at_every_door(server: Instance, method: str, path: str, host: str) -> None:
    refused = ask(server, method, path, Host=host, Content_Type="application/json")
    assert refused.status == 400
    error = json.loads(refused.body)["error"]
    assert error["code"] == "invalid_request"
    assert error["message"] == f"unknown host name {host!r}: add it to ALLOWED_HOSTS"


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1", "127.0.0.1:99", "[::1]", "[::1]:4000"])
def test_the_names_of_this_machine_are_its_own(server: Instance, host: str) -> None:
    assert ask(server, "GET", "/v0/topics", Host=host).status == 200


@pytest.mark.parametrize("path", ["/v0/health", "/v0/ready", "/healthz", "/readyz"])
def test_probes_may_ask_by_any_address(server: Instance, path: str) -> None:
    assert ask(server, "GET", path, Host="10.1.2.3:4000").status == 200


@pytest.mark.parametrize("host", ["10.1.2.3", "10.1.2.3:4000", "[::2]", "[fd00::7]:4000"])
def test_prometheus_may_scrape_by_any_address(server: Instance, host: str) -> None:
    assert ask(server, "GET", "/v0/metrics", Host=host).status == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "10.1.2.3.evil.example", "167838211", "10.1.2", "[::2", "", "@10.1.2.3"]
)
def test_nobody_may_scrape_by_a_strange_name(server: Instance, host: str) -> None:
    assert ask(server, "GET", "/v0/metrics", Host=host).status == 400


def test_a_scrape_by_an_address_needs_a_key_as_any_other(instances: Callable[..., Instance]) -> None:
    instance = instances(TOPICS_API_KEYS="the-secret-of-prometheus:read+admin")
    assert ask(instance, "GET", "/v0/metrics", Host="10.1.2.3").status == 401
    key = {"Authorization": "Bearer the-secret-of-prometheus"}
    assert ask(instance, "GET", "/v0/metrics", Host="10.1.2.3", **key).status == 200


def test_a_request_without_a_host_is_refused(server: Instance) -> None:
    with socket.create_connection(("127.0.0.1", server.port)) as client:
        client.sendall(b"GET /v0/topics HTTP/1.0\r\n\r\n")
        assert b" 400 " in client.recv(64)


def test_names_can_be_given(instances: Callable[..., Instance]) -> None:
    instance = instances(ALLOWED_HOSTS="topics.example,.inside.example")

    def status(host: str) -> int:
        page: Page = ask(instance, "GET", "/v0/topics", Host=host)
        return page.status

    assert [status(host) for host in ("topics.example", "a.inside.example", "127.0.0.1")] == [200, 200, 400]

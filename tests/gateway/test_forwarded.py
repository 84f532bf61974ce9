"""A server gets one address and one scheme of its client from the gateway, and nothing that a client wrote itself."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.running import Running, static
from tests.gateway.test_static import head_of, raw_upstream, read, statuses
from tests.instances import start, until

Gateways = Callable[..., Running]
Noted = list[dict[str, list[str]]]
SPOOFED = (
    b"Forwarded: for=6.6.6.6;proto=https\r\nX-Forwarded-For: 6.6.6.6\r\nx-forwarded-for: 7.7.7.7, 198.51.100.7\r\n"
    b"X-Forwarded-Proto: https\r\nX-Forwarded-Host: evil\r\nx-forwarded-port: 1\r\nX-Real-IP: 6.6.6.6\r\n"
)
PROXY_HEADERS = ("forwarded", "x-forwarded-host", "x-forwarded-port", "x-real-ip")
UPGRADE = b"connection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-key: a\r\nsec-websocket-version: 13\r\n"


@contextmanager
def noting() -> Iterator[tuple[int, Noted, Noted]]:
    """A server that notes the headers of each request, and of each probe of the gateway."""
    noted: Noted = []
    probed: Noted = []

    def talk(connection: socket.socket) -> None:
        while True:
            for head in head_of(connection).decode().split("\r\n\r\n")[:-1]:
                named: dict[str, list[str]] = {}
                for line in head.split("\r\n")[1:]:
                    name, _, value = line.partition(": ")
                    named.setdefault(name.lower(), []).append(value)
                (probed if "/v0/ready" in head else noted).append(named)
                connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")

    with raw_upstream(talk) as port:
        yield port, noted, probed


def parsed(port: int, *filters: dict[str, Any]) -> dict[str, Any]:
    """A virtual cluster whose requests are parsed, because it has a filter."""
    made = static(port)
    deny = {"name": "deny", "type": "Deny", "config": {"rules": [{"topics": ["secret*"]}]}}
    made["filterDefinitions"] = [*filters, deny]
    made["virtualClusters"][0]["filters"] = [each["name"] for each in made["filterDefinitions"]]
    return made


def ask(headers: bytes = b"", path: bytes = b"/v0/topics/x") -> bytes:
    return b"GET %b HTTP/1.1\r\nhost: 127.0.0.1\r\n%b\r\n" % (path, headers)


@pytest.mark.parametrize("made", [static, parsed])
@pytest.mark.parametrize(("behind", "address", "proto"), [("0", "127.0.0.1", "http"), ("1", "198.51.100.7", "https")])
def test_no_header_of_a_client_passes(gateways: Gateways, made: Any, behind: str, address: str, proto: str) -> None:
    with noting() as (port, noted, probed):
        gateway = gateways(made(port), GATEWAY_TLS_PROXY=behind)
        with gateway.connect() as opened:
            opened.sendall(ask(SPOOFED))
            assert statuses(read(opened, 1)) == [200]
        with gateway.connect() as opened:
            opened.sendall(ask())
            assert statuses(read(opened, 1)) == [200]
    spoofed, bare = noted
    assert (spoofed["x-forwarded-for"], spoofed["x-forwarded-proto"]) == ([address], [proto])
    assert (bare["x-forwarded-for"], bare["x-forwarded-proto"]) == (["127.0.0.1"], ["http"])
    assert not {*spoofed, *bare} & {*PROXY_HEADERS}
    assert probed
    assert not any("x-forwarded-for" in each or "x-forwarded-proto" in each for each in probed)


def test_no_header_of_a_client_passes_at_an_upgrade(gateways: Gateways) -> None:
    with noting() as (port, noted, _), gateways(static(port)).connect() as opened:
        opened.sendall(ask(SPOOFED + UPGRADE, b"/v0/ws"))
        read(opened, 1)
    assert noted[0]["x-forwarded-for"] == ["127.0.0.1"]
    assert not {*noted[0]} & {*PROXY_HEADERS}


def test_requests_of_one_connection_have_different_clients(gateways: Gateways, two_servers: Any, name: str) -> None:
    """A proxy sends the requests of many clients on one connection, also pipelined and with bodies."""
    body = b'{"records":[{"data":1}]}'
    with noting() as (port, noted, _), gateways(static(port), GATEWAY_TLS_PROXY="1").connect() as opened:
        opened.sendall(b"".join(ask(b"x-forwarded-for: 10.0.0.%d\r\n" % each) for each in (1, 2, 2, 3)))
        assert statuses(read(opened, 4)) == [200] * 4
    assert [each["x-forwarded-for"] for each in noted] == [["10.0.0.1"], ["10.0.0.2"], ["10.0.0.2"], ["10.0.0.3"]]
    gateway = gateways(static(two_servers[0].port), GATEWAY_TLS_PROXY="1")
    with gateway.connect() as opened:
        for each in (1, 2):
            head = f"POST /v0/topics/{name} HTTP/1.1\r\nhost: 127.0.0.1\r\nx-forwarded-for: 10.0.0.{each}\r\n"
            head += f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
            opened.sendall(2 * (head.encode() + body))
        assert [each // 100 for each in statuses(read(opened, 4))] == [2] * 4
    assert gateway.client().get(f"/v0/topics/{name}").json["count"] == 4


def test_a_repeated_request_has_the_gateways_headers(gateways: Gateways) -> None:
    heads: list[bytes] = []

    def talk(connection: socket.socket) -> None:
        while True:
            head = head_of(connection)
            if b"/v0/ready" not in head:
                heads.append(head)
                if len(heads) == 2:
                    return  # the kept connection ends without an answer
            connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")

    with raw_upstream(talk) as port, gateways(static(port)).connect() as opened:
        for _ in range(2):
            opened.sendall(ask(SPOOFED))
            assert statuses(read(opened, 1)) == [200]
    assert len(heads) == 3
    assert all(b"x-forwarded-for: 127.0.0.1\r\n" in head and b"6.6.6.6" not in head for head in heads)


def test_filters_see_the_client_of_each_request(gateways: Gateways, tmp_path: Path) -> None:
    audit = {"name": "audit", "type": "Audit", "config": {"file": str(tmp_path / "lines"), "of": "all"}}
    limit = {"name": "limit", "type": "RateLimit", "config": {"requestsPerSecond": 0.001, "burst": 1, "by": "address"}}
    with noting() as (port, _, _), gateways(parsed(port, audit, limit), GATEWAY_TLS_PROXY="1").connect() as opened:
        opened.sendall(b"".join(ask(b"x-forwarded-for: 10.0.0.%d\r\n" % each) for each in (1, 2, 1)))
        assert statuses(read(opened, 3)) == [200, 200, 429]
    lines = [json.loads(line) for line in (tmp_path / "lines").read_text().splitlines()]
    assert [line["origin"] for line in lines] == ["10.0.0.1", "10.0.0.2", "10.0.0.1"]


def test_the_audit_log_of_a_server_names_the_client(gateways: Gateways) -> None:
    sent = {"x_forwarded_for": "6.6.6.6, 198.51.100.7", "host": "127.0.0.1"}
    with start(TOPICS_TLS_PROXY="1", ALLOWED_HOSTS="127.0.0.1") as server:
        for name, made, behind in (("parsed", parsed, "0"), ("proxied", parsed, "1"), ("passed", static, "1")):
            gateway = gateways(made(server.port), GATEWAY_TLS_PROXY=behind)
            assert gateway.client().call("PUT", f"/v0/topics/{name}", {}, **sent).status == 201
        with server.connect() as database:
            found = dict(database.execute("SELECT name, origin FROM topics_auditentry").fetchall())
    assert found == {"parsed": "127.0.0.1", "proxied": "198.51.100.7", "passed": "198.51.100.7"}


def test_an_unreadable_setting_refuses_to_start(gateways: Gateways) -> None:
    gateway = gateways(static(1), ready=False, GATEWAY_TLS_PROXY="maybe")
    until(gateway.ended, "the gateway to end")
    assert "Invalid GATEWAY_TLS_PROXY=maybe: expected 1 or 0." in gateway.output


def test_two_gateways_in_a_row_name_the_first_client(gateways: Gateways) -> None:
    with noting() as (port, noted, _):
        inner = gateways(static(port), GATEWAY_TLS_PROXY="1")
        outer = gateways(static(inner.port), GATEWAY_TLS_PROXY="1")
        with outer.connect() as opened:
            opened.sendall(ask(b"x-forwarded-for: 198.51.100.7\r\nx-forwarded-proto: https\r\n"))
            read(opened, 1)
    assert [(each["x-forwarded-for"], each["x-forwarded-proto"]) for each in noted] == [(["198.51.100.7"], ["https"])]

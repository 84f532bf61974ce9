"""Servers that fail: timeouts, what is sent again, breakers, and the kinds of errors in metrics."""

import os
import re
import resource
import socket
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from gateway.proxy.upstreams import FAILURES, FIRST_REST_SECONDS, LONGEST_REST_SECONDS, Breaker
from tests.gateway.running import Client, Running, by_topic, cluster, static
from tests.gateway.test_static import OK, asked, raw_upstream
from tests.instances import Instance, free_port, until

READ = {"prefer": "x"}  # an unusual header: the request is read, and does not pass as bytes


def test_a_breaker_opens_after_failures_and_closes_after_one_success() -> None:
    breaker = Breaker()
    for _ in range(FAILURES):
        assert breaker.allows(0)
        breaker.failed(0)
    assert (breaker.state, breaker.allows(FIRST_REST_SECONDS / 2)) == ("open", False)
    assert breaker.allows(FIRST_REST_SECONDS)
    assert (breaker.state, breaker.allows(FIRST_REST_SECONDS)) == ("half_open", False), "one request tries"
    breaker.failed(FIRST_REST_SECONDS)
    assert (breaker.state, breaker.allows(2 * FIRST_REST_SECONDS)) == ("open", False), "each rest is longer"
    now = 0.0
    for _ in range(20):
        now += LONGEST_REST_SECONDS
        assert breaker.allows(now)
        breaker.failed(now)
    assert breaker.rest == LONGEST_REST_SECONDS
    assert breaker.allows(now + LONGEST_REST_SECONDS)
    breaker.succeeded()
    assert (breaker.state, breaker.failures, breaker.rest) == ("closed", 0, FIRST_REST_SECONDS)


def failing_once(heads: list[bytes]) -> Callable[[socket.socket], None]:
    """Ends the connection of the first request without an answer, and answers all others."""

    def talk(connection: socket.socket) -> None:
        while True:
            heads.append(asked(connection))
            if len(heads) == 1:
                return
            connection.sendall(OK)

    return talk


def keys(heads: list[bytes]) -> list[bytes]:
    return [found for head in heads for found in re.findall(rb"idempotency-key: ([^\r]+)", head)]


@pytest.mark.parametrize(
    ("method", "path", "headers", "tries"),
    [
        ("GET", "/v0/topics/x", {}, 2),
        ("POST", "/v0/topics/x/diff", {}, 2),
        ("POST", "/v0/topics/x", {}, 2),
        ("POST", "/v0/topics/x", {"idempotency_key": "mine"}, 2),
        ("PUT", "/v0/topics/x", {}, 1),
        ("POST", "/v0/topics/x/delete", {}, 1),
    ],
)
def test_only_what_is_safe_is_sent_again(gateways, method: str, path: str, headers: dict[str, str], tries: int) -> None:
    heads: list[bytes] = []
    with raw_upstream(failing_once(heads)) as port:
        client = gateways(by_topic(free_port(), port)).client()
        answer = client.call(method, path, **headers)
    assert len(heads) == tries
    if tries == 1:
        assert (answer.status, answer.code) == (502, "node_unreachable")
        assert answer.json["error"]["detail"]["maybe_written"] is True
    else:
        assert answer.status == 200
    if path == "/v0/topics/x" and method == "POST":
        first, second = keys(heads)
        assert first == second
        assert first == b"mine" if headers else first.startswith(b"gateway-")


def counted(gateway: Running, kind: str) -> float | None:
    return gateway.client().metric("topics_gateway_failures_total", kind=kind)


def test_each_kind_of_failure_is_counted_and_a_breaker_shows_its_state(gateways) -> None:
    def silent(connection: socket.socket) -> None:
        while True:
            asked(connection)

    away = free_port()
    with raw_upstream(silent) as port:
        configuration = by_topic(away, port)
        configuration["clusterDefinitions"][1]["timeouts"] = {"answerMs": 300}
        gateway = gateways(configuration)
        client = gateway.client()
        assert client.get("/v0/topics/us.x").code == "timeout"
        assert client.get("/v0/topics/eu.x").code == "node_unreachable"
        assert client.get("/node/7/v0/health").code == "unknown_route"
        assert gateway.client(host="elsewhere").get("/v0/health").code == "unknown_route"
        found = {kind: counted(gateway, kind) for kind in ("timeout", "node_unreachable", "unknown_route")}
        assert found == {"timeout": 1, "node_unreachable": 1, "unknown_route": 2}

        def breaker() -> float | None:
            return gateway.client().metric("topics_gateway_breaker", cluster="eu", node="0")

        until(lambda: breaker() == 2, "the breaker to open")

        def talk(connection: socket.socket) -> None:
            while True:
                asked(connection)
                connection.sendall(OK)

        with raw_upstream(talk, away):
            until(lambda: breaker() == 0, "the breaker to close")
            assert client.get("/v0/topics/eu.x").status == 200


@pytest.mark.parametrize("path", ["/v0/topics/x", "/node/0/v0/topics/x"], ids=["passed through", "parsed"])
def test_an_address_is_in_the_log_and_in_no_answer(gateways, path: str) -> None:
    port = free_port()
    definition = cluster("one", port)
    site = {"name": "all", "gateways": [{"host": "127.0.0.1"}], "target": {"cluster": "one"}}
    gateway = gateways({"clusterDefinitions": [definition], "virtualClusters": [site]})

    def refused() -> bool:
        answer = gateway.client().get(path)
        assert (answer.status, answer.code) == (502, "node_unreachable")
        assert str(port).encode() not in answer.body
        return b"node 0: no connection" in answer.body

    until(refused, "a try, which the breaker allows from time to time")
    until(lambda: f"127.0.0.1:{port}" in gateway.output, "the address in the log")


def test_a_node_that_takes_no_connection_in_time_is_unreachable(gateways) -> None:
    # A listener whose queue is full takes no further connection and refuses none.
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener:
        port = listener.getsockname()[1]
        waiting = []
        for _ in range(4):
            each = socket.socket()
            each.setblocking(False)
            each.connect_ex(("127.0.0.1", port))
            waiting.append(each)
        gateway = gateways(static(port, timeouts={"connectMs": 200}), ready=False)
        until(lambda: gateway.health() == "degraded", "the probes to fail")
        for headers in ({}, READ):
            refused = gateway.client().get("/v0/health", **headers)
            assert (refused.status, refused.code) == (502, "node_unreachable")
        for each in waiting:
            each.close()


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="only Linux can limit another process")
def test_without_a_free_descriptor_the_gateways_own_pages_answer(
    two_servers: tuple[Instance, Instance], gateways: Callable[..., Running], name: str
) -> None:
    """Other clients get a refusal, no node is blamed, and the log gets one line a minute."""
    gateway = gateways(static(two_servers[0].port))
    assert gateway.process is not None
    pid = gateway.process.pid
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    with ExitStack() as kept:
        one = gateway.client()
        assert one.append(name, 1).status == 201

        def is_full() -> bool:
            """Sets the limit to the descriptors that are open. Those of the reserve are among them."""
            refused = Client(gateway.port)
            kept.callback(refused.close)
            answer = refused.get(f"/v0/topics/{name}")
            if answer.status == 503:
                assert (answer.code, answer.headers["connection"]) == ("not_ready", "close")
                return True
            used = {int(each) for each in os.listdir(f"/proc/{pid}/fd")}
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (min(set(range(len(used) + 1)) - used), before[1]))
            return False

        until(is_full, "no free descriptor")
        for _ in range(20):
            until(lambda: gateway.health() == "ready", "the answer of its own page")
        assert one.get("/gateway/health").json["status"] == "ready"
    resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
    until(lambda: gateway.client().get(f"/v0/topics/{name}").status == 200, "the gateway to take connections again")
    assert gateway.output.count("Raise the limit of open files") == 1


def served(gateway: Running) -> str:
    return str(gateway.client().get("/gateway/health").json["configuration"])


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="only Linux can limit another process")
def test_a_changed_configuration_counts_also_if_it_could_not_be_read_at_first(
    two_servers: tuple[Instance, Instance], gateways: Callable[..., Running]
) -> None:
    """No descriptor is free meanwhile, so the file can be looked at, but not opened."""
    gateway = gateways(static(two_servers[0].port))
    assert gateway.process is not None
    pid, first = gateway.process.pid, served(gateway)
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (0, before[1]))
    gateway.write(static(two_servers[0].port, timeouts={"answerMs": 9_000}))
    told = "Cannot read the file: Too many open files."
    until(lambda: told in gateway.output, "the look at the file")
    resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
    until(lambda: served(gateway) != first, "the change")
    assert gateway.output.count(told) == 1


def test_a_changed_configuration_counts_as_soon_as_a_file_is_there_that_it_names(
    two_servers: tuple[Instance, Instance], gateways: Callable[..., Running], tmp_path: Path
) -> None:
    gateway = gateways(static(two_servers[0].port))
    first, key = served(gateway), tmp_path / "key"
    changed = static(two_servers[0].port)
    changed["filterDefinitions"] = [{"name": "key", "type": "ApiKey", "config": {"keyFile": str(key)}}]
    changed["routerDefinitions"][0]["routes"][0]["filters"] = ["key"]
    gateway.write(changed)
    told = f"{key} cannot be read"
    until(lambda: told in gateway.output, "the fault")
    key.write_text("a-key")
    until(lambda: served(gateway) != first, "the change")
    assert gateway.output.count(told) == 1

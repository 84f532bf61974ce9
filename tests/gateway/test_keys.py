"""The idempotency key that the gateway gives to an append that has none, and a cluster that wants none (`addKeys: false`)."""

import resource
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from http1 import Response
from tests.gateway.running import by_topic, cluster
from tests.http1.served import Served
from tests.instances import until


def configuration(eu: int, *others: int, **more: bool) -> dict:
    made = by_topic(eu, eu)
    made["clusterDefinitions"] = [cluster("eu", eu, *others, **more)]
    router = made["routerDefinitions"][0]
    router["routes"], router["config"] = router["routes"][:1], {"default": "eu"}
    return made


@contextmanager
def broken_server() -> Iterator[tuple[int, list[bytes]]]:
    """A server that is ready, and ends the connection of each append. Yields its port and the heads of the appends."""
    appends: list[bytes] = []

    def serve(opened: socket.socket) -> None:
        with opened:
            while head := opened.recv(65536):
                if head.startswith(b"POST"):
                    appends.append(head)
                    return
                opened.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")

    def accept() -> None:
        while True:
            try:
                opened, _ = listening.accept()
            except OSError:
                return
            threading.Thread(target=serve, args=(opened,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=accept, daemon=True).start()
        yield listening.getsockname()[1], appends
        listening.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("adds_keys", [True, False])
def test_a_server_gets_a_key_of_the_gateway_unless_its_cluster_wants_none(
    two_servers, gateways, name: str, adds_keys: bool
) -> None:
    client = gateways(configuration(two_servers[0].port, addKeys=adds_keys)).client()
    for number in range(2):
        assert client.append(name, number).status in (200, 201)
    query = "SELECT count(*) FROM topics_idempotencykey k JOIN topics_topic t ON t.id = k.topic_id WHERE name = %s"
    with two_servers[0].connect() as database:
        assert database.execute(query, [name]).fetchone() == (2 if adds_keys else 0,)
    assert client.get(f"/v0/topics/{name}").json["count"] == 2  # each append has a key of its own
    # A client's own key counts either way.
    own = [client.append(name, "x", idempotency_key="mine").json["last_seq"] for _ in range(2)]
    assert own == [3, 3]


@pytest.mark.parametrize(
    ("adds_keys", "own_key", "again"), [(True, False, True), (False, True, True), (False, False, False)]
)
def test_only_an_append_under_a_key_is_sent_again(gateways, adds_keys: bool, own_key: bool, again: bool) -> None:
    with ExitStack() as stack:
        (first, here), (second, there) = (stack.enter_context(broken_server()) for _ in range(2))
        client = gateways(configuration(first, second, addKeys=adds_keys)).client()
        headers = {"idempotency_key": "mine"} if own_key else {}
        refused = client.post("/v0/topics/x", {"records": [{"data": 1}]}, **headers)
        assert (refused.status, refused.code) == (502, "node_unreachable")
        assert refused.json["error"]["detail"]["maybe_written"] is True
        appends = here + there
        assert len(appends) > 1 if again else len(appends) == 1
        assert all((b"idempotency-key: gateway-" in each) == adds_keys for each in appends)


def upstream_with_key(key: Path) -> tuple[Served, dict[str, Any]]:
    """Returns a server that answers with the key that it got, and the configuration of a gateway with this file of its key."""
    upstream = Served(lambda request: Response(200, [], request.header(b"authorization") or b""))
    key.write_text("first")
    made = configuration(upstream.listen())
    made["filterDefinitions"] = [{"name": "key", "type": "ApiKey", "config": {"keyFile": str(key)}}]
    made["routerDefinitions"][0]["routes"][0]["filters"] = ["key"]
    return upstream, made


@pytest.mark.parametrize("by", ["itself", "SIGHUP"])
def test_an_upstreams_key_is_replaced_while_the_gateway_runs(gateways, tmp_path: Path, by: str) -> None:
    key = tmp_path / "key"
    upstream, made = upstream_with_key(key)
    try:
        gateway = gateways(made)
        client = gateway.client()
        assert client.get("/v0/topics/x").body == b"Bearer first"
        key.write_text("second")
        if by == "SIGHUP":
            gateway.signal(signal.SIGHUP)
        until(lambda: client.get("/v0/topics/x").body == b"Bearer second", "the new key")
        key.write_text("")
        until(lambda: "keeps its last version" in gateway.output or not client.get("/v0/topics/x").body, "the warning")
        assert client.get("/v0/topics/x").body == b"Bearer second"
    finally:
        upstream.stop()


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="only Linux can limit another process")
def test_a_changed_key_counts_also_if_its_file_could_not_be_read_at_first(gateways, tmp_path: Path) -> None:
    """No descriptor is free meanwhile, so the file can be looked at, but not opened."""
    key = tmp_path / "key"
    upstream, made = upstream_with_key(key)
    try:
        gateway = gateways(made)
        client, pid = gateway.client(), gateway.process.pid
        assert client.get("/v0/topics/x").body == b"Bearer first"
        before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (0, before[1]))
        key.write_text("second")
        told = f"{key}: invalid. The gateway keeps its last version: [Errno 24]"
        until(lambda: client.get("/v0/topics/x").body and told in gateway.output, "the look at the file")
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
        until(lambda: client.get("/v0/topics/x").body == b"Bearer second", "the new key")
        assert gateway.output.count(told) == 1
    finally:
        upstream.stop()


def test_the_gateways_own_key_is_replaced_while_it_runs(two_servers, gateways, tmp_path: Path, name: str) -> None:
    """A cursor that another gateway signed with the new key is valid on a connection from before the change."""
    key = tmp_path / "key"
    key.write_text("a" * 32)
    made = by_topic(two_servers[1].port, two_servers[0].port)
    gateway = gateways(made, GATEWAY_KEY_FILE=str(key))
    client = gateway.client()
    client.append(name, 1)
    key.write_text("b" * 32 + " " + "a" * 32)
    other = gateways(made, GATEWAY_KEY="b" * 32).client()
    url = other.post("/v0/watch", {"topics": {name: {}}}).json["stream_url"]
    until(lambda: client.call("HEAD", url).status != 404, "the new key")

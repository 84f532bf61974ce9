"""TLS to one server and none to the other; TLS from clients."""

import asyncio
import http.client
import signal
import socket
import ssl
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trustme

from gateway.watched_file import WatchedFiles
from http1 import Request, Response
from tests.deadlines import DEADLINE
from tests.gateway.running import Running, cluster, route
from tests.http1.served import Served
from tests.instances import until


def answer(request: Request) -> Response:
    return Response(200, [(b"content-type", b"application/json")], b'{"of":"tls"}')


@pytest.fixture
def authority(tmp_path: Path) -> trustme.CA:
    found = trustme.CA()
    found.cert_pem.write_to_path(tmp_path / "ca.pem")
    own = found.issue_cert("localhost")
    own.private_key_and_cert_chain_pem.write_to_path(tmp_path / "own.pem")
    return found


@pytest.fixture
def configuration(authority, two_servers, tmp_path: Path):
    """By topic: `tls.` to a server that speaks TLS and wants a certificate, all others to a plain one."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    authority.configure_trust(context)
    context.verify_mode = ssl.CERT_REQUIRED
    secured = Served(answer)
    port = secured.listen(tls=context)
    tls = {
        name: str(tmp_path / file) for name, file in (("ca", "ca.pem"), ("certificate", "own.pem"), ("key", "own.pem"))
    }
    node = {"id": 0, "url": f"https://localhost:{port}"}
    routes = [route("secured", 0, cluster="secured"), route("plain", 1, cluster="plain")]
    table = {"prefixes": {"tls.": "secured"}, "default": "plain"}
    yield {
        "clusterDefinitions": [{"name": "secured", "nodes": [node], "tls": tls}, cluster("plain", two_servers[0].port)],
        "routerDefinitions": [{"name": "by-topic", "type": "TopicRouter", "config": table, "routes": routes}],
        "virtualClusters": [
            {
                "name": "all",
                "gateways": [{"host": "127.0.0.1"}, {"host": "localhost"}],
                "target": {"router": "by-topic"},
            }
        ],
    }
    secured.stop()


def test_upstreams_with_tls_and_without_are_mixed(gateways, configuration, name: str) -> None:
    client = gateways(configuration).client()
    assert client.get("/v0/topics/tls.x").json == {"of": "tls"}
    assert client.append(name, 1).status == 201


def test_an_upstream_that_another_authority_signed_is_not_trusted(gateways, configuration, tmp_path: Path) -> None:
    trustme.CA().cert_pem.write_to_path(tmp_path / "other.pem")
    configuration["clusterDefinitions"][0]["tls"]["ca"] = str(tmp_path / "other.pem")
    refused = gateways(configuration).client().get("/v0/topics/tls.x")
    assert (refused.status, refused.code) == (502, "node_unreachable")


@pytest.fixture
def secured(authority, gateways, tmp_path: Path) -> Callable[..., Running]:
    """`secured(configuration, *options)` starts a gateway that speaks TLS with clients, by the certificate in own.pem."""

    def begin(configuration: dict[str, Any], *options: str) -> Running:
        own = str(tmp_path / "own.pem")
        running = gateways(configuration, "--tls-certificate", own, "--tls-key", own, *options, ready=False)
        until(lambda: "Serving configuration" in running.output, "the gateway")
        return running

    return begin


def test_clients_may_speak_tls(authority, configuration, secured, name: str) -> None:
    running = secured(configuration)
    context = ssl.create_default_context()
    authority.configure_trust(context)
    connection = http.client.HTTPSConnection("localhost", running.port, context=context, timeout=DEADLINE)
    connection.request("PUT", f"/v0/topics/{name}")
    assert connection.getresponse().status == 201
    connection.close()


def shown(port: int, authority: trustme.CA, *, name: str | None) -> bytes | None:
    """The certificate that the gateway shows to a new connection."""
    context = ssl.create_default_context()
    authority.configure_trust(context)
    context.check_hostname = False
    with (
        socket.create_connection(("127.0.0.1", port), timeout=DEADLINE) as plain,
        context.wrap_socket(plain, server_hostname=name) as secured,
    ):
        return secured.getpeercert(binary_form=True)


@pytest.mark.parametrize("by", ["itself", "SIGHUP"])
def test_the_gateways_certificate_is_replaced_while_it_runs(
    authority, configuration, secured, tmp_path: Path, by: str
) -> None:
    own = tmp_path / "own.pem"
    running = secured(configuration)
    first = shown(running.port, authority, name="localhost")
    authority.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(own)
    if by == "SIGHUP":
        running.signal(signal.SIGHUP)
    until(lambda: shown(running.port, authority, name="localhost") != first, "the new certificate")
    assert shown(running.port, authority, name=None) != first, "also without a name"
    own.write_text("half of a file")
    until(lambda: "keeps its last version" in running.output or not shown(running.port, authority, name=None), "it")
    assert shown(running.port, authority, name="localhost") != first


def asked(
    port: int, context: ssl.SSLContext, before: ssl.SSLSession | None = None
) -> tuple[int, ssl.SSLSession | None]:
    """The status of an answer on a new connection, and the session for the next one. Raises OSError without an answer."""
    with (
        socket.create_connection(("127.0.0.1", port), timeout=DEADLINE) as plain,
        context.wrap_socket(plain, server_hostname="localhost", session=before) as secured,
    ):
        secured.sendall(b"GET /v0/topics/x HTTP/1.1\r\nhost: localhost\r\n\r\n")
        head = secured.recv(4096)
        if not head:
            raise ConnectionResetError
        return int(head[9:12]), secured.session


def is_refused(port: int, context: ssl.SSLContext, before: ssl.SSLSession | None = None) -> bool:
    try:
        asked(port, context, before)
    except OSError:
        return True
    return False


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_an_authority_of_clients_that_is_replaced_counts_no_more(authority, secured, tmp_path: Path, version) -> None:
    """Neither for a handshake nor for a connection that continues the session of an earlier one."""
    clients = trustme.CA()
    clients.cert_pem.write_to_path(tmp_path / "clients.pem")
    server = Served(answer)
    configuration = {
        "clusterDefinitions": [cluster("one", server.port)],
        "filterDefinitions": [{"name": "who", "type": "Authenticate", "config": {"clientCertificates": True}}],
        "virtualClusters": [
            {
                "name": "certificate",
                "gateways": [{"host": "localhost"}],
                "filters": ["who"],
                "target": {"cluster": "one"},
            }
        ],
    }
    stranger, known = ssl.create_default_context(), ssl.create_default_context()
    for context in (stranger, known):
        authority.configure_trust(context)
        context.minimum_version = context.maximum_version = version
    clients.issue_cert("orders@example.org", common_name="orders").configure_cert(known)
    try:
        running = secured(configuration, "--tls-client-ca", str(tmp_path / "clients.pem"))
        assert asked(running.port, stranger)[0] == 401
        status, session = asked(running.port, known)
        assert (status, asked(running.port, known, session)[0]) == (200, 200)
        trustme.CA().cert_pem.write_to_path(tmp_path / "clients.pem")
        running.signal(signal.SIGHUP)
        until(lambda: is_refused(running.port, known), "the new authority")
        assert is_refused(running.port, known, session)
        assert asked(running.port, stranger)[0] == 401
    finally:
        server.stop()


@pytest.mark.parametrize("is_busy", [False, True])
def test_a_clusters_certificate_is_replaced_while_the_gateway_runs(
    authority, gateways, tmp_path: Path, is_busy: bool
) -> None:
    """The server gives each client the serial number of its certificate. A busy connection has a request during the change."""
    may_answer = threading.Event()

    async def answer(request: Request) -> Response:
        while request.target.endswith(b"/slow") and not may_answer.is_set():
            await asyncio.sleep(0.01)
        return Response(200, [], str(request.state["certificate"]["serialNumber"]).encode())

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    authority.configure_trust(context)
    context.verify_mode = ssl.CERT_REQUIRED
    secured = Served(answer)
    port = secured.listen(tls=context)
    tls = {"ca": str(tmp_path / "ca.pem"), "certificate": str(tmp_path / "own.pem"), "key": str(tmp_path / "own.pem")}
    configuration = {
        "clusterDefinitions": [{"name": "one", "nodes": [{"id": 0, "url": f"https://localhost:{port}"}], "tls": tls}],
        "virtualClusters": [{"name": "all", "gateways": [{"host": "127.0.0.1"}], "target": {"cluster": "one"}}],
    }
    try:
        running = gateways(configuration)
        client = running.client()
        first = client.get("/v0/topics/x").body
        assert client.get("/v0/topics/x").body == first
        slow = threading.Thread(target=lambda: client.get("/v0/topics/slow"))
        if is_busy:
            slow.start()
        authority.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(tmp_path / "own.pem")
        if is_busy:
            until(lambda: "again" in running.output, "the file to be read")
            may_answer.set()
            slow.join()
        until(lambda: client.get("/v0/topics/x").body != first, "the new certificate")
    finally:
        secured.stop()


def test_a_cluster_with_tls_and_no_files_logs_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    watched = WatchedFiles([], lambda: "context")
    WatchedFiles.look_now()
    assert watched.value == "context"
    assert not caplog.records

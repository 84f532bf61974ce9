"""Files of a Kafka cluster that change while the gateway runs: a password and certificates (docs/gateway.md)."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
import trustme

from tests.gateway.running import Client, Running
from tests.gateway.streams import Stream
from tests.instances import until
from tests.kafka.broker import PASSWORD, USER, Broker
from tests.kafka.conftest import cluster_of, stored

pytestmark = pytest.mark.kafka

Started = Callable[[int, dict[str, str]], Running]


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Started]:
    """`started(port, security)` is a gateway over a port of the broker. It ends with the test."""
    with ExitStack() as stack:

        def start(port: int, security: dict[str, str]) -> Running:
            configuration = cluster_of(f"127.0.0.1:{port}", "127.0.0.1", timeouts={"answerMs": 2000})
            configuration["clusterDefinitions"][0]["kafka"]["security"] = security
            folder = tmp_path / "gateway"
            folder.mkdir(exist_ok=True)
            running = Running(folder, configuration)
            stack.callback(running.kill)
            running.start(ready=False)
            until(lambda: running.health() != "away" or running.ended(), "the gateway")
            assert not running.ended(), running.output
            return running

        yield start


@pytest.fixture
def password(tmp_path: Path) -> Path:
    return tmp_path / "password"


@pytest.fixture
def login(broker: Broker, started: Started, password: Path) -> Callable[[str], Running]:
    """`login(password)` is a gateway that has this password in its file."""

    def start(held: str) -> Running:
        password.write_text(held)
        security = {"protocol": "sasl_plaintext", "mechanism": "PLAIN", "username": USER, "passwordFile": str(password)}
        return started(broker.login, security)

    return start


def clients_of(running: Running) -> int:
    """The number of clients of librdkafka in a process: each has one thread of this name."""
    assert running.process is not None
    names = [each.read_text().strip() for each in Path(f"/proc/{running.process.pid}/task").glob("*/comm")]
    return names.count("rdk:main")


@pytest.mark.parametrize("by", ["itself", "SIGHUP"])
def test_a_changed_password_counts_without_a_restart(
    login: Callable[[str], Running], password: Path, name: str, by: str
) -> None:
    running = login("wrong")
    client = running.client()

    def change(held: str) -> None:
        password.write_text(held)
        if by == "SIGHUP":
            running.signal(signal.SIGHUP)

    refused = client.append(name, 1)
    assert (refused.status, refused.code) == (503, "not_ready")
    change(PASSWORD)
    assert until(lambda: (answer := client.append(name, 1)).status < 300 and answer, "an append").status == 201
    assert client.append(name, 2, idempotency_key="k").status == 200
    assert stored(client, name)[0] == 1
    change("wrong")
    until(lambda: client.append(name, 3).status == 503, "a refusal")
    assert client.append(name, 3, idempotency_key="l").status == 503
    assert client.post(f"/v0/topics/{name}/diff", {}).status == 503
    change(PASSWORD)
    until(lambda: client.post(f"/v0/topics/{name}/diff", {}).status == 200, "a read")
    again = client.append(name, 2, idempotency_key="k")
    assert (again.status, again.json["deduped"]) == (200, True)
    assert "Traceback" not in running.output


def test_what_is_acknowledged_stays_and_streams_continue_over_changes(
    login: Callable[[str], Running], password: Path, name: str
) -> None:
    running = login(PASSWORD)
    client = running.client()
    assert client.append(name, -1).status == 201
    stream = Stream(running, client.post("/v0/watch", {"topics": {name: {}}}).json["stream_url"])
    acknowledged, statuses, ended = [-1], [200], threading.Event()

    def append() -> None:
        with closing(Client(running.port)) as own:
            number = 0
            while not ended.is_set():
                statuses.append(own.append(name, number).status)
                acknowledged.extend([number] if statuses[-1] < 300 else [])
                number += 1

    thread = threading.Thread(target=append)
    thread.start()
    try:
        for held, is_right in ((f"{PASSWORD}\n\n", True), ("wrong", False), (PASSWORD, True)):
            password.write_text(held)
            until(lambda wanted=is_right: (statuses[-1] < 300) is wanted, f"appends with {held!r}")
    finally:
        ended.set()
        thread.join()
    found = stored(client, name)
    assert found == sorted(set(found))
    assert set(acknowledged) <= set(found)
    assert stream.records(len(found)) == {name: found}
    stream.close()
    assert "Traceback" not in running.output


def test_the_clients_of_an_earlier_password_close(login: Callable[[str], Running], password: Path, name: str) -> None:
    running = login(PASSWORD)
    client = running.client()
    assert client.append(name, 1).status == 201

    def use() -> Any:
        client.append(name, 2, idempotency_key="k")
        client.append(name, 3)
        return stored(client, name)

    url = client.post("/v0/watch", {"topics": {name: {}}}).json["stream_url"]
    with closing(Stream(running, url)) as stream:
        stream.event("caught-up")
        use()
        most = clients_of(running)
        for _ in range(2):
            password.write_text("wrong")
            until(lambda: client.append(name, 9).status == 503, "a refusal")
            password.write_text(PASSWORD)
            until(lambda: client.append(name, 3).status == 200, "an append")
            use()
        until(lambda: clients_of(running) <= most, f"{most} clients")
    assert "Traceback" not in running.output
    assert running.stop() == 0


def test_an_empty_password_is_a_fault(tmp_path: Path, password: Path) -> None:
    password.write_text("\n")
    configuration = cluster_of("127.0.0.1:1", "127.0.0.1")
    security = {"protocol": "sasl_plaintext", "mechanism": "PLAIN", "username": USER, "passwordFile": "password"}
    configuration["clusterDefinitions"][0]["kafka"]["security"] = security
    running = Running(tmp_path, configuration).start(ready=False)
    until(running.ended, "the refusal")
    assert f"cluster 'big': kafka: invalid files: {password} is empty" in running.output


def test_changed_certificates_count_without_a_restart(
    broker: Broker, started: Started, tmp_path: Path, name: str
) -> None:
    ca, own = tmp_path / "ca.pem", tmp_path / "own.pem"

    def write(authority: trustme.CA) -> None:
        authority.issue_cert("gateway.example").private_key_and_cert_chain_pem.write_to_path(own)
        authority.cert_pem.write_to_path(ca)

    write(trustme.CA())
    running = started(broker.tls, {"protocol": "ssl", "ca": str(ca), "certificate": str(own), "key": str(own)})
    client = running.client()
    assert client.append(name, 1).status == 503
    write(broker.authority)
    until(lambda: client.append(name, 1).status == 201, "an append")
    own.write_text("half of a file")
    until(lambda: "keeps its last version" in running.output, "a warning")
    for number in range(10):  # of these topics, each lane has some, so new clients have the earlier files, too
        assert client.append(f"{name}.{number}", 1).status == 201
    own.unlink()
    assert client.append(name, 2).status == 200
    write(trustme.CA())
    until(lambda: client.append(name, 3).status == 503, "a refusal")

"""Several processes of one gateway: one sum of their counters, and the configuration that each of them serves."""

import json
import os
import signal
import socket
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest

from tests.gateway.running import Client, Running, static
from tests.http1.served import rest
from tests.instances import until


@pytest.fixture
def gateway(two_servers, gateways) -> Running:
    running: Running = gateways(static(two_servers[0].port), "--processes", "3")
    until(lambda: statuses(running) == ["ready"] * 3, "all processes to be ready")
    return running


def page(gateway: Running, path: str) -> str:
    """A page of the gateway's own. A process that is killed while it is asked is asked again."""
    while True:
        try:
            with gateway.connect() as opened:
                opened.sendall(f"GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n".encode())
                got = rest(opened).decode()
        except OSError:
            continue
        if got:
            return got.partition("\r\n\r\n")[2]


def processes(gateway: Running) -> list[dict[str, Any]]:
    return list(json.loads(page(gateway, "/gateway/health"))["processes"])


def statuses(gateway: Running) -> list[str]:
    return [each["status"] for each in processes(gateway)]


def metrics(gateway: Running) -> dict[str, float]:
    """The value of each line. The pages themselves are not counted."""
    lines = page(gateway, "/gateway/metrics").splitlines()
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines if line[0] != "#"}


def answered(gateway: Running) -> float:
    found = metrics(gateway)
    return sum(value for name, value in found.items() if name.startswith("topics_gateway_requests_total"))


def ask(gateway: Running, number: int) -> None:
    """Requests on a connection each, so that every process has some."""
    for _ in range(number):
        client = Client(gateway.port)
        assert client.get("/v0/health").status == 200
        client.close()


def test_metrics_are_the_sum_over_processes_and_survive_one_that_is_killed(gateway) -> None:
    ask(gateway, 30)
    until(lambda: answered(gateway) == 30, "each process to tell its counters")
    for victim in processes(gateway):
        os.kill(victim["pid"], signal.SIGKILL)
        shown = answered(gateway)
        assert shown == 30

    def is_whole() -> bool:
        assert answered(gateway) >= 30
        return statuses(gateway) == ["ready"] * 3

    until(is_whole, "other processes to be ready")
    ask(gateway, 5)
    until(lambda: answered(gateway) == 35, "the new processes to count on")


def test_requests_in_flight_are_summed(two_servers, gateway, name: str) -> None:
    client, in_flight = Client(two_servers[0].port), 'topics_gateway_in_flight{virtual_cluster="all"}'
    client.append(name, 1)
    with ExitStack() as opened:
        for _ in range(5):
            poll = opened.enter_context(gateway.connect())
            body = '{"from_seq":1,"wait_ms":30000}'
            head = f"POST /v0/topics/{name}/diff HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
            poll.sendall(f"{head}content-length: {len(body)}\r\n\r\n{body}".encode())
        until(lambda: metrics(gateway)[in_flight] == 5, "the long polls of every process")
        client.append(name, 2)
        until(lambda: metrics(gateway)[in_flight] == 0, "their ends")
    client.close()


def test_health_has_the_configuration_of_each_process(two_servers, gateway) -> None:
    before = {each["configuration"] for each in processes(gateway)}
    assert len(before) == 1
    assert len({each["pid"] for each in processes(gateway)}) == 3
    gateway.write(static(two_servers[0].port, timeouts={"answerMs": 9_000}))

    def have_changed() -> bool:
        found = [each["configuration"] for each in processes(gateway)]
        return len(found) == 3 and len(set(found)) == 1 and set(found) != before

    until(have_changed, "every process to serve the change")


def test_a_gateway_of_one_process_lists_itself(two_servers, gateways) -> None:
    gateway = gateways(static(two_servers[0].port))
    assert gateway.process is not None
    (found,) = processes(gateway)
    assert found["configuration"] == gateway.client().get("/gateway/health").json["configuration"]
    assert (found["pid"], found["status"]) == (gateway.process.pid, "ready")


@pytest.mark.parametrize("processes", ["1", "2"])
def test_a_port_that_is_in_use_is_one_line(gateways: Callable[..., Running], processes: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        gateway = gateways(static(1), "--processes", processes, ready=False, PORT=str(port))
        until(gateway.ended, "the gateway to end")
        told = [line for line in gateway.output.splitlines() if "GATEWAY_KEY" not in line]
        assert told == [f"topics: cannot listen on 127.0.0.1, port {port} (Address already in use): set HOST and PORT."]

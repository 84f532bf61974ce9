"""FailoverRouter: a command or the death of the live server makes the spare live, and two servers are never live at once."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

from tests.docs.printed import commands
from tests.gateway.running import Client, Running, cluster, route
from tests.gateway.streams import Stream
from tests.instances import ROOT, Instance, free_port, start, until

LEASE_MS = 1000


def failover(first: int, second: int, witness_port: int, **config: Any) -> dict[str, Any]:
    wanted = {"live": "first", "spare": "second", "witness": "witness", "decisionTopic": "live", "leaseMs": LEASE_MS}
    return {
        "clusterDefinitions": [cluster("first", first), cluster("second", second), cluster("witness", witness_port)],
        "routerDefinitions": [
            {
                "name": "dr",
                "type": "FailoverRouter",
                "config": {**wanted, **config},
                "routes": [
                    route(name, number, cluster=name) for number, name in enumerate(("first", "second", "witness"))
                ],
            }
        ],
        "virtualClusters": [{"name": "all", "gateways": [{"host": "127.0.0.1"}], "target": {"router": "dr"}}],
    }


@pytest.fixture
def witness() -> Iterator[Instance]:
    with start() as server:
        yield server


def decide(witness: Instance, live: str) -> None:
    """As docs/gateway.md has it."""
    printed = next(command for command in commands("docs/gateway.md") if "topics append live" in command)
    line = printed.replace("second", live).replace("https://witness.internal", witness.url)
    line = line.replace("topics append", f"{sys.executable} -m topics_project append")
    subprocess.run(["sh", "-c", line], check=True, capture_output=True, cwd=ROOT)


def acked(gateway: Running, name: str) -> bool:
    return gateway.client().append(name, 1).status in (200, 201)


def test_a_command_makes_the_spare_live_and_back(
    two_servers: tuple[Instance, Instance], witness: Instance, gateways: Callable[..., Running], name: str
) -> None:
    first, second = two_servers
    gateway = gateways(failover(first.port, second.port, witness.port))
    assert acked(gateway, name)
    assert second.get(f"/v0/topics/{name}")[0] == 404
    decide(witness, "second")
    until(lambda: acked(gateway, name) and second.get(f"/v0/topics/{name}")[0] == 200, "the spare to be live")
    assert gateway.client().get(f"/v0/topics/{name}").json["head_seq"] == 1
    decide(witness, "first")
    until(
        lambda: acked(gateway, name) and gateway.client().get(f"/v0/topics/{name}").json["head_seq"] > 1, "the way back"
    )
    refused = "expected one of the two routes"
    decide(witness, "elsewhere")
    until(lambda: refused in gateway.client().append(name, 1).body.decode(), "a wrong decision to be told")
    assert gateway.client().get(f"/v0/topics/{name}").status == 200


def test_a_watch_does_not_continue_at_the_former_server(
    two_servers: tuple[Instance, Instance], witness: Instance, gateways: Callable[..., Running], name: str
) -> None:
    first, second = two_servers
    gateway = gateways(failover(first.port, second.port, witness.port))
    client = gateway.client()
    client.append(name, 1)
    wid = client.post("/v0/watch", {"topics": {name: {}}}).json["wid"]
    with closing(Stream(gateway, f"/v0/watch/{wid}")) as stream:
        assert stream.records(1) == {name: [1]}
    decide(witness, "second")
    until(lambda: client.append(name, 2).status == 201, "the spare to be live")
    assert client.get(f"/v0/watch/{wid}", accept="text/event-stream").status == 404
    wid = client.post("/v0/watch", {"topics": {name: {}}}).json["wid"]
    with closing(Stream(gateway, f"/v0/watch/{wid}")) as stream:
        assert stream.records(1) == {name: [2]}
    decide(witness, "first")


def test_no_two_servers_ack_writes_at_once(
    two_servers: tuple[Instance, Instance], witness: Instance, gateways: Callable[..., Running], name: str
) -> None:
    """Two gateways write without a pause while an operator switches to and fro. The servers' times say who wrote when."""
    first, second = two_servers
    configuration = failover(first.port, second.port, witness.port, leaseMs=500)
    both = [gateways(configuration), gateways(configuration)]
    stopping = threading.Event()

    def write(gateway: Running, number: int) -> None:
        client = gateway.client()
        while not stopping.is_set():
            client.append(name, number)
            stopping.wait(0.005)

    writers = [threading.Thread(target=write, args=(gateway, number)) for number, gateway in enumerate(both)]
    for writer in writers:
        writer.start()

    def heads() -> list[int]:
        answers = [server.get(f"/v0/topics/{name}") for server in two_servers]
        return [json.loads(body)["head_seq"] if status == 200 else 0 for status, body in answers]

    try:
        for place, live in ((1, "second"), (0, "first"), (1, "second")):
            decide(witness, live)
            before = heads()[place]
            until(lambda place=place, before=before: heads()[place] > before + 20, f"writes at {live}")
    finally:
        stopping.set()
        for writer in writers:
            writer.join()
    spans: list[tuple[int, int, int]] = []  # each run of writes at one server: its first and last time
    records = [(record["$ts"], place) for place, server in enumerate(two_servers) for record in read_all(server, name)]
    for ts, place in sorted(records):
        if spans and spans[-1][2] == place:
            spans[-1] = (spans[-1][0], ts, place)
        else:
            spans.append((ts, ts, place))
    assert [place for *_, place in spans] == [0, 1, 0, 1]


def read_all(server: Instance, name: str) -> list[dict[str, Any]]:
    found, seq = list[dict[str, Any]](), 0
    with closing(Client(server.port)) as client:
        while True:
            page = client.post(f"/v0/topics/{name}/diff", {"from_seq": seq, "limit": 1000}).json
            found += page["records"]
            seq = page["next_from_seq"]
            if page["caught_up"]:
                return found


def test_a_dead_server_is_replaced(
    two_servers: tuple[Instance, Instance], witness: Instance, gateways: Callable[..., Running], name: str
) -> None:
    _, second = two_servers
    with start() as dying:
        gateway = gateways(failover(dying.port, second.port, witness.port, switch="health", afterMs=300))
        assert acked(gateway, name)
        dying.kill()
        until(lambda: acked(gateway, name), "the spare to take over")
    assert second.get(f"/v0/topics/{name}")[0] == 200
    assert "The route 'second' is now live" in gateway.output


def test_a_server_that_fails_once_is_not_replaced_by_command_routers(
    two_servers: tuple[Instance, Instance], witness: Instance, gateways: Callable[..., Running], name: str
) -> None:
    gateway = gateways(failover(free_port(), two_servers[1].port, witness.port, afterMs=100))
    began = time.monotonic()
    while time.monotonic() < began + 1:
        refused = gateway.client().append(name, 1)
        assert (refused.status, refused.code) == (502, "node_unreachable")
    assert two_servers[1].get(f"/v0/topics/{name}")[0] == 404


def test_without_the_witness_writes_stop_and_reads_go_on(
    two_servers: tuple[Instance, Instance], gateways: Callable[..., Running], name: str
) -> None:
    first, second = two_servers
    with start() as dying:
        gateway = gateways(failover(first.port, second.port, dying.port))
        assert acked(gateway, name)
        dying.kill()
        until(lambda: gateway.client().append(name, 1).status == 503, "writes to stop")
    refused = gateway.client().append(name, 1)
    assert refused.code == "not_ready"
    assert "Cannot read from the witness which server is live" in refused.json["error"]["message"]
    assert "retry-after" in refused.headers
    assert gateway.client().get(f"/v0/topics/{name}").status == 200


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"spare": "first"}, "spare: expected another route than"),
        ({"witness": "first"}, "witness: expected another route than"),
        ({"witness": "nowhere"}, "witness: route 'nowhere' does not exist"),
        ({"witness": "second"}, "routes: witness is never used"),
    ],
)
def test_a_configuration_that_cannot_work_is_refused(gateways: Callable[..., Running], change: Any, said: str) -> None:
    gateway = gateways(failover(1, 2, 3, **change), ready=False)
    until(gateway.ended, "the refusal")
    assert said in gateway.output

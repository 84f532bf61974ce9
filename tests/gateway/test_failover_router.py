"""FailoverRouter: a command or the death of the live server makes the spare live, and two servers are never live at once."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.docs.printed import commands
from tests.gateway.running import Client, Running, cluster, route
from tests.gateway.streams import Stream
from tests.instances import ROOT, Instance, copy_migrated, free_port, start, until

pytestmark = pytest.mark.deep(149)


LEASE_MS = 1000
QUEUE = {"records": [{"data": 1}], "config": {"type": "queue"}}


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


@contextmanager
def frozen(server: Instance) -> Iterator[None]:
    """Every process of the server is stopped, so that connections open and nothing answers."""
    pids = server.pids()
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


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
    until(lambda: acked(gateway, name), "the first write")
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


def test_a_node_is_read_at_its_own_address_and_the_witness_is_not(
    two_servers: tuple[Instance, Instance],
    witness: Instance,
    gateways: Callable[..., Running],
    direct: Callable[[Instance], Client],
    name: str,
) -> None:
    """The key of the witness's route could change decisions."""
    gateway = gateways(failover(two_servers[0].port, two_servers[1].port, witness.port))
    until(lambda: acked(gateway, name), "the first write")
    client, first, second = gateway.client(), direct(two_servers[0]), direct(two_servers[1])
    second.append(name, 1, 2)
    heads = [client.get(f"/node/{node}/v0/topics/{name}").json["head_seq"] for node in (0, 1)]
    assert heads == [first.get(f"/v0/topics/{name}").json["head_seq"], 2]
    for path in (f"/node/0/v0/topics/{name}", f"/node/1/v0/topics/{name}", f"/node/2/v0/topics/{name}"):
        assert client.post(path, {"records": [{"data": 1}]}).code == "not_offered"
    assert client.get("/node/2/v0/topics/live").code == "not_offered"
    assert second.get(f"/v0/topics/{name}").json["head_seq"] == 2


def test_a_watch_does_not_continue_at_the_former_server(
    two_servers: tuple[Instance, Instance], witness: Instance, gateways: Callable[..., Running], name: str
) -> None:
    first, second = two_servers
    gateway = gateways(failover(first.port, second.port, witness.port))
    client = gateway.client()
    until(lambda: client.append(name, 1).status == 201, "the first write")
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


@contextmanager
def writing(gateways: Sequence[Running], name: str) -> Iterator[None]:
    """Clients that write through each gateway without a pause."""
    stopping = threading.Event()

    def write(gateway: Running, number: int) -> None:
        client = gateway.client()
        while not stopping.wait(0.005):
            client.append(name, number)

    writers = [threading.Thread(target=write, args=each) for each in zip(gateways, range(9), strict=False)]
    for writer in writers:
        writer.start()
    try:
        yield
    finally:
        stopping.set()
        for writer in writers:
            writer.join()


def wait_for_writes(server: Instance, name: str) -> None:
    def head() -> int:
        status, body = server.get(f"/v0/topics/{name}")
        return int(json.loads(body)["head_seq"]) if status == 200 else 0

    before = head()
    until(lambda: head() > before + 20, "writes at the live server")


def runs_of_writes(servers: Sequence[Instance], name: str) -> list[int]:
    """The servers in the order of their writes. One that writes while another one does is there more than once."""
    records = [(record["$ts"], place) for place, server in enumerate(servers) for record in read_all(server, name)]
    return [place for place, _ in itertools.groupby(sorted(records), key=lambda record: record[1])]


@pytest.mark.guarantee("G1")
@pytest.mark.parametrize("leases", [(500, 500), (500, 2500), (2500, 500)])
def test_no_two_servers_ack_writes_at_once(
    two_servers: tuple[Instance, Instance],
    witness: Instance,
    gateways: Callable[..., Running],
    name: str,
    leases: tuple[int, int],
) -> None:
    """Two gateways write without a pause while an operator switches to and fro. Their leases differ, as in a rolling change."""
    first, second = two_servers
    both = [gateways(failover(first.port, second.port, witness.port, leaseMs=lease)) for lease in leases]
    with writing(both, name):
        wait_for_writes(first, name)
        for server, live in ((second, "second"), (first, "first"), (second, "second")):
            decide(witness, live)
            wait_for_writes(server, name)
    assert runs_of_writes(two_servers, name) == [0, 1, 0, 1]


def test_a_gateway_with_a_longer_lease_than_the_decision_writes(
    two_servers: tuple[Instance, Instance], witness: Instance, gateways: Callable[..., Running], name: str
) -> None:
    first, second = two_servers
    for lease in (500, 4000):
        gateway = gateways(failover(first.port, second.port, witness.port, leaseMs=lease))
        until(lambda gateway=gateway: acked(gateway, name), f"a write with leaseMs {lease}", 30)


def test_a_gateway_that_was_frozen_acks_nothing_of_the_former_server(
    two_servers: tuple[Instance, Instance], witness: Instance, gateways: Callable[..., Running], name: str
) -> None:
    first, second = two_servers
    both = [gateways(failover(first.port, second.port, witness.port, leaseMs=500)) for _ in range(2)]
    for gateway in both:
        until(lambda gateway=gateway: acked(gateway, name), "the first writes")
    client = both[0].client()
    both[0].signal(signal.SIGSTOP)
    late = threading.Thread(target=lambda: client.append(name, "late"))
    late.start()
    decide(witness, "second")
    until(lambda: acked(both[1], name) and second.get(f"/v0/topics/{name}")[0] == 200, "the spare to be live")
    head = len(read_all(first, name))
    both[0].signal(signal.SIGCONT)
    late.join()
    until(lambda: acked(both[0], name), "writes of the frozen gateway")
    assert len(read_all(first, name)) == head


@pytest.fixture
def forgetting(tmp_path: Path) -> Iterator[Callable[[], Instance]]:
    """A witness that begins with an empty folder at each call, at the same address."""
    with ExitStack() as stack:
        port, servers = free_port(), list[Instance]()

        def again() -> Instance:
            for server in servers:
                server.end()
            server = Instance(tmp_path / f"witness-{len(servers)}", port, {"WEB_WORKERS": "1", "TOPICS_PROCESSES": ""})
            copy_migrated(server.data)
            servers.append(server)
            stack.callback(server.end)
            server.start()
            return server

        yield again


def test_a_witness_that_lost_its_decisions_gets_them_again(
    two_servers: tuple[Instance, Instance],
    forgetting: Callable[[], Instance],
    gateways: Callable[..., Running],
    name: str,
) -> None:
    first, second = two_servers
    witness = forgetting()
    configuration = failover(first.port, second.port, witness.port)
    both = [gateways(configuration), gateways(configuration)]
    with writing(both, name):
        wait_for_writes(first, name)
        decide(witness, "second")
        wait_for_writes(second, name)
        witness = forgetting()
        wait_for_writes(second, name)
        assert [each["data"]["live"] for each in read_all(witness, "live")][-1] == "second"
        decide(witness, "first")
        wait_for_writes(first, name)
    assert runs_of_writes(two_servers, name) == [0, 1, 0]


def test_a_hung_witness_does_not_hold_reads(
    two_servers: tuple[Instance, Instance], gateways: Callable[..., Running], name: str
) -> None:
    with start() as witness:
        gateway = gateways(failover(*(each.port for each in two_servers), witness.port))
        until(lambda: acked(gateway, name), "the first write")
        with frozen(witness):
            until(lambda: gateway.client().append(name, 1).status == 503, "writes to stop")
            client = gateway.client()
            client.connection.timeout = 5  # seconds for each read: a look at the witness takes as long as it hangs
            assert {client.get(f"/v0/topics/{name}").status for _ in range(20)} == {200}
        until(lambda: acked(gateway, name), "writes to continue")


def test_streams_that_change_their_topic_end_with_the_lease(
    two_servers: tuple[Instance, Instance], gateways: Callable[..., Running], name: str
) -> None:
    """Without a lease the other server may be live, and give its workers the same jobs."""
    with start() as witness:
        gateway = gateways(failover(*(each.port for each in two_servers), witness.port))
        client = gateway.client()
        until(lambda: client.post(f"/v0/topics/{name}", QUEUE).status == 201, "the first write")
        assert client.append(f"{name}-log", 1).status == 201
        group, jobs = f"/v0/topics/{name}-log/groups/g/stream?member=m", f"/v0/topics/{name}/work?node=w"
        with (
            closing(Stream(gateway, f"/v0/topics/{name}-log/events?from_seq=0")) as reader,
            closing(Stream(gateway, group)) as member,
            closing(Stream(gateway, jobs)) as worker,
        ):
            with frozen(witness):
                for stream in (member, worker):
                    assert stream.event("error")["code"] == "shutting_down"
            assert reader.event("message")["data"] == 1
            until(lambda: acked(gateway, f"{name}-log"), "writes to continue")
            assert reader.event("message")["data"] == 1  # its stream has stayed


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
        until(lambda: acked(gateway, name), "the first write")
        dying.kill()
        until(lambda: acked(gateway, name), "the spare to take over")
    assert second.get(f"/v0/topics/{name}")[0] == 200
    assert "The route 'second' is now live" in gateway.output


def test_a_server_that_hangs_is_replaced(
    two_servers: tuple[Instance, Instance], witness: Instance, gateways: Callable[..., Running], name: str
) -> None:
    """The lease ends before `answerMs`, and before the server's first failure is known.

    When the server comes back, it stays the spare.
    """
    _, second = two_servers
    with start() as hanging:
        gateway = gateways(failover(hanging.port, second.port, witness.port, switch="health", afterMs=3000))
        until(lambda: acked(gateway, name), "the first write")
        with frozen(hanging):
            until(lambda: acked(gateway, name), "the spare to take over")
            assert second.get(f"/v0/topics/{name}")[0] == 200
        until(hanging.is_ready, "the server to come back")
        until(lambda: gateway.client().append(name, "after").status == 200, "a write at the former spare")
        places = ["after" in (record["data"] for record in read_all(each, name)) for each in (hanging, second)]
        assert places == [False, True]
    assert "The route 'second' is now live" in gateway.output


def test_a_server_that_fails_once_is_not_replaced_by_command_routers(
    two_servers: tuple[Instance, Instance], witness: Instance, gateways: Callable[..., Running], name: str
) -> None:
    gateway = gateways(failover(free_port(), two_servers[1].port, witness.port, afterMs=100))
    until(lambda: gateway.client().append(name, 1).code == "node_unreachable", "the lease")
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
        until(lambda: acked(gateway, name), "the first write")
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

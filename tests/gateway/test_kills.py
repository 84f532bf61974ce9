"""A node or the gateway itself is killed under appends: nothing acked is lost, nothing is doubled, no seq is used twice."""

import threading
from typing import Any

import pytest

from tests.gateway.running import Client, Running, by_topic, cluster, static
from tests.instances import Instance, free_port, until


class Writer(threading.Thread):
    """Appends one number after the other, each under its own key, and sends it again until it is acked."""

    def __init__(self, gateway: Running, topic: str) -> None:
        super().__init__()
        self.gateway, self.topic = gateway, topic
        self.acked: list[int] = []
        self.seqs: list[int] = []
        self.stopping = threading.Event()
        self.refused: list[Any] = []

    def run(self) -> None:
        number = 0
        while not self.stopping.is_set():
            number += 1
            while True:
                client = Client(self.gateway.port)
                try:
                    answer = client.append(self.topic, number, idempotency_key=f"{self.topic}-{number}")
                except OSError:
                    continue  # the gateway is away
                finally:
                    client.close()
                if answer.status in (200, 201):
                    self.acked.append(number)
                    self.seqs.append(answer.json["last_seq"])
                    break
                if answer.status not in (502, 503, 504):
                    self.refused.append(answer.body)
                    return

    def stop(self) -> None:
        self.stopping.set()
        self.join(60)
        assert not self.is_alive()
        assert self.refused == []


def stored(client: Client, topic: str) -> list[int]:
    found: list[int] = []
    from_seq = 0
    while True:
        read = client.post(f"/v0/topics/{topic}/diff", {"from_seq": from_seq, "limit": 1000}).json
        found += [each["data"] for each in read["records"]]
        if read["caught_up"]:
            return found
        from_seq = read["next_from_seq"]


def configuration(kind: str, first: int, second: int) -> dict[str, Any]:
    return static(first) if kind == "static" else by_topic(second, first)


@pytest.mark.parametrize("kind", ["static", "by topic"])
def test_the_gateway_is_killed_under_appends(two_servers, gateways, name: str, kind: str) -> None:
    gateway = gateways(configuration(kind, two_servers[0].port, two_servers[1].port))
    writer = Writer(gateway, name)
    writer.start()
    for _ in range(3):
        goal = len(writer.acked) + 20
        until(lambda goal=goal: len(writer.acked) > goal, "appends to be acked")
        gateway.kill()
        gateway.start()
    writer.stop()
    assert stored(gateway.client(), name) == writer.acked
    assert writer.seqs == sorted(set(writer.seqs))


@pytest.mark.parametrize("kind", ["static", "by topic"])
def test_the_server_is_killed_under_appends(two_servers, gateways, instances, name: str, kind: str) -> None:
    server: Instance = instances()
    gateway = gateways(configuration(kind, server.port, two_servers[1].port))
    client = gateway.client()
    client.call("PUT", f"/v0/topics/{name}", {"durability": "fsync"})
    writer = Writer(gateway, name)
    writer.start()
    until(lambda: len(writer.acked) > 20, "appends to be acked")
    server.kill()
    until(lambda: gateway.health() == "degraded", "the gateway to notice")
    before = len(writer.acked)
    server.start()
    until(lambda: len(writer.acked) > before + 20, "appends to go on")
    until(lambda: gateway.health() == "ready", "the gateway to notice")
    writer.stop()
    assert stored(gateway.client(), name) == writer.acked
    assert writer.seqs == sorted(set(writer.seqs))


def test_a_reload_under_load_loses_no_request(two_servers, gateways, name: str) -> None:
    first, second = (server.port for server in two_servers)
    good = by_topic(second, first)
    gateway = gateways(good)
    writers = [Writer(gateway, f"{name}-{number}") for number in range(3)]
    failed: list[Any] = []
    for writer in writers:
        writer.start()
    for number in range(4):
        before = gateway.client().get("/gateway/health").json["configuration"]
        changed = {
            **good,
            "clusterDefinitions": [cluster("eu", second), cluster("us", first, timeouts={"answerMs": 10_000 + number})],
        }
        gateway.write(changed)
        until(lambda old=before: gateway.client().get("/gateway/health").json["configuration"] != old, "the reload")
        answer = gateway.client().get("/v0/topics")
        failed += [answer.body] if answer.status != 200 else []
    for writer in writers:
        writer.stop()
    assert failed == []
    for writer in writers:
        assert stored(gateway.client(), writer.topic) == writer.acked


def test_another_node_answers_while_one_is_away(two_servers, gateways, instances, name: str) -> None:
    """Two nodes of one cluster, of which the second is nobody: every request is answered by the first."""
    gateway = gateways(static(two_servers[0].port, free_port()))
    for kind in ("static", "dynamic"):
        client = gateway.client()
        for number in range(20):
            headers = {"prefer": "x"} if kind == "dynamic" else {}  # an unusual header is read
            assert client.get("/v0/health", **headers).status == 200, (kind, number)
    assert [each["state"] for each in gateway.client().get("/v0/nodes").json["nodes"]] == ["up", "down"]
    assert gateway.health() == "ready"

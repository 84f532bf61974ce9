"""A node or the gateway itself is killed under appends: nothing acked is lost, nothing is doubled, no seq is used twice."""

import contextlib
import os
import signal
import threading
from typing import Any

import pytest

from tests.deadlines import DEADLINE
from tests.gateway.running import Client, Running, by_topic, static
from tests.gateway.streams import Stream
from tests.gateway.test_processes import processes
from tests.instances import Instance, free_port, until

pytestmark = pytest.mark.deep(38)


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
        self.join(DEADLINE)
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


class Load(threading.Thread):
    """Appends and reads on one kept connection, and repeats nothing: each failure is a request that was lost."""

    def __init__(self, gateway: Running, topic: str) -> None:
        super().__init__()
        self.gateway, self.topic = gateway, topic
        self.answered = 0
        self.lost: list[Any] = []
        self.stopping = threading.Event()

    def run(self) -> None:
        client = Client(self.gateway.port)
        while not self.stopping.is_set():
            try:
                for answer in (
                    client.append(self.topic, self.answered),
                    client.post(f"/v0/topics/{self.topic}/diff", {"limit": 1}),
                ):
                    if answer.status not in (200, 201):
                        self.lost.append(answer.body)
            except OSError as error:
                self.lost.append(error)
                break
            self.answered += 1
        client.close()


@pytest.mark.parametrize("kind", ["static", "by topic"])
def test_a_reload_under_load_loses_no_request(two_servers, gateways, name: str, kind: str) -> None:
    """The cluster that every request reaches has another timeout each time, so that all routers and connections are new."""
    first, second = (server.port for server in two_servers)
    gateway = gateways(configuration(kind, first, second))
    loads = [Load(gateway, f"{name}-{number}") for number in range(4)]
    for load in loads:
        load.start()
    opening = gateway.client()
    opening.append(f"{name}-stream", 0)
    url = opening.post("/v0/watch", {"topics": {f"{name}-stream": {}}}).json["stream_url"]
    stream = Stream(gateway, url)
    got = stream.records(1)[f"{name}-stream"]
    for number in range(1, 5):
        before = gateway.client().get("/gateway/health").json["configuration"]
        changed = configuration(kind, first, second)
        for each in changed["clusterDefinitions"]:
            each["timeouts"] = {"answerMs": 10_000 + number}
        gateway.write(changed)
        until(lambda old=before: gateway.client().get("/gateway/health").json["configuration"] != old, "the reload")
        goals = [load.answered + 5 for load in loads]
        until(
            lambda goals=goals: all(load.lost or load.answered > goal for load, goal in zip(loads, goals, strict=True)),
            "answers by the new configuration",
        )
        gateway.client().append(f"{name}-stream", number)
        assert stream.event("error")["code"] == "shutting_down"
        stream.close()
        stream = Stream(gateway, url, f"last-event-id: {stream.id}")
        got += stream.records(1)[f"{name}-stream"]
    for load in loads:
        load.stopping.set()
        load.join(DEADLINE)
    assert [load.lost for load in loads] == [[]] * 4
    assert got == [0, 1, 2, 3, 4], "a stream whose way changed ends, and continues on the new way"
    stream.close()
    for load in loads:
        assert stored(gateway.client(), load.topic) == list(range(load.answered))


def test_a_process_of_several_is_killed_under_appends(two_servers, gateways, name: str) -> None:
    gateway = gateways(configuration("by topic", two_servers[0].port, two_servers[1].port), "--processes", "2")
    writers = [Writer(gateway, f"{name}-{number}") for number in range(3)]
    for writer in writers:
        writer.start()
    for _ in range(3):
        goals = [len(writer.acked) + 10 for writer in writers]
        until(
            lambda goals=goals: all(len(writer.acked) > goal for writer, goal in zip(writers, goals, strict=True)),
            "appends to be acked",
        )
        with contextlib.suppress(ProcessLookupError):
            os.kill(processes(gateway)[0]["pid"], signal.SIGKILL)
    server = Client(
        two_servers[0].port
    )  # not the gateway, because the process of a new connection may just have been killed
    for writer in writers:
        writer.stop()
        assert stored(server, writer.topic) == writer.acked
        assert writer.seqs == sorted(set(writer.seqs))
    server.close()


def test_a_watch_continues_after_the_gateway_was_killed(two_servers, gateways, name: str) -> None:
    gateway = gateways(by_topic(two_servers[1].port, two_servers[0].port), GATEWAY_KEY="k" * 32)
    client = gateway.client()
    client.append(name, 1, 2)
    url = client.post("/v0/watch", {"topics": {name: {}}}).json["stream_url"]
    stream = Stream(gateway, url)
    got = stream.records(2)[name]
    for number in (3, 5):
        gateway.kill()
        stream.close()
        gateway.start()
        gateway.client().append(name, number, number + 1)
        stream = Stream(gateway, url, f"last-event-id: {stream.id}")
        got += stream.records(2)[name]
    stream.close()
    assert got == [1, 2, 3, 4, 5, 6]


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

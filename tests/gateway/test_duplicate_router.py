"""DuplicateRouter: a primary answers, and other servers get exact copies, whatever dies in between."""

from __future__ import annotations

import asyncio
import json
import random
import shutil
import signal
import socket
import struct
import subprocess
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from base.errors import TopicNotFound
from gateway.api import Request, Response, RouterContext
from gateway.routers.duplicate import MOST_PENDING, DuplicateConfig, DuplicateRouterFactory, Duplication
from gateway.testing import Server, routing
from tests.deadlines import DEADLINE
from tests.deep import make_deep
from tests.gateway.running import Client, Running, cluster, route
from tests.gateway.test_migrate_router import Writers, shown
from tests.instances import Instance, start, until

pytestmark = pytest.mark.deep(54)


Servers = tuple[Instance, Instance]
Gateways = Callable[..., Running]
Direct = Callable[[Instance], Client]


def duplicating(primary: int, copy: int, *topics: str) -> dict[str, Any]:
    return {
        "clusterDefinitions": [cluster("main", primary), cluster("copy", copy)],
        "routerDefinitions": [
            {
                "name": "twice",
                "type": "DuplicateRouter",
                "config": {"primary": "main", "copies": ["copy"], "topics": list(topics)},
                "routes": [route("main", 0, cluster="main"), route("copy", 1, cluster="copy")],
            }
        ],
        "virtualClusters": [{"name": "all", "gateways": [{"host": "127.0.0.1"}], "target": {"router": "twice"}}],
    }


def is_equal(primary: Instance, copy: Instance, topic: str) -> bool:
    """Whether both servers have the topic with one head and show the same records."""
    with closing(Client(primary.port)) as one, closing(Client(copy.port)) as other:
        told = [client.get(f"/v0/topics/{topic}") for client in (one, other)]
        if any(each.status != 200 for each in told) or told[0].json["head_seq"] != told[1].json["head_seq"]:
            return False
        return shown(one, topic) == shown(other, topic)


def test_a_gateway_remembers_a_bounded_number_of_writes_for_a_copy_that_is_away(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def work(context: RouterContext, route: str) -> None: ...

    async def main() -> Duplication:
        made = Duplication(DuplicateConfig("main", ["copy", "other"]))
        for number in range(MOST_PENDING):
            made.later(f"t{number}", work)
        assert not caplog.records
        made.copies["other"].pending.popleft()
        made.later("last", work)
        made.copies["other"].pending.popleft()
        made.later("last", work)
        return made

    made = asyncio.run(main())
    assert [len(each.pending) for each in made.copies.values()] == [MOST_PENDING, MOST_PENDING]
    assert made.copies["other"].pending[-1][0] == "last"
    assert made.copies["copy"].pending[-1][0] == f"t{MOST_PENDING - 1}"
    assert [record.args for record in caplog.records] == [(MOST_PENDING, "copy")]


def answered(request: Request) -> Response:
    """The answer of a server without topics, to which each change has its effect."""
    if request.path == "/v0/topics":
        return Response.json(200, {"topics": []})
    if request.method == "GET":
        return Response.json(404, TopicNotFound("no such topic").body())
    return Response.json(200, {})


def changes_of(server: Server) -> list[Request]:
    return [each for each in server.requests if each.method != "GET"]


def test_a_gateway_holds_a_bounded_number_of_bytes_for_a_copy_that_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.routers.duplicate.MOST_PENDING_BYTES", 1000)
    is_away = threading.Event()
    is_away.set()

    def at_primary(request: Request) -> Response:
        is_delete = request.path.endswith("/delete")
        return Response.json(200, {"topic": "orders", "head_seq": 5}) if is_delete else answered(request)

    def at_copy(request: Request) -> Response:
        return Response(503) if is_away.is_set() and request.path != "/v0/ready" else answered(request)

    with routing(DuplicateRouterFactory(), {"primary": "a", "copies": ["b"]}, routes=["a", "b"]) as gateway:
        gateway.servers["a"].answer, gateway.servers["b"].answer = at_primary, at_copy
        for number in range(3):
            match = ["tag", "Eq", f"{number}:{'x' * 400}"]
            assert gateway.call("POST", "/v0/topics/orders/delete", {"match": match}).status == 200
        assert gateway.call("PUT", "/v0/topics/orders", {"ttl_ms": 5}).status == 200
        is_away.clear()
        until(lambda: any(each.method == "PUT" for each in changes_of(gateway.servers["b"])), "the last of the writes")
        *deletes, _ = changes_of(gateway.servers["b"])
        tags = [json.loads(each.raw_body)["match"][2] for each in deletes if isinstance(each.raw_body, bytes)]
        assert [tag[:2] for tag in tags] == ["0:", "1:"]


@pytest.mark.parametrize("address", ["", "/node/0"])
def test_a_copy_gets_the_settings_of_a_put_without_its_caps(address: str) -> None:
    with routing(DuplicateRouterFactory(), {"primary": "a", "copies": ["b"]}, routes=["a", "b"]) as gateway:
        for server in gateway.servers.values():
            server.answer = answered
        settings = {"cap_records": 1, "cap_bytes": 1, "ttl_ms": 5}
        assert gateway.call("PUT", f"{address}/v0/topics/orders", settings).status == 200
        until(lambda: changes_of(gateway.servers["b"]), "the settings at the copy")
        (change,) = changes_of(gateway.servers["b"])
        assert (change.method, change.query, change.raw_body) == ("PUT", "create=false", b'{"ttl_ms":5}')


def test_a_delete_whose_client_leaves_reaches_the_copies() -> None:
    has_left = threading.Event()

    async def slow() -> AsyncIterator[bytes]:
        while not has_left.is_set():
            await asyncio.sleep(0.01)
        yield b"{}"

    def at_primary(request: Request) -> Response:
        return Response(200, [], slow()) if request.method == "DELETE" else answered(request)

    with routing(DuplicateRouterFactory(), {"primary": "a", "copies": ["b"]}, routes=["a", "b"]) as gateway:
        primary, copy = gateway.servers["a"], gateway.servers["b"]
        primary.answer, copy.answer = at_primary, answered
        with socket.create_connection(("127.0.0.1", gateway.port)) as client:
            client.sendall(b"DELETE /v0/topics/orders HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
            until(lambda: changes_of(primary), "the delete at the primary")
            client.setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
            )  # it reads no answer, either
        for _ in range(3):  # by then the gateway has seen that the client has left
            gateway.call("GET", "/v0/topics")
        has_left.set()
        until(lambda: changes_of(copy), "the delete at the copy")
        assert [(each.method, each.query) for each in changes_of(copy)] == [("DELETE", "if_sealed=true")]


def test_a_delete_whose_answer_is_lost_reaches_the_copies_if_the_topic_is_gone() -> None:
    def at_primary(request: Request) -> Response:
        return Response(504) if request.method == "DELETE" else answered(request)

    with routing(DuplicateRouterFactory(), {"primary": "a", "copies": ["b"]}, routes=["a", "b"]) as gateway:
        primary, copy = gateway.servers["a"], gateway.servers["b"]
        primary.answer, copy.answer = at_primary, answered
        assert gateway.call("DELETE", "/v0/topics/orders").status == 504
        until(lambda: changes_of(copy), "the delete at the copy")


def test_a_write_is_copied_without_a_list_of_all_topics(
    two_servers: Servers, direct: Direct, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the first sweep comes in the time of this test, and it lists the topics of both servers."""
    monkeypatch.setattr("gateway.routers.duplicate.SWEEP_SECONDS", 100 * DEADLINE)
    lists: list[str] = []

    def passed_to(server: Instance) -> Callable[[Request], Response]:
        client = direct(server)

        def answer(request: Request) -> Response:
            if request.path == "/v0/topics":
                lists.append(request.query)
            reply = client.call(request.method, f"{request.path}?{request.query}", request.raw_body or None)
            return Response(reply.status, [(b"content-type", reply.headers["content-type"].encode())], reply.body)

        return answer

    config = {"primary": "a", "copies": ["b"], "topics": [f"{name}*"]}
    with routing(DuplicateRouterFactory(), config, routes=["a", "b"]) as gateway:
        for route_, server in zip("ab", two_servers, strict=True):
            gateway.servers[route_].answer = passed_to(server)

        def write(method: str, topic: str, body: Any) -> None:
            assert gateway.call(method, f"/v0/topics/{topic}", body).status in (200, 201)
            until(lambda: is_equal(*two_servers, topic), "the copy")

        write("POST", name, {"records": [{"data": 0}]})
        before = len(lists)
        for number in range(1, 4):
            write("POST", name, {"records": [{"data": number}] * 1000})
            write("PUT", f"{name}-{number}", {"ttl_ms": 86_400_000})
        assert gateway.call("DELETE", f"/v0/topics/{name}-1").status == 200
        until(lambda: two_servers[1].get(f"/v0/topics/{name}-1")[0] == 404, "the copy to be deleted")
        assert len(lists) == before


def test_a_record_from_before_the_bound_for_the_depth_holds_up_no_copy(
    two_servers: Servers, gateways: Gateways, direct: Direct, name: str
) -> None:
    primary, copy = two_servers
    for number in range(3):
        direct(primary).append(name, number)
    make_deep(primary, name)
    client = gateways(duplicating(primary.port, copy.port, f"{name}*")).client()
    client.append(name, "more")
    until(lambda: is_equal(primary, copy, name), "the copy")


def test_writes_of_every_kind_arrive_at_the_copy(
    two_servers: Servers, gateways: Gateways, direct: Direct, name: str
) -> None:
    primary, copy = two_servers
    client = gateways(duplicating(primary.port, copy.port, f"{name}*")).client()
    client.call("PUT", f"/v0/topics/{name}", {"ttl_ms": 86_400_000})
    client.post(f"/v0/topics/{name}", {"records": [{"data": n, "tag": f"t:{n % 3}", "node": "a"} for n in range(50)]})
    until(lambda: is_equal(primary, copy, name), "the copy")
    client.post(f"/v0/topics/{name}/delete", {"match": ["tag", "Eq", "t:1"]})
    client.post(f"/v0/topics/{name}/delete", {"before_seq": 5})
    for body in ({"seqs": [7], "match": None}, {"before_seq": 7, "seqs": None}):
        assert client.post(f"/v0/topics/{name}/delete", body).status == 200
    assert client.post(f"/v0/topics/{name}/delete", {"match": None}).status == 400
    client.call("PUT", f"/v0/topics/{name}", {"cap_records": 20})
    client.append(name, "more")
    until(lambda: is_equal(primary, copy, name), "the copy to follow")
    late = direct(copy).post(f"/v0/topics/{name}/diff", {"from_seq": 1}).json["tombstone"]
    assert late == direct(primary).post(f"/v0/topics/{name}/diff", {"from_seq": 1}).json["tombstone"]
    settings = direct(copy).get(f"/v0/topics/{name}").json["config"]
    assert (settings["ttl_ms"], settings["cap_records"], settings["sealed"]) == (86_400_000, 0, True)
    assert direct(copy).append(name, "stranger").code == "topic_sealed"
    client.append(f"{name}-gone", 1)
    until(lambda: is_equal(primary, copy, f"{name}-gone"), "the other copy")
    assert client.call("DELETE", f"/v0/topics/{name}-gone").status == 200
    until(lambda: copy.get(f"/v0/topics/{name}-gone")[0] == 404, "the copy to be deleted")
    other = name.swapcase()
    client.append(other, 1)
    assert copy.get(f"/v0/topics/{other}")[0] == 404
    assert client.call("PUT", f"/v0/topics/{name}", {"sealed": True}).code == "invalid_request"


def test_what_the_gateway_did_not_see_is_repaired(
    two_servers: Servers, gateways: Gateways, direct: Direct, name: str
) -> None:
    primary, copy = two_servers
    gateway = gateways(duplicating(primary.port, copy.port, f"{name}*"))
    unseen = direct(primary)
    unseen.post(f"/v0/topics/{name}", {"records": [{"data": n, "tag": f"t:{n % 3}"} for n in range(3000)]})
    until(lambda: is_equal(primary, copy, name), "the copy")
    unseen.post(f"/v0/topics/{name}/delete", {"match": ["tag", "Eq", "t:2"]})
    unseen.call("PUT", f"/v0/topics/{name}", {"ttl_ms": 86_400_000})
    until(lambda: is_equal(primary, copy, name), "the repair", 30)
    until(lambda: '"ttl_ms":86400000' in copy.get(f"/v0/topics/{name}")[1], "the settings", 30)
    open_there = f"{name}-open"
    direct(copy).append(open_there, "of its own")
    unseen.append(open_there, 1)
    until(lambda: "so not a copy" in gateway.output, "the difference to be told", 30)
    assert [each["data"] for each in shown(direct(copy), open_there)] == ["of its own"]
    assert (told(gateway, "differing_topics"), told(gateway, "lag_records")) == (1, 0)
    unseen.append(name, "goes on")
    until(lambda: is_equal(primary, copy, name), "the other topics to go on")


def test_a_copy_is_equal_after_kills_of_gateways_and_servers(gateways: Gateways, direct: Direct, name: str) -> None:
    chance = random.Random(name)
    with start() as primary, start() as copy:
        both = [gateways(duplicating(primary.port, copy.port, "*")) for _ in range(2)]
        stopping = threading.Event()

        def delete() -> None:
            client = both[0].client()
            while not stopping.wait(0.05):
                try:
                    client.post(f"/v0/topics/{name}/delete", {"match": ["tag", "Glob", f"t:{chance.randrange(9)}*"]})
                except OSError:
                    client = both[0].client()

        with Writers([both[1]], name) as writers:
            writers.wait_for(50)
            deleting = threading.Thread(target=delete)
            deleting.start()
            for _ in range(3):
                time.sleep(chance.uniform(0.2, 0.8))
                both[0].signal(signal.SIGKILL)
                both[0].process.wait()  # type: ignore[union-attr]
                copy.kill()
                both[0].start()
                copy.start()
            stopping.set()
            deleting.join()
            writers.wait_for(len(writers.acked) + 50)
        assert (writers.refused, writers.doubled) == ([], [])
        until(lambda: is_equal(primary, copy, name), "the copy", 60)
        assert {each["$seq"]: each["data"] for each in shown(direct(copy), name)} == writers.acked


def restore(primary: Instance, backup: Path) -> None:
    """Puts the primary back into the state of the backup."""
    primary.stop()
    shutil.rmtree(primary.data)
    subprocess.run(["cp", "-a", backup, primary.data], check=True)
    primary.start()


def append_many(client: Client, name: str, first: int, count: int) -> None:
    for begin in range(first, first + count, 1000):
        assert client.append(name, *range(begin, min(begin + 1000, first + count))).status in (200, 201)


def told(gateway: Running, metric: str) -> float | None:
    labels = {"virtual_cluster": "all", "router": "twice", "route": "copy"}
    return gateway.client().metric(f"topics_gateway_copy_{metric}", **labels)


def test_a_primary_restored_from_a_backup_is_noticed_and_the_copy_is_kept(
    two_servers: Servers, gateways: Gateways, direct: Direct, tmp_path: Path, name: str
) -> None:
    _, copy = two_servers
    topics = name, f"{name}-2"
    with start() as primary:
        gateway = gateways(duplicating(primary.port, copy.port, f"{name}*"))

        def append(first: int, count: int, *names: str) -> None:
            with closing(Client(primary.port)) as client:
                for topic in names:
                    append_many(client, topic, first, count)

        def copied() -> bool:
            return all(is_equal(primary, copy, topic) for topic in topics)

        append(0, 200, *topics)
        until(copied, "the copies")
        primary.stop()
        subprocess.run(["cp", "-a", primary.data, tmp_path / "backup"], check=True)
        primary.start()
        append(200, 2000, *topics)
        until(copied, "the copies to follow")
        restore(primary, tmp_path / "backup")
        append(10_000, 50, name)
        until(lambda: told(gateway, "lag_records") == 450, "the lag of both topics", 30)
        assert told(gateway, "differing_topics") == 2
        assert "is a copy of another log" in gateway.output
        append(10_050, 3000, name)
        gateway.signal(signal.SIGKILL)
        gateway.process.wait()  # type: ignore[union-attr]
        append(10_000, 3000, topics[1])  # outgrows its copy while no gateway runs
        gateway.start()
        until(lambda: told(gateway, "lag_records") == 3250 + 3200, "the lag after the start", 30)
        assert told(gateway, "differing_topics") == 2
        for topic in topics:
            assert [each["data"] for each in shown(direct(copy), topic)] == list(range(2200))
            assert direct(copy).call("DELETE", f"/v0/topics/{topic}").status == 200
        until(copied, "new copies")
        until(lambda: told(gateway, "differing_topics") == 0 == told(gateway, "lag_records"), "the metrics", 30)


def test_records_that_differ_in_the_middle_are_noticed(
    two_servers: Servers, gateways: Gateways, direct: Direct, name: str
) -> None:
    """Heads, numbers of records and the newest records agree."""
    primary, copy = two_servers
    changed, lacking = f"{name}-changed", f"{name}-lacking"
    append_many(direct(primary), changed, 0, 1500)
    append_many(direct(primary), lacking, 0, 5)
    copies = {topic: shown(direct(primary), topic) for topic in (changed, lacking)}
    copies[changed][700]["meta"] = {"other": 1}
    del copies[lacking][1]
    direct(primary).post(f"/v0/topics/{lacking}/delete", {"seqs": [3]})
    for topic, records in copies.items():
        direct(copy).call("PUT", f"/v0/topics/{topic}", {"sealed": True})
        assert direct(copy).post(f"/v0/topics/{topic}", {"copy": True, "records": records}).status == 200
    gateway = gateways(duplicating(primary.port, copy.port, f"{name}*"))
    until(lambda: told(gateway, "differing_topics") == 2, "the differences", 60)
    assert "of the compared records 1 differ, first 701" in gateway.output
    assert "lacks records, 1 of the compared ones, first 2" in gateway.output
    assert [each["$seq"] for each in shown(direct(copy), lacking)] == [1, 4, 5]  # the primary no longer shows record 3
    assert len(shown(direct(copy), changed)) == 1500
    direct(primary).append(lacking, "goes on")
    until(lambda: shown(direct(copy), lacking)[-1]["data"] == "goes on", "the copy to follow")
    assert told(gateway, "differing_topics") == 2

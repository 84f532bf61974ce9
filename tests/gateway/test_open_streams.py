"""One rule for every open stream: when its way through the graph changes or ends, it ends so that the client connects again."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from websockets.exceptions import ConnectionClosedError

from tests.gateway.running import Running, by_topic, static, union
from tests.gateway.streams import Stream
from tests.gateway.test_failover_router import decide, failover
from tests.gateway.test_filters import CLAIMS, issued, publish, token
from tests.gateway.test_migrate_router import migrate, migrating
from tests.gateway.test_tunnel import echo, opened, upgrading
from tests.http1.served import rest, some
from tests.instances import Instance, start, until
from tests.sockets.client import Socket

pytestmark = pytest.mark.deep(48)


Streams = Callable[..., Stream]
Gateways = Callable[..., Running]


def watch(gateway: Running, topic: str, **headers: str) -> str:
    return str(gateway.client().post("/v0/watch", {"topics": {topic: {}}}, **headers).json["stream_url"])


def reload(gateway: Running, configuration: dict[str, Any]) -> None:
    before = gateway.client().get("/gateway/health").json["configuration"]
    gateway.write(configuration)
    until(lambda: gateway.client().get("/gateway/health").json["configuration"] != before, "the reload")


def slower(configuration: dict[str, Any]) -> dict[str, Any]:
    """The same graph with other timeouts, so that every virtual cluster is replaced."""
    clusters = [{**each, "timeouts": {"answerMs": 9_999}} for each in configuration["clusterDefinitions"]]
    return {**configuration, "clusterDefinitions": clusters}


def authenticating(port: int, **config: Any) -> dict[str, Any]:
    """One server behind the filter Authenticate."""
    configuration = static(port)
    configuration["filterDefinitions"] = [{"name": "who", "type": "Authenticate", "config": config}]
    configuration["virtualClusters"][0]["filters"] = ["who"]
    return configuration


def key_of(who: str) -> str:
    """The line of a client whose secret is its name."""
    return f"{who} {hashlib.sha256(who.encode()).hexdigest()}\n"


def by_token(port: int, keys: Path) -> dict[str, Any]:
    return authenticating(port, jwt={"jwksFile": str(keys), "issuer": CLAIMS["iss"], "audience": CLAIMS["aud"]})


@pytest.mark.parametrize("kind", ["watch", "events", "group"])
def test_a_stream_of_a_replaced_virtual_cluster_ends_and_resumes(
    two_servers: tuple[Instance, Instance], gateways: Gateways, streams: Streams, name: str, kind: str
) -> None:
    configuration = by_topic(two_servers[1].port, two_servers[0].port)
    gateway = gateways(configuration)
    gateway.client().append(name, 1)
    path = {
        "watch": lambda: watch(gateway, name),
        "events": lambda: f"/v0/topics/{name}/events",
        "group": lambda: f"/v0/topics/{name}/groups/g/stream",
    }[kind]()
    stream = streams(gateway, path)
    assert stream.status == 200
    reload(gateway, slower(configuration))
    assert stream.event("error")["code"] == "shutting_down"
    assert streams(gateway, path, f"last-event-id: {stream.id}" if kind == "watch" else "x: y").status == 200


def each_kind(gateway: Running, streams: Streams, name: str) -> list[Stream]:
    """A stream of each kind, after its first event: a watch, events, a worker's and a member's."""
    client, queue = gateway.client(), f"{name}-queue"
    client.append(name, 1)
    client.call("PUT", f"/v0/topics/{queue}", {"type": "queue"})
    client.append(queue, 1)
    paths = {
        watch(gateway, name): "record",
        f"/v0/topics/{name}/events": "stream-open",
        f"/v0/topics/{queue}/work?node=w": "job",
        f"/v0/topics/{name}/groups/g/stream": "joined",
    }
    found = []
    for path, first in paths.items():
        found.append(streams(gateway, path))
        found[-1].event(first)
    return found


def check_cut(found: list[Stream]) -> None:
    """Each stream tells `shutting_down`, and then has no last chunk."""
    for stream in found:
        assert stream.event("error")["code"] == "shutting_down"
        assert not stream.ends_cleanly()


def test_a_gateway_that_stops_cuts_its_streams(
    two_servers: tuple[Instance, Instance], gateways: Gateways, streams: Streams, name: str
) -> None:
    """Some clients never connect again after a clean end."""
    gateway = gateways(static(two_servers[0].port))
    found = each_kind(gateway, streams, name)
    assert gateway.stop() == 0
    check_cut(found)


def test_the_cut_of_a_server_that_stops_passes(
    two_servers: tuple[Instance, Instance], gateways: Gateways, streams: Streams, name: str
) -> None:
    with start() as server:
        found = each_kind(gateways(static(server.port)), streams, name)
        joining = gateways(union(server.port, two_servers[0].port))
        topics = [f"{region}.{name}-joined" for region in ("eu", "us")]
        client = joining.client()
        for topic in topics:
            client.append(topic, 1)
        begun = client.post("/v0/watch", {"topics": {topic: {} for topic in topics}})
        joined = streams(joining, begun.json["stream_url"])
        joined.records(2)
        found.append(joined)
        server.stop()
        check_cut(found)


def test_a_stream_follows_a_topic_that_moves_after_a_reload(
    two_servers: tuple[Instance, Instance], gateways: Gateways, streams: Streams, name: str
) -> None:
    configuration = migrating(two_servers[0].port, two_servers[1].port, name)
    gateway = gateways(configuration)
    client = gateway.client()
    client.append(name, 1)
    path = watch(gateway, name)
    stream = streams(gateway, path)
    assert stream.records(1) == {name: [1]}
    reload(gateway, slower(configuration))
    assert stream.event("error")["code"] == "shutting_down"
    again = streams(gateway, path, f"last-event-id: {stream.id}")
    assert migrate(gateway, name).returncode == 0
    client.append(name, 2)
    assert again.records(1) == {name: [2]}


def test_a_planned_failover_ends_the_streams_of_the_former_server(
    two_servers: tuple[Instance, Instance], gateways: Gateways, streams: Streams, name: str
) -> None:
    first, second = two_servers
    with start() as witness:
        gateway = gateways(failover(first.port, second.port, witness.port))
        until(lambda: gateway.client().append(name, 1).status in (200, 201), "the live server to be known")
        stream = streams(gateway, watch(gateway, name))
        assert stream.records(1) == {name: [1]}
        decide(witness, "second")
        assert stream.event("error")["code"] == "shutting_down"


def test_the_streams_of_a_removed_virtual_cluster_end(
    two_servers: tuple[Instance, Instance], gateways: Gateways, streams: Streams, name: str
) -> None:
    configuration = static(two_servers[0].port)
    other = {"name": "other", "gateways": [{"host": "other"}], "target": {"router": "as-it-is"}}
    gateway = gateways({**configuration, "virtualClusters": [*configuration["virtualClusters"], other]})
    gateway.client().append(name, 1)
    stream = streams(gateway, watch(gateway, name))
    assert stream.records(1) == {name: [1]}
    reload(gateway, {**configuration, "virtualClusters": [other]})
    assert stream.event("error")["code"] == "shutting_down"
    assert gateway.client().get("/v0/health").status == 404


def test_a_stream_ends_when_the_key_that_opened_it_is_removed(
    two_servers: tuple[Instance, Instance], gateways: Gateways, streams: Streams, tmp_path: Path, name: str
) -> None:
    keys = tmp_path / "keys"
    keys.write_text(key_of("ada") + key_of("bob"))
    gateway = gateways(authenticating(two_servers[0].port, keysFile=str(keys)))
    bob = {"authorization": "Bearer bob"}
    gateway.client().post(f"/v0/topics/{name}", {"records": [{"data": 1}]}, **bob)
    found = {
        who: streams(gateway, watch(gateway, name, authorization=f"Bearer {who}"), f"authorization: Bearer {who}")
        for who in ("ada", "bob")
    }
    for stream in found.values():
        assert stream.records(1) == {name: [1]}
    keys.write_text(key_of("bob"))
    assert found["ada"].event("error")["code"] == "unauthorized"
    gateway.client().post(f"/v0/topics/{name}", {"records": [{"data": 2}]}, **bob)
    assert found["bob"].records(1) == {name: [2]}


def test_a_stream_ends_when_its_token_has_expired(
    two_servers: tuple[Instance, Instance], gateways: Gateways, streams: Streams, tmp_path: Path, name: str
) -> None:
    """The clock of the issuer may be another one, so a token counts for 10 s more."""
    key = issued()
    publish(tmp_path / "keys", k1=key)
    gateway = gateways(by_token(two_servers[0].port, tmp_path / "keys"))
    lasting = {"authorization": f"Bearer {token(key)}"}
    gateway.client().post(f"/v0/topics/{name}", {"records": [{"data": 1}]}, **lasting)
    path = watch(gateway, name, **lasting)
    stays = streams(gateway, f"/v0/topics/{name}/events?from_seq=0", f"authorization: {lasting['authorization']}")

    def begun() -> tuple[Stream, str] | None:
        """A stream, unless this machine is so slow that the token does not count any more."""
        header = f"authorization: Bearer {token(key, exp=timedelta(0))}"
        stream = streams(gateway, path, header)
        return (stream, header) if stream.status == 200 else None

    stream, header = until(begun, "a stream of a token")
    assert stream.event("error")["code"] == "unauthorized"
    assert streams(gateway, path, header).status == 401
    gateway.client().post(f"/v0/topics/{name}", {"records": [{"data": 2}]}, **lasting)
    assert [stays.event("message", "error").get("data") for _ in range(2)] == [1, 2]


def test_a_stream_ends_when_the_issuer_no_longer_has_the_key_of_its_token(
    two_servers: tuple[Instance, Instance], gateways: Gateways, streams: Streams, tmp_path: Path, name: str
) -> None:
    old, new = issued(), issued()
    publish(tmp_path / "keys", old=old, new=new)
    gateway = gateways(by_token(two_servers[0].port, tmp_path / "keys"))
    bearer = {kid: f"Bearer {token(key, kid)}" for kid, key in (("old", old), ("new", new))}
    gateway.client().post(f"/v0/topics/{name}", {"records": [{"data": 1}]}, authorization=bearer["new"])
    found = {
        kid: streams(gateway, watch(gateway, name, authorization=value), f"authorization: {value}")
        for kid, value in bearer.items()
    }
    for stream in found.values():
        assert stream.records(1) == {name: [1]}
    publish(tmp_path / "keys", new=new)
    assert found["old"].event("error")["code"] == "unauthorized"
    assert found["old"].ends_cleanly()
    gateway.client().post(f"/v0/topics/{name}", {"records": [{"data": 2}]}, authorization=bearer["new"])
    assert found["new"].records(1) == {name: [2]}


def test_a_stream_ends_when_a_table_gives_its_topic_to_another_server(
    two_servers: tuple[Instance, Instance], gateways: Gateways, streams: Streams, tmp_path: Path, name: str
) -> None:
    table = tmp_path / "table.yaml"
    table.write_text(yaml.safe_dump({"default": "us"}))
    configuration = by_topic(two_servers[1].port, two_servers[0].port)
    configuration["routerDefinitions"][0]["config"] = {"tableFile": str(table)}
    gateway = gateways(configuration)
    gateway.client().append(name, 1)
    stream = streams(gateway, f"/v0/topics/{name}/events")
    table.write_text(yaml.safe_dump({"default": "us", "topics": {name: "eu"}}))
    assert stream.event("error")["code"] == "shutting_down"


def test_a_websocket_of_a_replaced_virtual_cluster_ends(gateways: Gateways) -> None:
    with upgrading(echo) as port:
        configuration = static(port)
        gateway = gateways(configuration)
        with opened(gateway) as client:
            some(client, b"\r\n\r\n")
            reload(gateway, slower(configuration))
            assert rest(client) == b""


def test_a_websocket_ends_when_the_key_that_opened_it_is_removed(
    two_servers: tuple[Instance, Instance], gateways: Gateways, tmp_path: Path
) -> None:
    """One key is removed from the file of keys, and the other from the configuration, which names another file."""
    keys, others = tmp_path / "keys", tmp_path / "others"
    keys.write_text(key_of("ada") + key_of("bob"))
    others.write_text(key_of("eve"))
    gateway = gateways(authenticating(two_servers[0].port, keysFile=str(keys)))
    with Socket(gateway.port, "ada") as ada, Socket(gateway.port, "bob") as bob:
        assert (ada.ask("ping")["op"], bob.ask("ping")["op"]) == ("pong", "pong")
        keys.write_text(key_of("bob"))
        with pytest.raises(ConnectionClosedError):
            ada.receive()
        assert bob.ask("ping")["op"] == "pong"
        reload(gateway, authenticating(two_servers[0].port, keysFile=str(others)))
        with pytest.raises(ConnectionClosedError):
            bob.receive()


def test_a_websocket_ends_when_the_key_of_its_route_is_revoked(gateways: Gateways, tmp_path: Path) -> None:
    with start(TOPICS_API_KEYS="all:read+write+admin+delete") as server, server.connect() as database:
        database.execute(
            "INSERT INTO topics_apikey (name, secret_sha256, read, write, delete_scope, admin, prefixes, created_ts)"
            " VALUES ('omega', sha256('omega'), true, false, false, false, '', 0)"
        )
        (tmp_path / "key").write_text("omega")
        configuration = static(server.port)
        configuration["filterDefinitions"] = [
            {"name": "key", "type": "ApiKey", "config": {"keyFile": str(tmp_path / "key")}}
        ]
        configuration["routerDefinitions"][0]["routes"][0]["filters"] = ["key"]
        gateway = gateways(configuration)
        until(lambda: gateway.client().get("/v0/topics").status == 200, "the key to be known")
        with Socket(gateway.port) as socket:
            assert socket.ask("ping")["op"] == "pong"
            database.execute("UPDATE topics_apikey SET revoked_ts = 1")
            assert socket.next("error")["code"] == "unauthorized"
            assert socket.closed() == 1008

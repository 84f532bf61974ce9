"""Streams of spliced topics: each record once and in order, over the seam, from every position."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.gateway.running import Client, Running
from tests.gateway.splicing import splice
from tests.gateway.streams import Stream
from tests.instances import Instance, until

OLD = 5


@pytest.fixture
def servers(two_servers, name: str) -> Iterator[tuple[Client, Client]]:
    """The old server with `OLD` records of the topic `name`, and the new one with two."""
    clients = Client(two_servers[0].port), Client(two_servers[1].port)
    clients[0].append(name, *range(1, OLD + 1))
    clients[1].append(name, 6, 7)
    yield clients
    for each in clients:
        each.close()


@pytest.fixture
def gateway(two_servers, servers, gateways, name: str) -> Running:
    return gateways(splice(two_servers[0].port, two_servers[1].port, {name: segments(name)}))


@pytest.fixture
def client(gateway) -> Client:
    return gateway.client()


def segments(name: str, upto: int = OLD) -> list[dict[str, Any]]:
    return [{"route": "old", "topic": name, "upto": upto}, {"route": "new", "topic": name}]


def begin(client: Client, topics: dict[str, Any], **options: Any) -> Any:
    begun = client.post("/v0/watch", {"topics": topics, **options})
    assert begun.status == 200, begun.body
    return begun.json


def numbers(stream: Stream, number: int) -> list[int]:
    """The seqs of the next so many records. Each event follows on the one before."""
    found: list[int] = []
    while len(found) < number:
        told = stream.event("record")
        found += [each["$seq"] for each in told["records"]]
        assert told["to_seq"] == found[-1]
        assert told["from_seq"] < told["records"][0]["$seq"]
    return found


def test_a_watch_goes_over_the_seam_from_every_position(gateway, client, name: str) -> None:
    for from_seq in range(8):
        begun = begin(client, {name: {"from_seq": from_seq}})
        assert begun["topics"] == {name: {"from_seq": from_seq, "head_seq": 7, "earliest_seq": 1}}
        stream = Stream(gateway, begun["stream_url"])
        assert numbers(stream, 7 - from_seq) == list(range(from_seq + 1, 8))
        if from_seq < 7:
            assert stream.event("caught-up", "record") == {"topic": name, "head_seq": 7}
        stream.close()


def test_a_watch_of_the_tail_or_from_a_time(gateway, client, name: str) -> None:
    begun = begin(client, {name: {"tail": True}})
    assert begun["topics"][name]["from_seq"] == 7
    stream = Stream(gateway, begun["stream_url"])
    client.append(name, 8)
    assert numbers(stream, 1) == [8]
    stream.close()
    begun = begin(client, {name: {"from_ts": 1}})
    assert begun["topics"][name]["from_seq"] == 0
    for wrong in ({"tail": True, "from_seq": 1}, {"from_seq": -1}, {"from": 1}, {"match": ["tag", "Like", ""]}):
        assert client.post("/v0/watch", {"topics": {name: wrong}}).status == 400, wrong
    assert client.post("/v0/watch", {"topics": {name: {}}, "heartbeat_ms": 1}).status == 400
    assert client.get("/v0/watch/wid_x", accept="text/event-stream").status == 404
    assert client.get(begun["stream_url"], accept="application/json").status == 406


def test_each_id_resumes_behind_its_event(gateway, client, name: str) -> None:
    client.append(name, 8)
    url = begin(client, {name: {}}, limit=1)["stream_url"]
    ids: dict[int, str] = {}
    stream = Stream(gateway, url)
    for seq in range(1, 9):
        assert numbers(stream, 1) == [seq]
        ids[seq] = stream.id
    stream.close()
    for seq, shown in ids.items():
        again = Stream(gateway, url, f"last-event-id: {shown}")
        assert numbers(again, 8 - seq) == list(range(seq + 1, 9))
        again.close()


def test_what_a_watch_leaves_out_is_left_out_on_both_sides(gateway, client, servers, name: str) -> None:
    servers[1].post(
        f"/v0/topics/{name}", {"records": [{"data": 8, "tag": "odd", "node": "n"}, {"data": 9, "tag": "x"}]}
    )
    stream = Stream(gateway, begin(client, {name: {"match": "odd"}}, include_tags=True)["stream_url"])
    told = stream.event("record")
    assert [(each["$seq"], each["$tag"]) for each in told["records"]] == [(8, "odd")]
    stream.close()
    options = {"include_data": False, "node": "n", "max_batch_bytes": 1}
    stream = Stream(gateway, begin(client, {name: {}}, **options)["stream_url"])
    seen = [stream.event("record")["records"] for _ in range(8)]
    assert [(each["$seq"], "data" in each) for (each,) in seen] == [(seq, False) for seq in (1, 2, 3, 4, 5, 6, 7, 9)]
    stream.close()


def test_losses_are_told_in_positions(gateway, client, servers, name: str) -> None:
    for server in servers:
        server.call("PUT", f"/v0/topics/{name}", {"cap_records": 2})
        server.append(name, "x", "y")
    stream = Stream(gateway, begin(client, {name: {}})["stream_url"])
    lost = stream.event("tombstone", "record")
    assert (lost["gap_from"], lost["gap_to"], lost["head_seq"]) == (1, 5, 9)
    lost = stream.event("tombstone", "record")
    assert (lost["reason"], lost["cause"], lost["gap_from"], lost["gap_to"]) == ("from_seq_too_old", "cap", 6, 7)
    assert numbers(stream, 2) == [8, 9]
    stream.close()


def test_a_deleted_segment_is_a_loss_and_a_deleted_topic_is_told(gateway, client, servers, name: str) -> None:
    url = begin(client, {name: {"from_seq": 2}})["stream_url"]
    servers[0].call("DELETE", f"/v0/topics/{name}")
    stream = Stream(gateway, url)
    lost = stream.event("tombstone", "record")
    assert (lost["reason"], lost["gap_from"], lost["gap_to"]) == ("source_trim", 3, 5)
    assert numbers(stream, 2) == [6, 7]
    servers[1].call("DELETE", f"/v0/topics/{name}")
    gone = stream.event("topic-deleted")
    assert (gone["topic"], gone["head_seq"]) == (name, 7)
    shown = stream.id
    client.append(name, 8)
    assert stream.event("tombstone", "record")["reason"] == "recreated"
    assert numbers(stream, 1) == [8]
    stream.close()
    again = Stream(gateway, url, f"last-event-id: {shown}")
    assert numbers(again, 1) == [8]
    again.close()


def test_a_stream_that_resumes_while_the_topic_is_deleted_waits_for_it(gateway, client, servers, name: str) -> None:
    url = begin(client, {name: {}})["stream_url"]
    stream = Stream(gateway, url)
    numbers(stream, 7)
    shown = stream.id
    stream.close()
    servers[1].call("DELETE", f"/v0/topics/{name}")
    stream = Stream(gateway, url, f"last-event-id: {shown}")
    assert stream.event("topic-deleted")["topic"] == name
    client.append(name, 8)
    assert numbers(stream, 1) == [8]
    stream.close()
    servers[1].call("DELETE", f"/v0/topics/{name}")
    assert client.post("/v0/watch", {"topics": {name: {}}}).code == "topic_not_found"
    servers[1].append(f"{name}-2", 1)
    begun = client.post("/v0/watch?lenient=true", {"topics": {name: {}, f"{name}-2": {}}}).json
    assert set(begun["topics"]) == {f"{name}-2"}


def test_one_watch_follows_a_spliced_topic_and_another(gateway, client, name: str) -> None:
    other = f"{name}-2"
    client.append(other, "a")
    begun = begin(client, {name: {}, other: {}})
    assert set(begun["topics"]) == {name, other}
    stream = Stream(gateway, begun["stream_url"])
    assert stream.records(8) == {name: [1, 2, 3, 4, 5, 6, 7], other: ["a"]}
    client.append(other, "b")
    client.append(name, 8)
    assert stream.records(2) == {name: [8], other: ["b"]}
    shown = stream.id
    client.append(name, 9)
    stream.close()
    client.append(other, "c")
    again = Stream(gateway, begun["stream_url"], f"last-event-id: {shown}")
    assert again.records(2) == {name: [9], other: ["c"]}
    again.close()


def test_events_of_one_topic_go_over_the_seam(gateway, client, name: str) -> None:
    for from_seq in range(8):
        stream = Stream(gateway, f"/v0/topics/{name}/events?lastEventId={name}:{from_seq}")
        for seq in range(from_seq + 1, 8):
            assert stream.event("message")["$seq"] == seq
            assert stream.id == f"{name}:{seq}"
        stream.close()
    stream = Stream(gateway, f"/v0/topics/{name}/events?from_seq=3")
    assert [stream.event("message")["$seq"] for _ in range(4)] == [4, 5, 6, 7]
    stream.close()
    client.post(f"/v0/topics/{name}", {"records": [{"data": 8, "tag": "a"}, {"data": 9, "tag": "b"}]})
    stream = Stream(gateway, f"/v0/topics/{name}/events?from_seq=0&match=b")
    assert stream.event("message")["$seq"] == 9
    client.post(f"/v0/topics/{name}", {"records": [{"data": 10, "tag": "a"}, {"data": 11, "tag": "b"}]})
    assert stream.event("message")["$seq"] == 11
    stream.close()
    assert client.get(f"/v0/topics/{name}/events?from_seq=0&match=b*").status == 400
    assert client.get(f"/v0/topics/{name}/events?from_seq=x").status == 400
    stream = Stream(gateway, f"/v0/topics/{name}/events")
    client.append(name, 12)
    assert stream.event("message")["data"] == 12
    assert stream.id == f"{name}:12"
    stream.close()
    for wrong in ("x", f"{name}:x"):
        assert b"stream-error" in client.get(f"/v0/topics/{name}/events?lastEventId={wrong}").body


@pytest.mark.parametrize("killed", ["old", "new"])
def test_a_server_is_killed_during_a_watch_over_the_seam(
    two_servers, gateways, instances, name: str, killed: str
) -> None:
    """No record is lost, none is seen twice: the client shows its last id, as an EventSource does."""
    server: Instance = instances()
    ports = (server.port, two_servers[1].port) if killed == "old" else (two_servers[0].port, server.port)
    total, upto = 60, 40
    for port, records in zip(ports, (range(1, upto + 1), range(upto + 1, total + 1)), strict=True):
        direct = Client(port)
        direct.call("PUT", f"/v0/topics/{name}", {"durability": "fsync"})
        direct.append(name, *records)
        direct.close()
    gateway = gateways(splice(*ports, {name: segments(name, upto)}))
    url = begin(gateway.client(), {name: {}}, limit=3)["stream_url"]
    kills = {10, 38} if killed == "old" else {10, 44}
    seen: list[int] = []
    shown = ""
    while len(seen) < total:
        stream = Stream(gateway, url, *([f"last-event-id: {shown}"] if shown else []))
        try:
            while stream.status == 200 and len(seen) < total:
                seen += [each["$seq"] for each in stream.event("record")["records"]]
                shown = stream.id
                if kills and len(seen) >= min(kills):
                    kills.discard(min(kills))
                    server.kill()
                    server.start()
        except EOFError:
            pass
        finally:
            stream.close()
        if len(seen) < total:
            until(lambda: gateway.health() == "ready", "the gateway to notice")
    assert seen == list(range(1, total + 1))

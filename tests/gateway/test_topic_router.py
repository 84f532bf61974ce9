"""TopicRouter, in front of two servers: which server a topic reaches, and what both of them hand out."""

import pytest

from tests.gateway.running import by_topic
from tests.gateway.streams import Stream
from tests.instances import until


@pytest.fixture
def gateway(two_servers, gateways):
    return gateways(by_topic(two_servers[0].port, two_servers[1].port))


def test_a_topic_goes_to_the_server_of_its_prefix(gateway, two_servers, name: str) -> None:
    client = gateway.client()
    for topic in (f"eu.{name}", f"us.{name}"):
        assert client.append(topic, 1, 2).json["last_seq"] == 2
        assert [each["data"] for each in client.post(f"/v0/topics/{topic}/diff", {}).json["records"]] == [1, 2]
    first, second = two_servers
    assert first.get(f"/v0/topics/eu.{name}")[0] == second.get(f"/v0/topics/us.{name}")[0] == 200
    assert second.get(f"/v0/topics/eu.{name}")[0] == first.get(f"/v0/topics/us.{name}")[0] == 404


def test_a_router_is_on_the_server_of_its_name(gateway, two_servers, name: str) -> None:
    client = gateway.client()
    for side in ("eu", "us"):
        body = {"source": f"{side}.{name}-a", "dest": f"{side}.{name}-b"}
        assert client.call("PUT", f"/v0/routers/{side}.{name}", body).status == 201
        assert client.get(f"/v0/routers/{side}.{name}").json["source"] == f"{side}.{name}-a"
        refused = client.call("PUT", f"/v0/routers/{'us' if side == 'eu' else 'eu'}.{name}", body)
        assert (refused.status, refused.code) == (400, "invalid_request")
    assert client.call("DELETE", f"/v0/routers/eu.{name}").json["deleted"] is True
    first, second = two_servers
    assert (first.get(f"/v0/routers/eu.{name}")[0], second.get(f"/v0/routers/us.{name}")[0]) == (404, 200)


def test_the_virtual_cluster_is_at_its_prefix_too(gateway, name: str) -> None:
    client = gateway.client(host="elsewhere.example", prefix="/vc/all")
    assert client.append(f"eu.{name}", 1).status == 201
    assert client.get(f"/v0/topics/eu.{name}").json["count"] == 1


def test_another_host_is_404(gateway) -> None:
    refused = gateway.client(host="elsewhere.example").get("/v0/topics")
    assert (refused.status, refused.code) == (404, "unknown_route")


def test_the_exact_name_comes_before_the_longest_prefix(two_servers, gateways, name: str) -> None:
    table = {"topics": {f"{name}.x": "us"}, "prefixes": {name: "us", f"{name}.": "eu"}, "default": None}
    client = gateways(by_topic(two_servers[0].port, two_servers[1].port, **table)).client()
    for topic in (f"{name}.x", f"{name}.y", f"{name}z"):
        assert client.append(topic, 1).status == 201
    first, second = two_servers
    assert first.get(f"/v0/topics/{name}.y")[0] == 200
    assert second.get(f"/v0/topics/{name}.x")[0] == second.get(f"/v0/topics/{name}z")[0] == 200
    refused = client.append("another", 1)
    assert (refused.status, refused.code) == (404, "unknown_route")


def test_a_watch_of_one_server_works_and_its_id_leads_back_there(gateway, name: str) -> None:
    client = gateway.client()
    for topic in (f"eu.{name}", f"us.{name}"):
        client.append(topic, 1)
        begun = client.post("/v0/watch", {"topics": {topic: {}}}).json
        assert begun["wid"].startswith("g_")
        assert begun["stream_url"] == f"/v0/watch/{begun['wid']}"
        with gateway.connect() as opened:
            opened.sendall(f"GET {begun['stream_url']} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n".encode())
            got = b""
            while b"caught-up" not in got:
                got += opened.recv(65536)
        assert b'"data":1' in got


def test_an_id_of_nobody_is_no_session(gateway, name: str) -> None:
    client = gateway.client()
    client.append(f"eu.{name}", 1)
    wid = client.post("/v0/watch", {"topics": {f"eu.{name}": {}}}).json["wid"]
    for wrong in (wid[:-2] + ("AA" if wid[-2:] != "AA" else "BB"), wid[2:], "x"):
        refused = client.get(f"/v0/watch/{wrong}", accept="text/event-stream")
        assert (refused.status, refused.code) == (404, "not_found")


def test_an_id_of_256_topics_with_long_names_resumes(gateway, streams, name: str) -> None:
    client = gateway.client()
    topics = [f"eu.{name}-{number:03}".ljust(255, "x") for number in range(256)]
    for topic in topics:
        client.append(topic, 1)
    url = client.post("/v0/watch", {"topics": {topic: {} for topic in topics}}).json["stream_url"]
    stream = streams(gateway, url)
    assert len(stream.records(256)) == 256
    stream.event("caught-up")
    assert len(stream.id) > 80_000
    client.append(topics[0], 2)
    resumed = streams(gateway, url, f"last-event-id: {stream.id}")
    assert resumed.status == 200
    assert resumed.records(1) == {topics[0]: [2]}


def altered(identifier: str) -> str:
    return identifier[:10] + ("A" if identifier[10] != "A" else "B") + identifier[11:]


def test_ids_of_events_are_signed_and_hold_for_the_streams_of_one_server(gateway, name: str) -> None:
    client = gateway.client()
    begun, ids = {}, {}
    for topic in (f"eu.{name}", f"us.{name}"):
        client.append(topic, 1, 2)
        begun[topic] = client.post("/v0/watch", {"topics": {topic: {}}}).json["stream_url"]
        stream = Stream(gateway, begun[topic])
        assert stream.records(2) == {topic: [1, 2]}
        ids[topic] = stream.id
        stream.close()
        client.append(topic, 3)
    eu, us = begun
    assert ids[eu].startswith("g_")
    again = Stream(gateway, begun[eu], f"last-event-id: {ids[eu]}")
    assert again.records(1) == {eu: [3]}
    again.close()
    plain = ids[eu].partition(".")[2]  # as the server has it
    for wrong in (altered(ids[eu]), ids[eu] + "A", ids[us], plain, "x", "7"):
        refused = client.get(begun[eu], accept="text/event-stream", last_event_id=wrong)
        assert (refused.status, refused.code) == (400, "invalid_request"), wrong
        assert "Last-Event-ID" in refused.json["error"]["message"]


def test_ids_of_one_topics_events_are_its_seqs(gateway, name: str) -> None:
    topic = f"eu.{name}"
    gateway.client().append(topic, 1, 2)
    stream = Stream(gateway, f"/v0/topics/{topic}/events", f"last-event-id: {topic}:1")
    stream.event("message")
    assert stream.id == f"{topic}:2"
    stream.close()


def test_topics_of_two_servers_are_not_watched_together(gateway, name: str) -> None:
    refused = gateway.client().post("/v0/watch", {"topics": {f"eu.{name}": {}, f"us.{name}": {}}})
    assert (refused.status, refused.code) == (400, "invalid_request")


def test_cursors_of_lists_are_wrapped_and_lead_on(gateway, name: str) -> None:
    client = gateway.client()
    for number in range(5):
        client.append(f"us.{name}.{number}", 1)
    listed, query = [], f"prefix=us.{name}&page_size=2"
    first = client.get(f"/v0/topics?{query}").json
    cursor = first["next_cursor"]
    assert cursor.startswith("g_")
    listed += first["topics"]
    while cursor:
        page = client.get(f"/v0/topics?{query}&cursor={cursor}").json
        listed, cursor = listed + page["topics"], page.get("next_cursor")
    assert [each["topic"] for each in listed] == [f"us.{name}.{number}" for number in range(5)]
    refused = client.get(f"/v0/topics?{query}&cursor=x")
    assert (refused.status, refused.code) == (400, "invalid_request")


def test_a_table_in_a_file_is_read_again_when_it_changes(two_servers, gateways, tmp_path, name: str) -> None:
    table = tmp_path / "table.yaml"
    table.write_text("default: eu")
    configuration = by_topic(two_servers[0].port, two_servers[1].port)
    configuration["routerDefinitions"][0]["config"] = {"tableFile": str(table)}
    client = gateways(configuration).client()
    client.append(f"{name}-1", 1)
    table.write_text("default: nowhere")
    table.write_text("default: us")

    def moved() -> bool:
        client.append(f"{name}-2", 1)
        return bool(two_servers[1].get(f"/v0/topics/{name}-2")[0] == 200)

    until(moved, "the new table to be used")
    assert two_servers[0].get(f"/v0/topics/{name}-1")[0] == 200


def test_nodes_have_virtual_ids_and_addresses_of_their_own(gateway, two_servers, name: str) -> None:
    client = gateway.client()
    nodes = client.get("/v0/nodes").json["nodes"]
    assert [(each["id"], each["route"], each["state"]) for each in nodes] == [(0, "eu", "up"), (1, "us", "up")]
    # A node's own address reaches it, whatever the table says of the topic.
    assert client.post(f"{nodes[1]['address']}/v0/topics/eu.{name}", {"records": [{"data": 1}]}).status == 201
    assert two_servers[1].get(f"/v0/topics/eu.{name}")[0] == 200
    assert client.get("/node/9/v0/topics").code == "unknown_route"

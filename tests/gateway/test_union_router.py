"""UnionRouter: two servers, and one list, one watch and one set of names for both."""

import pytest

from tests.gateway.running import Client, union
from tests.gateway.streams import Stream
from tests.instances import free_port


@pytest.fixture
def gateway(two_servers, gateways):
    return gateways(union(two_servers[0].port, two_servers[1].port))


@pytest.fixture
def client(gateway) -> Client:
    return gateway.client()


def test_a_topic_is_on_the_server_that_its_name_begins_with(client, two_servers, name: str) -> None:
    for route, server in zip(("eu", "us"), two_servers, strict=True):
        made = client.append(f"{route}.{name}", {"of": route}).json
        assert (made["topic"], made["created"]) == (f"{route}.{name}", True)
        assert server.get(f"/v0/topics/{name}")[0] == 200
        read = client.post(f"/v0/topics/{route}.{name}/diff", {}).json
        assert (read["topic"], read["records"][0]["data"]) == (f"{route}.{name}", {"of": route})


def test_refusals_speak_of_the_names_that_the_client_knows(client, name: str) -> None:
    refused = client.get(f"/v0/topics/eu.{name}").json["error"]
    assert (refused["code"], refused["detail"]["topic"]) == ("topic_not_found", f"eu.{name}")
    assert f"'eu.{name}'" in refused["message"]
    refused = client.get(f"/v0/topics/asia.{name}")
    assert (refused.status, refused.code) == (404, "topic_not_found")
    assert client.append(f"asia.{name}", 1).status == 404


def test_the_cursor_of_a_router_is_there_under_the_name_in_the_list(client, name: str) -> None:
    client.append(f"eu.{name}-a", 1)
    made = client.call("PUT", f"/v0/routers/eu.{name}", {"source": f"eu.{name}-a", "dest": f"eu.{name}-b"})
    assert made.status == 201
    path = f"/v0/topics/eu.{name}-a/cursors"
    (each,) = client.get(path).json["cursors"]
    assert each["cursor"] == f"eu.{name}"
    found = client.get(f"{path}/{each['cursor']}")
    assert (found.status, found.json.get("cursor"), found.json.get("kind")) == (200, f"eu.{name}", "router")
    assert client.get(f"{path}/{name}-absent").status == 404


def listed(client: Client, query: str) -> list[str]:
    names: list[str] = []
    cursor = ""
    while True:
        page = client.get(f"/v0/topics?{query}" + (f"&cursor={cursor}" if cursor else "")).json
        names += [each["topic"] for each in page["topics"]]
        cursor = page.get("next_cursor", "")
        if not cursor:
            return names


def test_a_page_size_of_thousands_of_digits_is_refused(client) -> None:
    refused = client.get(f"/v0/topics?page_size={'9' * 4_301}")
    assert (refused.status, refused.code) == (400, "invalid_request")


@pytest.mark.parametrize("size", [1, 2, 3, 5, 100])
def test_lists_are_merged_and_paged(client, name: str, size: int) -> None:
    expected = []
    for route, number in (("eu", 5), ("us", 3)):
        for each in range(number):
            client.append(f"{route}.{name}-{each}", 1)
            expected.append(f"{route}.{name}-{each}")
    for prefix, wanted in (
        ("", expected),
        (f"eu.{name}", [each for each in expected if each.startswith("eu.")]),
        (f"us.{name}-1", [f"us.{name}-1"]),
        ("asia.", []),
    ):
        found = listed(client, f"page_size={size}&prefix={prefix}")
        assert [each for each in found if name in each] == wanted
        assert found == sorted(set(found))


def test_a_cursor_of_nobody_is_refused(client) -> None:
    for cursor in ("x", "g_AAAA"):
        refused = client.get(f"/v0/topics?cursor={cursor}")
        assert (refused.status, refused.code) == (400, "invalid_request")


def test_one_watch_follows_both_servers_and_continues_where_it_was(client, gateway, name: str) -> None:
    both = [f"eu.{name}", f"us.{name}"]
    for topic in both:
        client.append(topic, 1, 2)
    begun = client.post("/v0/watch", {"topics": {topic: {} for topic in both}})
    assert begun.json["topics"] == {topic: {"from_seq": 0, "head_seq": 2, "earliest_seq": 1} for topic in both}
    stream = Stream(gateway, begun.json["stream_url"])
    assert stream.records(4) == {topic: [1, 2] for topic in both}
    client.append(both[0], 3)
    assert stream.records(1) == {both[0]: [3]}
    seen = stream.id
    stream.close()
    refused = client.get(begun.json["stream_url"], accept="text/event-stream", last_event_id=seen[:-1])
    assert (refused.status, refused.code) == (400, "invalid_request")
    client.append(both[0], 4)
    client.append(both[1], 3)
    again = Stream(gateway, begun.json["stream_url"], f"last-event-id: {seen}")
    assert again.records(2) == {both[0]: [4], both[1]: [3]}
    again.close()


def test_sigterm_tells_a_stream_of_several_servers(client, gateway, name: str) -> None:
    client.append(f"eu.{name}", 1)
    client.append(f"us.{name}", 1)
    topics = {f"eu.{name}": {}, f"us.{name}": {}}
    stream = Stream(gateway, client.post("/v0/watch", {"topics": topics}).json["stream_url"])
    stream.records(2)
    assert gateway.stop() == 0
    assert stream.event("error")["code"] == "shutting_down"
    stream.close()


def test_a_deleted_topic_is_told_and_the_others_go_on(client, gateway, name: str) -> None:
    both = [f"eu.{name}", f"us.{name}"]
    for topic in both:
        client.append(topic, 1)
    stream = Stream(gateway, client.post("/v0/watch", {"topics": {topic: {} for topic in both}}).json["stream_url"])
    stream.records(2)
    client.call("DELETE", f"/v0/topics/{both[0]}")
    assert stream.event("topic-deleted")["topic"] == both[0]
    client.append(both[1], 2)
    assert stream.records(1) == {both[1]: [2]}
    stream.close()


def test_a_topic_that_is_absent_is_refused_unless_the_watch_is_lenient(client, gateway, name: str) -> None:
    client.append(f"eu.{name}", 1)
    topics = {f"eu.{name}": {}, f"us.{name}": {}}
    refused = client.post("/v0/watch", {"topics": topics})
    assert (refused.status, refused.json["error"]["detail"]["topic"]) == (404, f"us.{name}")
    begun = client.post("/v0/watch?lenient=true", {"topics": topics})
    assert set(begun.json["topics"]) == {f"eu.{name}"}
    stream = Stream(gateway, begun.json["stream_url"])
    assert stream.records(1) == {f"eu.{name}": [1]}
    stream.close()
    assert client.post("/v0/watch", {"topics": {}}).status == 400
    assert client.get("/v0/watch/wid_x", accept="text/event-stream").status == 404


def test_events_of_one_topic_have_its_name_in_their_ids(client, gateway, name: str) -> None:
    client.append(f"us.{name}", 1)
    stream = Stream(gateway, f"/v0/topics/us.{name}/events?lastEventId=us.{name}:0")
    stream.event("message")
    assert stream.id == f"us.{name}:1"
    stream.close()


def test_a_watch_resumes_after_a_last_id_in_the_query(client, gateway, name: str) -> None:
    for n in (1, 2, 3):
        client.append(f"eu.{name}", n)
    begun = client.post("/v0/watch", {"topics": {f"eu.{name}": {"from_seq": 0}}, "limit": 1}).json
    stream = Stream(gateway, begun["stream_url"])
    assert stream.records(1) == {f"eu.{name}": [1]}
    last = stream.id
    stream.close()
    stream = Stream(gateway, f"{begun['stream_url']}?lastEventId={last}&_=1")
    assert stream.records(2) == {f"eu.{name}": [2, 3]}
    stream.close()


def test_routers_stay_within_one_server(client, name: str) -> None:
    wanted = {"source": f"eu.{name}", "dest": f"eu.{name}-copy", "from": "earliest"}
    made = client.call("PUT", f"/v0/routers/eu.{name}", wanted).json
    assert (made["router"], made["source"], made["dest"]) == (f"eu.{name}", f"eu.{name}", f"eu.{name}-copy")
    client.append(f"eu.{name}", 1)
    found = client.get(f"/v0/routers?source=eu.{name}").json["routers"]
    assert [(each["router"], each["dest"]) for each in found] == [(f"eu.{name}", f"eu.{name}-copy")]
    refused = client.call("PUT", f"/v0/routers/eu.{name}", {"source": f"eu.{name}", "dest": f"us.{name}"})
    assert (refused.status, refused.code, refused.json["error"]["detail"]) == (
        400,
        "invalid_request",
        {"field": "dest"},
    )
    assert "another server" in refused.json["error"]["message"]
    assert client.call("DELETE", f"/v0/routers/eu.{name}").json["deleted"] is True


def test_what_is_about_one_server_says_so(client) -> None:
    refused = client.get("/v0/metrics")
    assert (refused.status, refused.code) == (501, "not_offered")
    assert client.get("/topics").status == 501
    assert client.get("/node/0/v0/metrics").status == 200
    paths = client.get("/v0/schema", accept="application/json").json["paths"]
    assert "/v0/metrics" not in paths
    assert {"get", "post"} <= paths["/v0/topics/{topic}"].keys()


def test_a_part_that_failed_is_an_error_unless_the_client_takes_the_rest(two_servers, gateways, name: str) -> None:
    client = gateways(union(two_servers[0].port, free_port())).client()
    client.append(f"eu.{name}", 1)
    refused = client.get("/v0/topics")
    assert (refused.status, refused.code) == (502, "routes_failed")
    assert refused.json["error"]["detail"]["route_errors"]["us"]["code"] == "node_unreachable"
    part = client.get("/v0/topics?partial=true&prefix=&page_size=1000").json
    assert f"eu.{name}" in [each["topic"] for each in part["topics"]]
    assert part["route_errors"]["us"]["code"] == "node_unreachable"
    assert client.append(f"us.{name}", 1).status == 502


def test_it_is_ready_if_all_routes_are(client, two_servers, gateways) -> None:
    for path in ("/v0/ready", "/v0/health"):
        assert client.get(path).status == client.call("HEAD", path).status == 200
    one = client.get("/node/0/v0/ready").json
    assert client.get("/v0/ready").json["topics"] >= one["topics"]
    broken = gateways(union(two_servers[0].port, free_port())).client()
    for path in ("/v0/ready", "/v0/health"):
        refused = broken.get(path)
        assert (refused.status, refused.code, refused.json["error"]["detail"]["routes"]) == (503, "not_ready", ["us"])


def test_schedules_have_the_names_of_the_client(client, name: str) -> None:
    client.call("PUT", f"/v0/topics/eu.{name}", {"type": "queue"})
    for _ in range(2):
        put = client.call("PUT", f"/v0/topics/eu.{name}/schedules/s", {"cron": "0 3 * * *", "data": 1})
        assert (put.status in (200, 201), put.json["topic"], put.json["error"]) == (True, f"eu.{name}", None)
    assert client.get(f"/v0/topics/eu.{name}/schedules/s").json["topic"] == f"eu.{name}"
    listed = client.get(f"/v0/topics/eu.{name}/schedules").json
    assert [each["topic"] for each in listed["schedules"]] == [f"eu.{name}"]

"""SpliceRouter: one topic out of two servers, whose seqs continue from the one to the other."""

import gzip
import json
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

import pytest
import yaml

from tests.gateway.running import Client, Running
from tests.gateway.splicing import splice
from tests.gateway.streams import Stream
from tests.instances import ROOT, free_port
from tests.preloaded import run

OLD = 5  # records on the old server: seqs 1 to 5


@pytest.fixture
def servers(two_servers) -> Iterator[tuple[Client, Client]]:
    """The old server and the new one, asked past the gateway."""
    clients = Client(two_servers[0].port), Client(two_servers[1].port)
    yield clients
    for each in clients:
        each.close()


@pytest.fixture
def both(two_servers, servers, gateways, name: str) -> Callable[..., Running]:
    """Starts a gateway with the topic `name`: `OLD` records are on the old server, and the new one has an empty topic."""

    def begin(**old: Any) -> Running:
        for server in servers:
            server.call("PUT", f"/v0/topics/{name}", {})
        servers[0].append(name, *range(1, OLD + 1))
        segments = [{"route": "old", "topic": name, "upto": OLD, **old}, {"route": "new", "topic": name}]
        return gateways(splice(two_servers[0].port, two_servers[1].port, {name: segments}))

    return begin


@pytest.fixture
def gateway(both) -> Running:
    return both()


@pytest.fixture
def client(gateway) -> Client:
    return gateway.client()


def diff(client: Client, topic: str, **body: Any) -> Any:
    answer = client.post(f"/v0/topics/{topic}/diff", body)
    assert answer.status == 200, answer.body
    return answer.json


def seqs(window: Any) -> list[int]:
    return [each["$seq"] for each in window["records"]]


def test_appends_continue_behind_the_old_topic(client, name: str) -> None:
    made = client.append(name, 6, 7).json
    assert (made["topic"], made["first_seq"], made["last_seq"], made["seqs"], made["head_seq"]) == (
        name,
        6,
        7,
        [6, 7],
        7,
    )
    window = diff(client, name)
    assert seqs(window) == [1, 2, 3, 4, 5, 6, 7] == [each["data"] for each in window["records"]]
    assert {key: window[key] for key in ("topic", "next_from_seq", "head_seq", "earliest_seq", "caught_up", "lag")} == {
        "topic": name,
        "next_from_seq": 7,
        "head_seq": 7,
        "earliest_seq": 1,
        "caught_up": True,
        "lag": 0,
    }
    assert window["tombstone"] is None


@pytest.mark.parametrize("limit", [1, 2, 3, 5, 6, 7, 100])
def test_every_window_is_as_of_one_topic(client, name: str, limit: int) -> None:
    client.append(name, 6, 7, 8)
    for from_seq in range(9):
        expected = list(range(from_seq + 1, 9))[:limit]
        next_seq = expected[-1] if expected else from_seq
        window = diff(client, name, from_seq=from_seq, limit=limit)
        assert seqs(window) == expected
        assert (window["next_from_seq"], window["lag"], window["caught_up"]) == (next_seq, 8 - next_seq, next_seq == 8)
        query = client.get(f"/v0/topics/{name}/records?from_seq={from_seq}&limit={limit}").json
        assert query.pop("performance")
        assert window.pop("performance")
        assert query == window


def test_a_long_poll_waits_at_the_end_and_nowhere_else(gateway, client, name: str) -> None:
    assert seqs(diff(client, name, from_seq=3, wait_ms=30_000)) == [4, 5]
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(diff, gateway.client(), name, from_seq=OLD, wait_ms=30_000)
        assert not wait([waiting], 0.2).done
        client.append(name, 6)
        assert seqs(waiting.result()) == [6]
    assert seqs(diff(client, name, from_seq=6, wait_ms=1)) == []


def test_a_read_begins_at_a_time(servers, client, name: str) -> None:
    client.append(name, 6)
    records = diff(client, name)["records"]
    for each in records:
        first = next(one for one in records if one["$ts"] >= each["$ts"])
        assert seqs(diff(client, name, from_ts=each["$ts"]))[0] == first["$seq"]
        found = client.get(f"/v0/topics/{name}/records?from_ts={each['$ts']}").json
        assert seqs(found)[0] == first["$seq"]
    assert seqs(diff(client, name, from_ts=records[-1]["$ts"] + 3_600_000)) == []
    for backward in {"tail": 3}, {"order": "desc"}:
        refused = client.post(f"/v0/topics/{name}/diff", backward)
        assert (refused.status, refused.json["error"]["detail"]["field"]) == (400, *backward)
    refused = client.post(f"/v0/topics/{name}/diff", {"from_ts": 1, "from_seq": 1})
    assert (refused.status, refused.code) == (400, "invalid_request")


def test_a_match_and_a_node_leave_records_out_on_both_sides(servers, client, name: str) -> None:
    for number, tag in ((6, "even"), (7, "odd"), (8, "even")):
        client.post(f"/v0/topics/{name}", {"records": [{"data": number, "tag": tag, "node": tag}]})
    window = diff(client, name, match=["tag", "Eq", "even"], limit=7)
    assert (seqs(window), window["next_from_seq"], window["caught_up"]) == ([6], 7, False)
    window = diff(client, name, node="even", from_seq=4, include_tags=True)
    assert (seqs(window), window["records"][-1]["$tag"], window["caught_up"]) == ([5, 7], "odd", True)
    assert seqs(client.get(f"/v0/topics/{name}/records?match=odd").json) == [7]


def test_records_evicted_on_either_server_are_told_in_positions(servers, client, name: str) -> None:
    client.append(name, 6, 7, 8, 9)
    for server in servers:
        server.call("PUT", f"/v0/topics/{name}", {"cap_records": 2})
        server.append(name, "one more")  # evicts, and on the old server lies behind the end
    first = diff(client, name, limit=1)
    gap = {"gap_from": 1, "gap_to": 4, "reason": "cap", "missed_estimate": 4, "earliest_seq": 5, "head_seq": 10}
    assert (first["tombstone"], seqs(first), first["next_from_seq"]) == (gap, [5], 5)
    second = diff(client, name, from_seq=5)
    gap = {"gap_from": 6, "gap_to": 8, "reason": "cap", "missed_estimate": 3, "earliest_seq": 9, "head_seq": 10}
    assert (second["tombstone"], seqs(second)) == (gap, [9, 10])
    both = diff(client, name, from_seq=4)
    assert (both["tombstone"], seqs(both), both["next_from_seq"]) == (None, [5], 5)  # the loss begins the next answer


def test_a_deleted_segment_is_a_loss(servers, client, name: str) -> None:
    client.append(name, 6)
    servers[0].call("DELETE", f"/v0/topics/{name}")
    window = diff(client, name, from_seq=2)
    told = {key: window["tombstone"][key] for key in ("gap_from", "gap_to", "reason", "missed_estimate")}
    assert told == {"gap_from": 3, "gap_to": 5, "reason": "source_trim", "missed_estimate": 3}
    assert (seqs(window), window["caught_up"], window["earliest_seq"]) == ([6], True, 6)
    assert client.get(f"/v0/topics/{name}/records/2").status == 404
    assert client.get(f"/v0/topics/{name}").json["count"] == 1
    servers[1].call("DELETE", f"/v0/topics/{name}")
    refused = client.post(f"/v0/topics/{name}/diff", {})
    assert (refused.status, refused.code) == (404, "topic_not_found")


def test_a_cursor_of_another_log_reads_all_of_this_one(client, name: str) -> None:
    window = diff(client, name, from_seq=99)
    told = {key: window["tombstone"][key] for key in ("gap_from", "gap_to", "reason", "missed_estimate")}
    assert told == {"gap_from": 1, "gap_to": 0, "reason": "recreated", "missed_estimate": 0}
    assert seqs(window) == [1, 2, 3, 4, 5]


def test_one_record_says_where_it_is(client, name: str) -> None:
    client.append(name, 6)
    for seq in (2, 5, 6):
        found = client.get(f"/v0/topics/{name}/records/{seq}").json
        assert (found["$seq"], found["data"]) == (seq, seq)
        assert found["path"] == {"topic": name, "seq": seq, "routers": []}
    refused = client.get(f"/v0/topics/{name}/records/7").json["error"]
    assert (refused["code"], refused["detail"]) == ("not_found", {"topic": name, "seq": 7})
    assert refused["message"] == f"topic '{name}' has no record 7"
    for wrong in ("0", "x", "-1"):
        assert client.get(f"/v0/topics/{name}/records/{wrong}").status == 400


def test_an_expected_head_is_a_position(client, name: str) -> None:
    for wrong in (0, 4, 6):
        refused = client.append(name, 6, expected_head=wrong)
        assert (refused.status, refused.code) == (409, "head_mismatch")
        error = refused.json["error"]
        assert error["detail"] == {"head_seq": 5, "expected_head": wrong}
        assert error["message"] == f"the head is 5, not {wrong}: read the topic, then append again"
    assert client.append(name, 6, expected_head=5).json["first_seq"] == 6
    zipped = gzip.compress(json.dumps({"records": [{"data": 7}], "expected_head": 6}).encode())
    assert client.post(f"/v0/topics/{name}", zipped, content_encoding="gzip").json["first_seq"] == 7


def test_an_idempotency_key_names_positions(client, name: str) -> None:
    key = f"{name[:60]}-key-long-enough"
    client.append(name, 6, idempotency_key=key)
    again = client.append(name, 6, idempotency_key=key).json
    assert (again["first_seq"], again["deduped"]) == (6, True)
    refused = client.append(name, "other", idempotency_key=key).json["error"]
    assert refused["code"] == "idempotency_mismatch"
    assert refused["detail"] == {"key": key, "first_seq": 6, "last_seq": 6}
    assert "seqs 6 to 6" in refused["message"]
    last = client.get(f"/v0/topics/{name}/appends?key_prefix={key}").json["last"]
    assert (last["key"], last["first_seq"], last["last_seq"]) == (key, 6, 6)


def test_the_last_append_may_be_on_the_old_server(servers, client, name: str) -> None:
    key = f"{name[:60]}-key-long-enough"
    assert client.get(f"/v0/topics/{name}/appends?key_prefix={key}").json["last"] is None
    refused = client.get(f"/v0/topics/{name}/appends?key_prefix=short")
    assert refused.status == 400
    servers[0].append(name, "behind the end", idempotency_key=key)
    assert client.get(f"/v0/topics/{name}/appends?key_prefix={key}").json["last"] is None


def test_the_topic_is_told_as_one(servers, client, name: str) -> None:
    client.append(name, 6, 7)
    found = client.get(f"/v0/topics/{name}").json
    expected = {"topic": name, "head_seq": 7, "next_seq": 8, "earliest_seq": 1, "count": 7}
    assert {key: found[key] for key in expected} == expected
    assert found["bytes"] == sum(json.loads(server.get(f"/v0/topics/{name}").body)["bytes"] for server in servers)
    changed = client.call("PUT", f"/v0/topics/{name}", {"ttl_ms": 10**12}).json
    assert (changed["topic"], changed["created"], changed["config"]["ttl_ms"]) == (name, False, 10**12)
    assert client.get(f"/v0/topics/{name}").json["config"]["ttl_ms"] == 10**12


def test_records_are_deleted_on_both_sides_of_the_seam(client, name: str) -> None:
    for number in (6, 7, 8):
        client.post(f"/v0/topics/{name}", {"records": [{"data": number, "tag": "odd" if number % 2 else "even"}]})
    done = client.post(f"/v0/topics/{name}/delete", {"before_seq": 3}).json
    assert {key: done[key] for key in ("topic", "deleted", "earliest_seq", "head_seq", "count")} == {
        "topic": name,
        "deleted": 2,
        "earliest_seq": 3,
        "head_seq": 8,
        "count": 6,
    }
    assert client.post(f"/v0/topics/{name}/delete", {"match": "odd"}).json["deleted"] == 1
    assert client.post(f"/v0/topics/{name}/delete", {"match": "even", "before_seq": 7}).json["deleted"] == 1
    window = diff(client, name)
    assert (seqs(window), window["tombstone"]) == ([3, 4, 5, 8], None)
    assert client.post(f"/v0/topics/{name}/delete", {"before_seq": 8}).json["deleted"] == 3
    for wrong in ({}, {"before_seq": -1}, {"match": 1}, {"before": 1}):
        refused = client.post(f"/v0/topics/{name}/delete", wrong)
        assert (refused.status, refused.code) == (400, "invalid_request"), wrong
    assert diff(client, name)["earliest_seq"] == 8


def test_records_are_deleted_by_seq_on_both_sides_of_the_seam(client, name: str) -> None:
    client.append(name, 6, 7, 8)
    done = client.post(f"/v0/topics/{name}/delete", {"seqs": [7, 2, 4, 99]}).json
    assert (done["deleted"], done["count"], done["head_seq"]) == (3, 5, 8)
    window = diff(client, name)
    assert (seqs(window), window["tombstone"]) == ([1, 3, 5, 6, 8], None)
    assert client.post(f"/v0/topics/{name}/delete", {"seqs": [2, 7]}).json["deleted"] == 0
    for wrong in ({"seqs": [1], "before_seq": 3}, {"seqs": ["1"]}, {"seqs": 1}, {"seqs": [1] * 5001}):
        refused = client.post(f"/v0/topics/{name}/delete", wrong)
        assert (refused.status, refused.code) == (400, "invalid_request"), wrong
    assert seqs(diff(client, name)) == [1, 3, 5, 6, 8]


def test_a_null_in_a_delete_is_a_member_that_is_absent(client, name: str) -> None:
    client.append(name, 6, 7, 8)
    for nothing in ({"match": None}, {"match": None, "before_seq": None, "seqs": None}):
        refused = client.post(f"/v0/topics/{name}/delete", nothing)
        assert (refused.status, refused.code) == (400, "invalid_request"), nothing
    assert seqs(diff(client, name)) == [1, 2, 3, 4, 5, 6, 7, 8]
    done = client.post(f"/v0/topics/{name}/delete", {"seqs": [7, 2], "match": None, "before_seq": None})
    assert (done.status, done.json["deleted"]) == (200, 2)
    done = client.post(f"/v0/topics/{name}/delete", {"before_seq": 2, "match": None, "seqs": None})
    assert (done.status, done.json["deleted"]) == (200, 1)
    assert seqs(diff(client, name)) == [3, 4, 5, 6, 8]


def test_records_of_a_sealed_segment_are_not_deleted(servers, client, name: str) -> None:
    client.append(name, 6)
    servers[0].call("PUT", f"/v0/topics/{name}", {"sealed": True})
    for body in ({"before_seq": 3}, {"before_seq": 7}):
        refused = client.post(f"/v0/topics/{name}/delete", body)
        assert (refused.status, refused.code) == (409, "topic_sealed")
    read = client.post(f"/v0/topics/{name}/diff", {})
    assert seqs(read.json) == [1, 2, 3, 4, 5, 6]
    assert "topics-sealed" not in read.headers | client.get(f"/v0/topics/{name}/records/1").headers
    assert "topics-sealed" not in client.get(f"/v0/topics/{name}").headers
    assert client.append(name, 7).json["first_seq"] == 7


def test_the_whole_topic_is_deleted_and_continues(servers, client, name: str) -> None:
    client.append(name, 6)
    refused = client.call("DELETE", f"/v0/topics/{name}?if_empty=true")
    assert (refused.status, refused.code) == (409, "topic_not_empty")
    assert client.get(f"/v0/topics/{name}").json["count"] == 6
    assert client.call("DELETE", f"/v0/topics/{name}").json["deleted"] is True
    assert [server.get(f"/v0/topics/{name}").status for server in (*servers, client)] == [404, 404, 404]
    assert client.call("DELETE", f"/v0/topics/{name}").json["deleted"] is False
    made = client.append(name, 7).json
    assert (made["created"], made["first_seq"]) == (True, 7)
    window = diff(client, name)
    assert (window["tombstone"]["gap_from"], seqs(window), window["next_from_seq"]) == (1, [], 5)
    window = diff(client, name, from_seq=5)
    assert (window["tombstone"]["reason"], window["tombstone"]["gap_to"], seqs(window)) == ("recreated", 6, [7])


def test_a_new_server_that_had_a_topic_of_this_name(two_servers, servers, gateways, name: str) -> None:
    """`from`: seqs that the new server gave out before."""
    servers[0].append(name, 1, 2)
    servers[1].append(name, "a", "b", "c")
    servers[1].call("DELETE", f"/v0/topics/{name}")
    servers[1].append(name, "hidden", create=True)
    segments = [{"route": "old", "topic": name, "upto": 2}, {"route": "new", "topic": name, "from": 4}]
    client = gateways(splice(two_servers[0].port, two_servers[1].port, {name: segments})).client()
    assert client.append(name, 3).json["first_seq"] == 3
    window = diff(client, name)
    assert (seqs(window), [each["data"] for each in window["records"]]) == ([1, 2, 3], [1, 2, 3])
    assert (window["tombstone"], window["earliest_seq"], window["head_seq"]) == (None, 1, 3)
    assert seqs(diff(client, name, from_seq=2)) == [3]
    assert client.get(f"/v0/topics/{name}").json["count"] == 3


def test_a_sealed_last_segment_is_said_to_be(client, name: str) -> None:
    assert client.call("PUT", f"/v0/topics/{name}", {"sealed": True}).headers["topics-sealed"] == "1"
    refused = client.append(name, 6)
    assert (refused.status, refused.code) == (409, "topic_sealed")
    for from_seq in (0, OLD):
        assert client.post(f"/v0/topics/{name}/diff", {"from_seq": from_seq}).headers["topics-sealed"] == "1"
    assert client.get(f"/v0/topics/{name}").headers["topics-sealed"] == "1"
    assert diff(client, name, from_seq=OLD, wait_ms=30_000)["caught_up"]


def test_readers_at_the_end_do_not_need_the_old_server(two_servers, servers, gateways, name: str) -> None:
    servers[1].append(name, 6)
    segments = [{"route": "old", "topic": name, "upto": 5}, {"route": "new", "topic": name}]
    client = gateways(splice(free_port(), two_servers[1].port, {name: segments})).client()
    assert client.append(name, 7).json["first_seq"] == 7
    window = diff(client, name, from_seq=5)
    assert (seqs(window), window["earliest_seq"]) == ([6, 7], 1)
    refused = client.post(f"/v0/topics/{name}/diff", {})
    assert (refused.status, refused.code) == (502, "node_unreachable")
    assert client.get(f"/v0/topics/{name}").status == 502


def test_a_window_of_large_records_ends_at_the_seam(servers, client, name: str) -> None:
    large = "x" * 300_000
    servers[0].append(name, "behind the end")
    client.append(name, large, large, large, large)
    for _ in range(20):  # the connection to a server serves again after a large answer
        assert seqs(diff(client, name, from_seq=4)) == [5, 6, 7, 8]
    assert seqs(diff(client, name, from_seq=8)) == [9]


def test_a_head_and_the_methods_are_as_of_any_topic(client, name: str) -> None:
    for path in (f"/v0/topics/{name}", f"/v0/topics/{name}/records", f"/v0/topics/{name}/records/1"):
        found = client.call("HEAD", path)
        assert (found.status, found.body) == (200, b"")
    found = client.call("OPTIONS", f"/v0/topics/{name}/records")
    assert (found.status, "GET" in found.headers["allow"]) == (204, True)


def test_two_topics_of_one_server_with_keys(gateways, instances, name: str) -> None:
    """The client's key goes along with what the gateway asks, also as `?token=` of a stream."""
    server = instances(TOPICS_API_KEYS="the-secret-of-all:read+write+delete+admin")
    configuration = splice(
        server.port,
        server.port,
        {name: [{"route": "old", "topic": f"{name}-1", "upto": 2}, {"route": "old", "topic": f"{name}-2"}]},
        default="old",
    )
    configuration["clusterDefinitions"].pop()
    configuration["routerDefinitions"][0]["routes"].pop()
    gateway = gateways(configuration)
    client, key = gateway.client(), {"authorization": "Bearer the-secret-of-all"}
    for topic in (f"{name}-1", name):
        assert client.post(f"/v0/topics/{topic}", {"records": [{"data": 1}, {"data": 2}]}, **key).status == 201
    refused = client.post(f"/v0/topics/{name}/diff", {})
    assert (refused.status, refused.code) == (401, "unauthorized")
    read = client.post(f"/v0/topics/{name}/diff", {}, **key).json
    assert (seqs(read), read["earliest_seq"]) == ([1, 2, 3, 4], 1)
    url = client.post("/v0/watch", {"topics": {name: {}}}, **key).json["stream_url"]
    assert client.get(url, accept="text/event-stream").status == 401
    stream = Stream(gateway, f"{url}?token=the-secret-of-all")
    assert stream.records(4) == {name: [1, 2, 1, 2]}
    shown = stream.id
    stream.close()
    client.post(f"/v0/topics/{name}", {"records": [{"data": 3}]}, **key)
    stream = Stream(gateway, url, f"last-event-id: {shown}", "authorization: Bearer the-secret-of-all")
    assert stream.records(1) == {name: [3]}
    stream.close()
    listed = client.get(f"/v0/topics?prefix={name}", **key).json["topics"]
    assert [each["topic"] for each in listed] == [name, f"{name}-1", f"{name}-2"]


# -- Cursors, lists, and what is not spliced ---------------------------------------------------------------------------


def test_a_cursor_moves_over_the_seam_and_back(servers, client, name: str) -> None:
    path = f"/v0/topics/{name}/cursors/billing"
    client.append(name, 6, 7)
    assert client.get(path).status == 404
    servers[0].call("PUT", path, {"seq": 2})  # before the splice
    for seq in (3, 5, 6, 7, 1, 5, 4):
        before = client.get(path).json["seq"]
        refused = client.call("PUT", path, {"seq": seq, "expected_seq": before + 1})
        assert (refused.status, refused.code) == (409, "cursor_moved")
        error = refused.json["error"]
        assert error["detail"] == {"seq": before, "expected_seq": before + 1}
        assert error["message"] == f"the cursor is at {before}, not at {before + 1}: another reader moved it"
        moved = client.call("PUT", path, {"seq": seq, "expected_seq": before})
        assert (moved.status, moved.json["created"]) == (200, False), moved.body
        for told in (moved.json, client.get(path).json):
            assert (told["topic"], told["cursor"], told["seq"], told["lag"]) == (name, "billing", seq, 7 - seq)
            assert (told["oldest_unread_ms"] is None) == (seq == 7)
    for body, seq in (({"at": "head"}, 7), ({"at": "earliest"}, 0), ({"from_ts": 1}, 0)):
        assert client.call("PUT", path, body).json["seq"] == seq
    refused = client.call("PUT", path, {"seq": 8})
    assert (refused.status, refused.json["error"]["message"]) == (400, "seq 8 is above the head: expected at most 7")
    assert refused.json["error"]["detail"] == {"reason": "above_head", "seq": 8, "head_seq": 7}
    assert client.call("PUT", path, {"seq": 1, "at": "head"}).status == 400
    assert client.call("DELETE", path).json["deleted"] is True
    assert client.get(path).status == 404
    made = client.call("PUT", path, {"seq": 1, "expected_seq": 0})
    assert (made.status, made.json["created"]) == (201, True)


def test_a_seq_of_thousands_of_digits_is_refused(client, name: str) -> None:
    refused = client.get(f"/v0/topics/{name}/records/{'9' * 4_301}")
    assert (refused.status, refused.code) == (400, "invalid_request")


def test_cursors_are_listed_once(client, name: str) -> None:
    client.append(name, 6)
    for number, seq in enumerate((1, 5, 6, 2, 6)):
        client.call("PUT", f"/v0/topics/{name}/cursors/c{number}", {"seq": 1})
        client.call("PUT", f"/v0/topics/{name}/cursors/c{number}", {"seq": seq})
    for size in (1, 2, 5, 100):
        found, cursor = [], ""
        while True:
            page = client.get(f"/v0/topics/{name}/cursors?page_size={size}" + (f"&cursor={cursor}" if cursor else ""))
            found += [(each["cursor"], each["seq"]) for each in page.json["cursors"]]
            cursor = page.json.get("next_cursor")
            if not cursor:
                break
        assert found == [("c0", 1), ("c1", 5), ("c2", 6), ("c3", 2), ("c4", 6)]
    assert client.get(f"/v0/topics/{name}/cursors?cursor=x").status == 400


def test_the_list_has_the_spliced_topic_once(client, name: str) -> None:
    client.append(name, 6)
    for other in (f"{name}-2", name[:-1], f"{name}-1"):
        assert client.append(other, 1).status == 201
    for size in (1, 2, 3, 100):
        found = list(listed(client, f"prefix={name[:-1]}&page_size={size}"))
        assert [each["topic"] for each in found] == [name[:-1], name, f"{name}-1", f"{name}-2"]
        assert (found[1]["head_seq"], found[1]["count"], found[1]["durable"]) == (6, 6, False)


def listed(client: Client, query: str) -> Iterator[Any]:
    cursor = ""
    while True:
        page = client.get(f"/v0/topics?{query}" + (f"&cursor={cursor}" if cursor else "")).json
        yield from page["topics"]
        cursor = page.get("next_cursor", "")
        if not cursor:
            return


def test_what_cannot_be_offered_says_so(client, name: str) -> None:
    refused = client.call("PUT", f"/v0/routers/{name}", {"source": name, "dest": f"{name}-copy"})
    assert (refused.status, refused.code) == (501, "not_offered")
    letters = {"type": "queue", "dead_letter": name}
    for refused in (
        client.call("PUT", f"/v0/topics/{name}-jobs", letters),
        client.append(f"{name}-jobs", 1, config=letters),
        client.post(f"/v0/topics/{name}-letters/redrive", {"queue": name}),
    ):
        assert (refused.status, refused.code) == (501, "not_offered"), refused.body
    assert client.get("/v0/metrics").code == "not_offered"
    made = client.call("PUT", f"/v0/routers/{name}", {"source": f"{name}-a", "dest": f"{name}-b"})
    assert made.status == 201
    refused = client.post(f"/v0/topics/{name}/diff", {"form_seq": 1})
    assert (refused.status, refused.json["error"]["detail"]["nearest"]) == (400, "from_seq")
    for wrong in ({"limit": 0}, {"from_seq": "x"}, {"wait_ms": -1}, {"match": ["tag", "Like", "x"]}):
        assert client.post(f"/v0/topics/{name}/diff", wrong).status == 400, wrong


@pytest.mark.parametrize(
    ("segments", "fault"),
    [
        ([], "expected at least one segment"),
        ([{"route": "old", "topic": "a"}, {"route": "new", "topic": "a"}], "segment 1 needs an upto"),
        ([{"route": "new", "topic": "a", "upto": 5}], "remove its upto"),
        ([{"upto": 5}], "needs a route and a topic"),
        ([{"route": "old", "topic": "a", "upto": 5, "from": 5}, {"route": "new", "topic": "a"}], "is empty"),
        ([{"route": "else", "topic": "a", "upto": 5}, {"route": "new", "topic": "a"}], "route 'else' does not exist"),
        ([{"route": "old", "topic": "ä", "upto": 5}, {"route": "new", "topic": "a"}], "topic"),
    ],
)
def test_a_splice_that_cannot_work_is_refused(tmp_path, segments: Any, fault: str) -> None:
    file = tmp_path / "gateway.yaml"
    file.write_text(yaml.safe_dump(splice(1, 2, {"a": segments})))
    done = run([sys.executable, str(ROOT / "manage.py"), "gateway", "check", str(file)])
    assert done.returncode != 0
    assert fault in done.stdout + done.stderr


def test_a_segment_that_no_server_has_any_more_is_a_loss(two_servers, servers, gateways, name: str) -> None:
    servers[1].append(name, 6)
    segments = [{"upto": 5}, {"route": "new", "topic": name}]
    configuration = splice(two_servers[0].port, two_servers[1].port, {name: segments})
    configuration["clusterDefinitions"].pop(0)
    configuration["routerDefinitions"][0]["routes"] = [{"name": "new", "id": 0, "target": {"cluster": "new"}}]
    client = gateways(configuration).client()
    window = diff(client, name)
    assert (window["tombstone"]["gap_to"], seqs(window)) == (5, [6])

"""The calls on records and topics, as of a server (docs/kafka.md)."""

import ctypes
import json
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.deadlines import DEADLINE
from tests.gateway.running import Client, Running
from tests.gateway.streams import Stream
from tests.instances import until
from tests.kafka.broker import Broker

pytestmark = pytest.mark.kafka
SPELLED = b'{"b": 1.50, "a": [1e3, "\xc3\xa9"], "a": null}'
ODD = b'{"records": [{"data": %b, "tag": "x:1", "meta": {"k":  "v"}}, {"data": null}]}' % SPELLED


def read(client: Client, topic: str, **wanted: Any) -> Any:
    answer = client.post(f"/v0/topics/{topic}/diff", wanted)
    assert answer.status == 200, answer.body
    return answer.json


def data(page: Any) -> list[Any]:
    return [each["data"] for each in page["records"]]


def test_records_come_back_byte_for_byte_with_consecutive_seqs(client: Client, name: str) -> None:
    first = client.post(f"/v0/topics/{name}", ODD)
    assert (first.status, first.json["seqs"], first.json["created"]) == (201, [1, 2], True)
    assert client.append(name, 3, node="shop").json["seqs"] == [3]
    raw = client.post(f"/v0/topics/{name}/diff", {"include_tags": True}).body
    assert b'"$tag":"x:1","meta":{"k":  "v"},"data":%b' % SPELLED in raw
    page = read(client, name)
    assert [(each["$seq"], each.get("$node")) for each in page["records"]] == [(1, None), (2, None), (3, "shop")]
    assert (page["next_from_seq"], page["head_seq"], page["earliest_seq"], page["lag"]) == (3, 3, 1, 0)
    assert (page["caught_up"], page["tombstone"]) == (True, None)
    one = client.get(f"/v0/topics/{name}/records/1").json
    assert (one["$tag"], one["path"]) == ("x:1", {"topic": name, "seq": 1, "routers": []})
    assert client.get(f"/v0/topics/{name}/records/4").code == "not_found"


def test_a_record_is_a_message_that_kafkas_clients_read(broker: Broker, client: Client, name: str) -> None:
    client.post(
        f"/v0/topics/{name}", {"records": [{"data": [1], "tag": "é", "node": "n", "meta": {"m": 1}}, {"data": 2}]}
    )
    consumer = Consumer({"bootstrap.servers": broker.address, "group.id": "test"})
    consumer.assign([TopicPartition(name, 0, 0)])
    first, second = consumer.consume(2, 30)
    assert (first.value(), first.key()) == (b"[1]", "é".encode())
    assert first.headers() == [("topics.node", b"n"), ("topics.meta", b'{"m":1}'.replace(b":", b": "))]
    assert (second.value(), second.key(), second.headers()) == (b"2", None, None)
    consumer.close()


def test_what_kafkas_clients_write_appears_and_no_message_stops_a_reader(
    broker: Broker, client: Client, name: str
) -> None:
    client.call("PUT", f"/v0/topics/{name}", {})
    producer = Producer({"bootstrap.servers": broker.address, "compression.type": "zstd", "linger.ms": 20})
    odd = [b'{"ok": 1}', b"no json", b"\xff", b"[" * 200 + b"]" * 200, b"", b'"\\ud800"']
    for value in odd:
        producer.produce(name, value, partition=0)
    producer.produce(name, None, key=b"\xff", partition=0, headers=[("h", b"text"), ("b", b"\xff"), ("none", None)])
    producer.produce(name, b"1", key="k", partition=0, headers=[("topics.meta", b"no object"), ("topics.node", b"n")])
    assert producer.flush(30) == 0
    found = read(client, name, include_tags=True)["records"]
    assert [each["$seq"] for each in found] == list(range(1, 9))
    assert found[0]["data"] == {"ok": 1}
    assert [list(each["data"]) for each in found[1:6]] == [["$base64"]] * 5
    assert found[1]["data"] == {"$base64": "bm8ganNvbg=="}
    assert (found[6]["data"], found[6]["meta"]) == (None, {"h": "text", "b": {"$base64": "/w=="}, "none": None})
    assert "$tag" not in found[6]
    assert (found[7]["$tag"], found[7]["$node"], "meta" in found[7]) == ("k", "n", False)


@pytest.mark.parametrize("message", [{"value": b"1", "headers": [("h", b"x" * 30_000)]}, {"value": b"\xff" * 30_000}])
def test_limits_of_bytes_count_what_is_shown(
    broker: Broker, gateway: Running, client: Client, name: str, message: dict[str, Any]
) -> None:
    client.call("PUT", f"/v0/topics/{name}", {})
    producer = Producer({"bootstrap.servers": broker.address})
    for _ in range(100):
        producer.produce(name, partition=0, **message)
    assert producer.flush(DEADLINE) == 0

    def size(records: list[Any]) -> int:
        parts = [part for each in records for part in (each["data"], each.get("meta"))]
        return sum(len(json.dumps(part)) for part in parts if part is not None)

    seqs: list[int] = []
    while len(seqs) < 100:
        page = read(client, name, from_seq=len(seqs), limit=1000)
        assert 0 < size(page["records"]) <= 1024 * 1024
        seqs += [each["$seq"] for each in page["records"]]
        assert page["next_from_seq"] == len(seqs)
    assert seqs == list(range(1, 101))
    url = client.post("/v0/watch", {"topics": {name: {}}, "max_batch_bytes": 100_000}).json["stream_url"]
    with closing(Stream(gateway, url)) as stream:
        first, second = stream.event("record"), stream.event("record")
    assert size(first["records"]) <= 100_000
    assert first["to_seq"] == first["records"][-1]["$seq"] == second["records"][0]["$seq"] - 1


@pytest.mark.parametrize(("number", "size"), [(100, 100_000), (10, 700_000)])
def test_pages_back_read_about_as_much_as_they_show(
    broker: Broker, client: Client, name: str, number: int, size: int
) -> None:
    client.call("PUT", f"/v0/topics/{name}", {})
    producer = Producer({"bootstrap.servers": broker.address})
    for _ in range(number):
        producer.produce(name, b'"%b"' % (b"x" * size), partition=0)
    assert producer.flush(DEADLINE) == 0
    shown = 1024 * 1024 // (size + 2)  # in a page
    seqs: list[int] = []
    page: Any = {"next_from_seq": 0, "caught_up": False}
    while not page["caught_up"]:
        page = read(client, name, order="desc", from_seq=page["next_from_seq"], limit=1000)
        assert 0 < len(page["records"]) <= shown
        assert page["performance"]["records_scanned"] <= 3 * shown
        seqs += [each["$seq"] for each in page["records"]]
    assert seqs == list(range(number, 0, -1))
    last = read(client, name, tail=1000)
    assert [each["$seq"] for each in last["records"]] == list(range(number - shown + 1, number + 1))


def produce_with_header(broker: Broker, topic: str, header: bytes) -> None:
    """Writes a message with a header of any name, by librdkafka itself: its Python client takes names in UTF-8 alone."""
    (file,) = Path(confluent_kafka.__file__).parent.parent.glob("confluent_kafka.libs/librdkafka*")
    library = ctypes.CDLL(str(file))
    library.rd_kafka_conf_new.restype = library.rd_kafka_new.restype = ctypes.c_void_p
    settings, pointer, size = library.rd_kafka_conf_new(), ctypes.c_void_p, ctypes.c_size_t
    library.rd_kafka_conf_set(pointer(settings), b"bootstrap.servers", broker.address.encode(), None, size(0))
    client = pointer(library.rd_kafka_new(0, pointer(settings), None, size(0)))
    of_topic, of_value, of_header, end = (ctypes.c_int(number) for number in (1, 4, 9, 0))  # rd_kafka_vtype_t
    of_name = (of_header, ctypes.c_char_p(header), ctypes.c_char_p(b"value"), size(5))
    value = (of_value, ctypes.c_char_p(b'"odd"'), size(5))
    assert library.rd_kafka_producev(client, of_topic, ctypes.c_char_p(topic.encode()), *value, *of_name, end) == 0
    assert library.rd_kafka_flush(client, ctypes.c_int(int(DEADLINE * 1000))) == 0
    library.rd_kafka_destroy(client)


def test_a_header_whose_name_is_not_utf_8_stops_neither_reads_nor_streams(
    broker: Broker, gateway: Running, client: Client, name: str
) -> None:
    client.call("PUT", f"/v0/topics/{name}", {})
    records = [{"data": n, "meta": {"n": n}} for n in range(500)]  # the interpreter prefers a quicker call after some
    client.post(f"/v0/topics/{name}", {"records": records})
    url = client.post("/v0/watch", {"topics": {name: {"tail": True}}}).json["stream_url"]
    with closing(Stream(gateway, url)) as stream:
        stream.event("caught-up")
        produce_with_header(broker, name, b"caf\xe9")
        client.append(name, "after")
        assert stream.records(2) == {name: ["odd", "after"]}
    for direction in ({"from_seq": 0, "limit": 1000}, {"order": "desc", "limit": 1000}, {"tail": 2}):
        for _ in range(2):
            found = {each["$seq"]: each for each in read(client, name, **direction)["records"]}
            assert found[501]["data"] == "odd"
            assert "meta" not in found[501]
    assert client.get(f"/v0/topics/{name}/records/501").json["data"] == "odd"


def test_aborted_transactions_and_markers_are_holes_and_no_losses(broker: Broker, client: Client, name: str) -> None:
    client.call("PUT", f"/v0/topics/{name}", {"ttl_ms": 10**12})
    producer = Producer({"bootstrap.servers": broker.address, "transactional.id": name})
    producer.init_transactions(30)
    for values, ends in (([b"1", b"2"], producer.commit_transaction), ([b"3"], producer.abort_transaction)):
        producer.begin_transaction()
        for value in values:
            producer.produce(name, value, partition=0)
        producer.flush(30)
        ends(30)
    until(
        lambda: client.get(f"/v0/topics/{name}").json["head_seq"] == 5,
        "the marker, which comes after the abort's answer",
    )
    assert client.append(name, 4).json["seqs"] == [6]
    page = read(client, name)
    assert [(each["$seq"], each["data"]) for each in page["records"]] == [(1, 1), (2, 2), (6, 4)]
    assert (page["caught_up"], page["tombstone"], page["next_from_seq"]) == (True, None, 6)
    assert data(read(client, name, tail=2)) == [2, 4]
    producer.begin_transaction()
    producer.produce(name, b"7", partition=0)
    producer.flush(30)
    producer.abort_transaction(30)
    held = read(client, name, from_seq=6, wait_ms=10_000)  # only holes follow
    assert (held["records"], held["tombstone"], held["lag"]) == ([], None, 0)
    # A reader at a hole continues behind it.
    assert data(read(client, name, from_seq=3, limit=1)) == [4]


def test_reads_have_limits_conditions_and_both_directions(client: Client, name: str) -> None:
    records = [{"data": n, "tag": f"{'even' if n % 2 == 0 else 'odd'}:{n}", "node": f"n{n % 3}"} for n in range(1, 31)]
    client.post(f"/v0/topics/{name}", {"records": records})
    page = read(client, name, from_seq=4, limit=3)
    assert (data(page), page["next_from_seq"], page["lag"], page["caught_up"]) == ([5, 6, 7], 7, 23, False)
    assert data(read(client, name, match="even:4")) == [4]
    by_seqs = read(client, name, match=["tag", "Glob", "even:*"], limit=4)
    assert (data(by_seqs), by_seqs["next_from_seq"]) == ([2, 4], 4)
    by_match = read(client, name, match=["tag", "Glob", "even:*"], limit=4, window="matches")
    assert (data(by_match), by_match["next_from_seq"]) == ([2, 4, 6, 8], 8)
    assert data(read(client, name, node=["n0", "n1"], limit=6)) == [2, 5]
    assert data(read(client, name, tail=3)) == [28, 29, 30]
    back = read(client, name, order="desc", limit=2, match=["tag", "Glob", "odd:*"])
    assert (data(back), back["next_from_seq"]) == ([29, 27], 27)
    assert data(read(client, name, order="desc", from_seq=3)) == [2, 1]
    assert data(client.get(f"/v0/topics/{name}/records?from_seq=28&limit=9").json) == [29, 30]
    ts = read(client, name, limit=1)["records"][0]["$ts"]
    assert data(read(client, name, from_ts=ts, limit=1)) == [1]
    assert read(client, name, from_ts=ts + 10**9)["next_from_seq"] == 30
    assert client.post(f"/v0/topics/{name}/diff", {"from_ts": 1, "from_seq": 1}).code == "invalid_request"
    assert client.post(f"/v0/topics/{name}/diff", {"form_seq": 1}).code == "invalid_request"


def test_a_long_poll_answers_when_a_record_comes(gateway: Running, client: Client, name: str) -> None:
    client.append(name, 1)
    found: list[Any] = []
    with closing(Client(gateway.port)) as other:
        waiting = threading.Thread(target=lambda: found.append(read(other, name, from_seq=1, wait_ms=30_000)))
        waiting.start()
        client.append(name, 2)
        waiting.join(DEADLINE)
    assert data(found[0]) == [2]
    empty = read(client, name, from_seq=2, wait_ms=10)
    assert (empty["records"], empty["caught_up"]) == ([], True)


def test_records_of_an_append_stay_together_among_many_writers(gateway: Running, client: Client, name: str) -> None:
    client.call("PUT", f"/v0/topics/{name}", {})
    seqs: list[list[int]] = []

    def write(writer: int) -> None:
        with closing(Client(gateway.port)) as own:
            for n in range(10):
                answer = own.append(name, *([writer, n, part] for part in range(50)))
                assert answer.status == 200, answer.body
                seqs.append(answer.json["seqs"])

    writers = [threading.Thread(target=write, args=(number,)) for number in range(6)]
    for each in writers:
        each.start()
    for each in writers:
        each.join(2 * DEADLINE)
    assert sorted(seq for each in seqs for seq in each) == list(range(1, 3001))
    assert all(each == list(range(each[0], each[0] + 50)) for each in seqs)
    found, at = [], 0
    while len(found) < 3000:
        page = read(client, name, from_seq=at, limit=1000)
        found += data(page)
        at = page["next_from_seq"]
    assert all(
        found[start : start + 50] == [[*found[start][:2], part] for part in range(50)] for start in range(0, 3000, 50)
    )


def test_a_topic_has_a_config_and_is_listed_and_deleted(client: Client, name: str) -> None:
    made = client.call("PUT", f"/v0/topics/{name}", {"ttl_ms": 3_600_000, "durability": "fsync"})
    assert (made.status, made.json["created"]) == (201, True)
    again = client.call("PUT", f"/v0/topics/{name}", {"cap_bytes": 5_000_000, "durability": "memory"})
    assert (again.status, again.json["created"]) == (200, False)
    config = client.get(f"/v0/topics/{name}").json["config"]
    assert (config["ttl_ms"], config["cap_bytes"], config["durability"]) == (3_600_000, 5_000_000, "memory")
    assert client.append(name, 1, 2).json["last_seq"] == 2
    told = client.get(f"/v0/topics/{name}").json
    assert (told["head_seq"], told["earliest_seq"], told["next_seq"], told["count"]) == (2, 1, 3, 2)
    other = f"{name}.second"
    client.append(other, 1)
    first = client.get(f"/v0/topics?prefix={name}&page_size=1").json
    assert [each["topic"] for each in first["topics"]] == [name]
    rest = client.get(f"/v0/topics?prefix={name}&page_size=1&cursor={first['next_cursor']}").json
    assert ([each["topic"] for each in rest["topics"]], "next_cursor" in rest) == ([other], False)
    assert client.call("DELETE", f"/v0/topics/{name}?if_empty=true").code == "topic_not_empty"
    assert client.call("DELETE", f"/v0/topics/{name}").json["deleted"] is True
    assert client.call("DELETE", f"/v0/topics/{name}").json["deleted"] is False
    assert client.get(f"/v0/topics/{name}").code == "topic_not_found"
    assert client.post(f"/v0/topics/{name}", {"records": [{"data": 1}], "create": False}).code == "topic_not_found"


def test_a_delete_is_silent_and_retention_is_a_tombstone(client: Client, name: str) -> None:
    client.append(name, 1, 2, 3)
    deleted = client.post(f"/v0/topics/{name}/delete", {"before_seq": 3}).json
    assert (deleted["deleted"], deleted["earliest_seq"]) == (2, 3)
    page = read(client, name)
    assert (data(page), page["tombstone"], page["earliest_seq"]) == ([3], None, 3)
    client.call("PUT", f"/v0/topics/{name}", {"ttl_ms": 1})
    until(lambda: read(client, name)["earliest_seq"] == 4, "retention")
    lost = read(client, name)["tombstone"]
    assert (lost["gap_from"], lost["gap_to"], lost["reason"], lost["earliest_seq"]) == (1, 3, "ttl", 4)
    assert read(client, name, from_seq=9)["tombstone"]["reason"] == "recreated"


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "", {"records": [{"data": 1}], "idempotency_keys": ["k"]}),
        ("POST", "", {"records": [{"data": 1}], "expected_head": 0}),
        ("PUT", "", {"cap_records": 5}),
        ("PUT", "", {"type": "queue"}),
        ("PUT", "", {"sealed": True}),
        ("POST", "/delete", {"match": "x"}),
        ("POST", "/claim", {"node": "n"}),
        ("GET", "/groups", None),
    ],
)
def test_what_kafka_cannot_do_is_refused_with_an_alternative(client: Client, method: str, path: str, body: Any) -> None:
    refused = client.call(method, f"/v0/topics/refused{path}", body)
    assert (refused.status, refused.code) == (501, "not_supported")
    assert ":" in refused.json["error"]["message"]
    assert client.get("/v0/topics/refused").status == 404


def test_the_schema_has_what_is_offered(client: Client) -> None:
    paths = client.get("/v0/schema").json["paths"]
    offered = {call["operationId"] for calls in paths.values() for call in calls.values()}
    assert {"append", "read", "put_topic", "delete_records"} <= offered
    assert not {"claim", "put_router", "get_metrics"} & offered


def test_bad_input_is_a_refusal_and_changes_nothing(client: Client, name: str) -> None:
    for body in (b"{", b'{"records": []}', b'{"records": [{}]}', b'{"records": [{"data": 1, "tag": 1}]}', b'{"a": 1}'):
        assert client.post(f"/v0/topics/{name}", body).code == "invalid_request"
    assert client.append(name, "x" * 1024 * 1024).code == "record_too_large"
    assert client.append(name, *["x" * 1024 * 512] * 20).code == "batch_too_large"
    assert client.append("a:b", 1).code == "invalid_request"
    assert client.call("POST", f"/v0/topics/{name}", b"{}", content_type="text/plain").status == 415
    assert client.get("/v0/nothing").status == 404
    assert client.get(f"/v0/topics/{name}").status == 404

"""Watches, events of one topic, and named cursors over Kafka (docs/kafka.md)."""

import time
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.deadlines import DEADLINE
from tests.gateway.running import Client, Running
from tests.gateway.streams import Stream
from tests.instances import until
from tests.kafka.broker import Broker
from tests.kafka.conftest import on

pytestmark = pytest.mark.kafka


def begin(client: Client, topics: dict[str, Any], **more: Any) -> str:
    answer = client.post("/v0/watch", {"topics": topics, **more})
    assert answer.status == 200, answer.body
    return str(answer.json["stream_url"])


def test_a_watch_shows_what_is_there_and_then_each_record(
    gateway: Running, client: Client, streams: Callable[..., Stream], name: str
) -> None:
    other = f"{name}.other"
    client.append(name, 1, 2, {"a": [3]})
    client.append(other, "old")
    stream = streams(gateway, begin(client, {name: {}, other: {"tail": True}}))
    first = stream.event("record")
    assert (first["topic"], [each["$seq"] for each in first["records"]], first["to_seq"]) == (name, [1, 2, 3], 3)
    assert {stream.event("caught-up")["topic"], stream.event("caught-up")["topic"]} == {name, other}
    client.append(other, "new")
    client.append(name, 4)
    assert stream.records(2) == {other: ["new"], name: [4]}


def test_a_watch_resumes_exactly_after_its_last_id(
    gateway: Running, client: Client, streams: Callable[..., Stream], name: str
) -> None:
    client.append(name, *range(10))
    url = begin(client, {name: {}}, limit=3)
    stream = streams(gateway, url)
    assert stream.records(3) == {name: [0, 1, 2]}
    again = streams(gateway, url, f"last-event-id: {stream.id}")
    assert again.records(7) == {name: [3, 4, 5, 6, 7, 8, 9]}
    client.append(name, 10)
    assert again.records(1) == {name: [10]}
    # Another process of the gateway has no session either.
    third = streams(gateway, f"{url}?lastEventId={again.id}")
    assert third.event("caught-up")["head_seq"] == 11
    client.append(name, 11)
    assert third.records(1) == {name: [11]}
    assert streams(gateway, url, "last-event-id: nonsense").status == 400
    assert streams(gateway, "/v0/watch/wid_unknown").status == 404


def test_a_watch_tells_a_loss_and_a_topic_of_the_same_name(
    gateway: Running, client: Client, streams: Callable[..., Stream], name: str
) -> None:
    client.call("PUT", f"/v0/topics/{name}", {"ttl_ms": 10**12})
    client.append(name, *range(5))
    url = begin(client, {name: {}})
    client.post(f"/v0/topics/{name}/delete", {"before_seq": 4})
    stream = streams(gateway, url)
    lost = stream.event("tombstone")
    assert (lost["gap_from"], lost["gap_to"], lost["reason"], lost["cause"]) == (1, 3, "from_seq_too_old", "ttl")
    assert stream.records(2) == {name: [3, 4]}
    assert stream.event("caught-up")["head_seq"] == 5
    before = stream.id
    client.call("DELETE", f"/v0/topics/{name}")
    assert stream.event("topic-deleted")["topic"] == name
    # The new topic is longer, so a seq alone would not tell it from the old one.
    client.append(name, *range(100, 107))
    assert stream.event("tombstone")["reason"] == "recreated"
    assert stream.records(7) == {name: list(range(100, 107))}
    late = streams(gateway, url, f"last-event-id: {before}")
    assert late.event("tombstone")["reason"] == "recreated"
    assert late.records(7) == {name: list(range(100, 107))}


def test_a_topic_that_is_replaced_at_once_is_told_with_all_its_records(
    broker: Broker, gateway: Running, client: Client, streams: Callable[..., Stream], name: str
) -> None:
    client.append(name, 1, 2)
    stream = streams(gateway, begin(client, {name: {}}))
    assert stream.event("caught-up")["head_seq"] == 2
    admin = AdminClient({"bootstrap.servers": broker.address})
    admin.delete_topics([name])[name].result(DEADLINE)

    def created() -> bool:
        try:
            admin.create_topics([NewTopic(name, 1, 1)])[name].result(DEADLINE)
        except KafkaException:  # the delete has not ended
            return False
        return True

    until(created, "the other topic")
    producer = Producer({"bootstrap.servers": broker.address})
    for n in range(5):
        producer.produce(name, b"%d" % n, partition=0)
    producer.flush(30)
    assert stream.event("tombstone")["reason"] == "recreated"
    assert stream.records(5) == {name: [0, 1, 2, 3, 4]}


def test_a_watch_has_conditions_and_parts(
    gateway: Running, client: Client, streams: Callable[..., Stream], name: str
) -> None:
    records = [{"data": n, "tag": f"{n % 2}", "node": f"n{n % 3}", "meta": {"n": n}} for n in range(6)]
    client.post(f"/v0/topics/{name}", {"records": records})
    stream = streams(gateway, begin(client, {name: {"match": "1"}}, node="n1", include_tags=True, include_meta=False))
    assert [(each["data"], each["$tag"], "meta" in each) for each in stream.event("record")["records"]] == [
        (3, "1", False),
        (5, "1", False),
    ]
    assert client.post("/v0/watch", {"topics": {"absent": {}}}).code == "topic_not_found"
    lenient = client.post("/v0/watch?lenient=true", {"topics": {"absent": {}, name: {"tail": True}}}).json
    assert list(lenient["topics"]) == [name]


def test_an_event_keeps_to_its_bytes_and_a_larger_record_comes_alone(
    gateway: Running, client: Client, streams: Callable[..., Stream], name: str
) -> None:
    texts = [letter * size for letter in "abc" for size in (1000, 1000, 3000)]
    client.append(name, *texts)
    stream = streams(gateway, begin(client, {name: {}}, max_batch_bytes=2500))

    def shown(first: int) -> list[list[str]]:
        events = [stream.event("record")]
        while events[-1]["to_seq"] < first + len(texts):
            events.append(stream.event("record"))
        return [[record["data"] for record in event["records"]] for event in events]

    for first in (0, len(texts)):
        if first:  # from here on, the stream follows
            stream.event("caught-up")
            client.append(name, *texts)
        found = shown(first)
        assert [text for event in found for text in event] == texts
        assert all(sum(map(len, event)) <= 2500 or len(event) == 1 for event in found)


def test_the_events_of_a_topic_continue_after_the_last_id(
    gateway: Running, client: Client, streams: Callable[..., Stream], name: str
) -> None:
    client.append(name, "a", "b")
    stream = streams(gateway, f"/v0/topics/{name}/events?from_seq=1")
    assert stream.event("message")["data"] == "b"
    assert stream.id == f"{name}:2"
    client.append(name, "c")
    assert stream.event("message")["data"] == "c"
    again = streams(gateway, f"/v0/topics/{name}/events", f"last-event-id: {name}:1")
    assert [again.event("message")["data"] for _ in range(2)] == ["b", "c"]
    assert b"event: stream-error" in client.get(f"/v0/topics/{name}/events", last_event_id="x:1").body
    assert streams(gateway, "/v0/topics/absent/events").status == 404


def test_a_watch_crosses_the_holes_of_transactions(
    broker: Broker, gateway: Running, client: Client, streams: Callable[..., Stream], name: str
) -> None:
    client.append(name, 1)
    stream = streams(gateway, begin(client, {name: {}}))
    assert stream.records(1) == {name: [1]}
    producer = Producer({"bootstrap.servers": broker.address, "transactional.id": name})
    producer.init_transactions(30)
    for value, ends in ((b"2", producer.abort_transaction), (b"4", producer.commit_transaction)):
        producer.begin_transaction()
        producer.produce(name, value, partition=0)
        producer.flush(30)
        ends(30)
    until(
        lambda: client.get(f"/v0/topics/{name}").json["head_seq"] == 5,
        "the marker, which comes after the commit's answer",
    )
    client.append(name, 6)
    found = [*stream.event("record")["records"]]
    while found[-1]["data"] != 6:
        found += stream.event("record")["records"]
    assert [(each["$seq"], each["data"]) for each in found] == [(4, 4), (6, 6)]


def test_many_followers_of_many_topics_get_every_record(
    gateway: Running, client: Client, streams: Callable[..., Stream], name: str
) -> None:
    topics = [f"{name}.{n}" for n in range(5)]
    for topic in topics:
        client.call("PUT", f"/v0/topics/{topic}", {})
    url = begin(client, {topic: {} for topic in topics})
    readers = [streams(gateway, url) for _ in range(4)]
    for reader in readers:
        for _ in topics:
            reader.event("caught-up")
    for n in range(20):
        for topic in topics:
            client.append(topic, n, -n)
    expected = {topic: [each for n in range(20) for each in (n, -n)] for topic in topics}
    assert all(reader.records(200) == expected for reader in readers)


def test_a_named_cursor_is_the_committed_offset_of_a_group(broker: Broker, client: Client, name: str) -> None:
    client.append(name, 1, 2, 3)
    path = f"/v0/topics/{name}/cursors/{name}"
    assert client.get(path).code == "not_found"
    made = client.call("PUT", path, {"seq": 2})
    assert (made.status, made.json["seq"], made.json["lag"], made.json["created"]) == (201, 2, 1, True)
    assert made.json["oldest_unread_ms"] is not None
    consumer = Consumer({"bootstrap.servers": broker.address, "group.id": name})
    (place,) = consumer.committed([TopicPartition(name, 0)], 30)
    assert place.offset == 2
    consumer.commit(offsets=[TopicPartition(name, 0, 3)], asynchronous=False)
    consumer.close()
    moved = client.get(path).json
    assert (moved["seq"], moved["lag"], moved["oldest_unread_ms"]) == (3, 0, None)
    assert client.call("PUT", path, {"at": "earliest"}).json["seq"] == 0
    assert client.call("PUT", path, {"seq": 4}).code == "invalid_request"
    assert client.call("PUT", path, {"seq": 1, "expected_seq": 0}).code == "not_supported"
    assert [each["cursor"] for each in client.get(f"/v0/topics/{name}/cursors").json["cursors"]] == [name]
    assert client.call("DELETE", path).json["deleted"] is True
    assert client.call("DELETE", path).json["deleted"] is False


def test_a_broker_that_is_away_is_503_in_time_and_all_resumes(
    broker: Broker, tmp_path: Any, streams: Callable[..., Stream], name: str
) -> None:
    running = Running(tmp_path, on(broker, timeouts={"answerMs": 2000})).start()
    try:
        client = running.client()
        client.append(name, 1)
        stream = streams(running, begin(client, {name: {}}))
        assert stream.records(1) == {name: [1]}
        stream.event("caught-up")
        broker.kill()
        began = time.monotonic()
        assert client.post(f"/v0/topics/{name}/diff", {}).code == "not_ready"
        refused = client.append(name, 2)
        assert (refused.code, refused.json["error"]["detail"]) == ("not_ready", {"maybe_written": True})
        assert time.monotonic() - began < 30
        broker.start()  # on a busy machine the gateway closes the idle connection meanwhile
        answer = until(lambda: (done := running.client().append(name, 2)).status == 200 and done, "an append")
        found: list[Any] = []
        while not found or found[-1]["$seq"] < answer.json["last_seq"]:
            found += stream.event("record")["records"]
        assert {each["data"] for each in found} == {2}
        seqs = [each["$seq"] for each in running.client().post(f"/v0/topics/{name}/diff", {}).json["records"]]
        assert seqs == list(range(1, answer.json["last_seq"] + 1))
    finally:
        running.kill()

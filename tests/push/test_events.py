"""A topic of the bus has events alone, however they come, and a key makes a publish that is sent twice one event."""

from __future__ import annotations

import json

import pytest

from tests.instances import Instance
from tests.push.bus import Client, Reply, call, new_topic, until_acknowledged, url
from tests.push.receiver import Receiver
from tests.push.test_poison import FORGED, subscribed


def appended(bus: Instance, topic: str, *records: str) -> Reply:
    listed = ",".join(f'{{"data":{each}}}' for each in records)
    body = f'{{"records":[{listed}]}}'
    return call(bus.port, "POST", f"/v0/topics/bus:{topic}", None, body.encode())


def stored(bus: Instance, topic: str) -> list[object]:
    found = call(bus.port, "POST", f"/v0/topics/bus:{topic}/diff", None, {"from_seq": 0})
    return [each["data"] for each in found.json["records"]]


@pytest.mark.guarantee("P4")
def test_equal_json_is_delivered(
    bus: Instance, publisher: Client, subscriber: Client, receiver: Receiver, topic: str
) -> None:
    subscribed(publisher, subscriber, topic, receiver, max=10)
    equal = [
        f'{{"topic": "{topic}", "type": "update", "url": "{url(1)}", "t": 7}}',
        f'{{"t":7,"url":"{url(2)}","type":"noop","topic":"{topic}"}}',
        f'{{"data":{{"t":1,"t":2}},\n"t":7,"url":"{url(3)}","type":"delete","top\\u0069c":"{topic}"}}',
    ]
    assert appended(bus, topic, *equal).status == 200
    until_acknowledged(receiver, [url(1), url(2), url(3)])
    got = [each for batch in receiver.batches for each in batch.events]
    assert got == list(map(json.loads, equal))


def test_an_event_with_a_number_beyond_a_double_is_refused_where_the_topic_says_so(
    bus: Instance, publisher: Client, topic: str
) -> None:
    publisher.publish(topic, url(0), data={"n": 1})
    assert call(bus.port, "PUT", f"/v0/topics/bus:{topic}", None, {"numbers": "double"}).status == 200
    event = f'{{"type": "create", "url": "{url(1)}", "data": {{"n": [1, 1e400]}}}}'
    refused = publisher.call("POST", f"/topics/{topic}", event.encode())
    assert refused.status == 400
    assert "event.data.n[1] is beyond the range of a double" in refused.text
    assert len(stored(bus, topic)) == 1


@pytest.mark.guarantee("P4")
@pytest.mark.parametrize("forged", FORGED)
def test_what_is_no_event_is_refused(bus: Instance, publisher: Client, topic: str, forged: str) -> None:
    publisher.publish(topic, url(0))
    good = f'{{"topic":"{topic}","type":"create","url":"{url(1)}","t":1}}'
    refused = appended(bus, topic, good, forged.replace("TOPIC", topic))
    assert refused.status == 400
    error = refused.json["error"]
    assert (error["code"], error["detail"]["index"]) == ("invalid_request", 1)
    assert len(stored(bus, topic)) == 1


def test_no_topic_of_any_records_is_tied_to_one_of_the_bus(bus: Instance, topic: str) -> None:
    dest = f"bus:{topic}"
    for path, body in (
        (f"/v0/routers/r-{topic}", {"source": "anything", "dest": dest}),
        (f"/v0/topics/q-{topic}", {"type": "queue", "max_deliveries": 2, "dead_letter": dest}),
    ):
        refused = call(bus.port, "PUT", path, None, body)
        assert (refused.status, dest in refused.json["error"]["message"]) == (400, True)
        assert call(bus.port, "GET", path, None).status == 404
    assert call(bus.port, "GET", f"/v0/topics/{dest}", None).status == 404


def test_a_statement_cannot_append_there_and_an_emit_of_an_event_can(
    bus: Instance, publisher: Client, subscriber: Client, receiver: Receiver, topic: str
) -> None:
    subscribed(publisher, subscriber, topic, receiver)
    event = json.dumps({"topic": topic, "type": "create", "url": url(1), "t": 1})
    with bus.connect() as database:
        with pytest.raises(Exception, match="topic of the push bus"):
            database.execute("SELECT topics.append(%s, %s)", [f"bus:{topic}", f'[{{"data":{event}}}]'])
        database.execute("SELECT topics.emit(%s, %s)", [f"bus:{topic}", event])
    until_acknowledged(receiver, [url(1)])


def test_a_publish_under_a_known_key_is_the_same_event(bus: Instance, publisher: Client, topic: str) -> None:
    def publish(key: str, **fields: object) -> Reply:
        body = {"type": "create", "url": url(1), **fields}
        return publisher.call("POST", f"/topics/{topic}", body, idempotency_key=key)

    for _ in range(2):  # at two times
        assert publish("a").status == 204
        assert publish("b", timestamp=7, data=[1]).status == 204
    assert len(stored(bus, topic)) == 2
    for other in ({"type": "noop"}, {"data": 1}, {"timestamp": 8}):
        refused = publish("b", **other)
        assert (refused.status, b"idempotency key" in refused.body) == (422, True)
    assert publish("a", url=url(2)).status == 422
    assert publish("").status == 400
    assert publish("k" * 257).status == 400
    assert len(stored(bus, topic)) == 2
    assert publish("c").status == 204
    assert len(stored(bus, topic)) == 3


def test_a_name_has_up_to_64_letters(bus: Instance, publisher: Client, subscriber: Client, receiver: Receiver) -> None:
    longest = new_topic().ljust(64, "z")
    subscribed(publisher, subscriber, longest, receiver)
    publisher.publish(longest, url(1))
    until_acknowledged(receiver, [url(1)])
    assert receiver.batches[0].events[0]["topic"] == longest
    refused = publisher.call("POST", f"/topics/{longest}z", {"type": "create", "url": url(1)})
    assert (refused.status, b"1 to 64" in refused.body) == (400, True)

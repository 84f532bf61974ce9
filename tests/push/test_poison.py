"""Events that PostgreSQL or a parser stumbles over hold up nothing: they are delivered, passed over, or put aside and told."""

from __future__ import annotations

import contextlib
import json
import re
import secrets
import string
from collections.abc import Callable
from typing import Any

import msgspec
import psycopg
import pytest
import trustme

from base.errors import InvalidRequest
from push.bus import publish
from push.bus.events import is_event
from tests.admin.pages import rows
from tests.instances import ROOT, WHOLE, Instance, until
from tests.push.bus import Client, call, new_client, new_topic, until_acknowledged, url
from tests.push.receiver import Receiver
from tests.push.test_autodrop import drop_now
from tests.push.test_operate import Desk

DEEP = '{"a":[' * 60 + "1" + "]}" * 60
ODD = ['"\\u0000"', '{"\\u0000":1}', '"\\ud83d\\ude00\\u001e,"', "1" + "0" * 400, "-0.0e-999", DEEP]


@pytest.mark.guarantee("P4")
@pytest.mark.parametrize("topics", [1, 2])
def test_any_json_that_is_acknowledged_is_delivered_as_it_was_sent(
    bus: Instance, publisher: Client, subscriber: Client, receiver: Receiver, topics: int
) -> None:
    names = [new_topic() for _ in range(topics)]
    for name in names:
        publisher.publish(name, url(0))
    subscriber.subscribe(*names, callback=receiver.url(), timeout=0)
    for n, data in enumerate(ODD):
        event = f'{{"type":"create","url":"{url(n)}","timestamp":7,"data":{data}}}'.encode()
        reply = publisher.call("POST", f"/topics/{names[n % topics]}", event)
        assert reply.status == 204, reply
    publisher.publish(names[0], url(len(ODD)))
    until(lambda: len(receiver.acknowledged()) > len(ODD), "every event")
    assert receiver.acknowledged() == [url(n) for n in range(len(ODD) + 1)]
    everything = b"".join(batch.body for batch in receiver.batches)
    for data in ODD:
        assert f'"t":7,"data":{data}}}'.encode() in everything
    until(subscriber.drained, "the queue to be empty")


def subscribed(publisher: Client, subscriber: Client, topic: str, receiver: Receiver, **more: Any) -> None:
    publisher.publish(topic, url(0))
    subscriber.subscribe(topic, callback=receiver.url(), **{"timeout": 0, **more})


def written(instance: Instance, topic: str, *data: str) -> None:
    """Records that a key of /v0 writes."""
    records = ",".join(f'{{"data":{each}}}' for each in data)
    reply = call(instance.port, "POST", f"/v0/topics/{topic}", None, f'{{"records":[{records}]}}'.encode())
    assert reply.status == 200, reply


def stored(instance: Instance, topic: str, *data: str) -> None:
    """Records that /v0 refuses in a topic of the bus. An earlier release has written them, or another server."""
    columns = [f"[{','.join(each)}]" for each in (data, *(["null"] * len(data) for _ in range(3)))]
    with instance.connect() as connection:
        verdict = connection.execute(
            "SELECT (topic_append(found.topic, found.head, extract(epoch FROM now())::bigint * 1000, %s, %s, %s, %s, NULL, NULL))"
            ".verdict FROM topic_lock_named(%s) found",
            [*columns, topic],
        ).fetchone()
        connection.execute(f"NOTIFY topics, '{topic}'")  # type: ignore[arg-type]
    assert verdict == ("done",)


def of_subscriber(instance: Instance, who: Client, columns: str) -> tuple[Any, ...]:
    with instance.connect() as connection:
        found = connection.execute(
            f"SELECT {columns} FROM push_subscriber s JOIN push_busclient c ON c.id = s.client_id WHERE c.token = %s",  # type: ignore[arg-type]
            [who.token],
        ).fetchone()
    assert found is not None
    return found


FORGED = [
    "null",
    '"\\u0000"',
    "{}",
    '{"type":"create"}',
    '{"topic":"payments","type":"create","url":"https://a.example/","t":1}',
    '{"topic":"TOPIC","type":"steal","url":"https://a.example/","t":1}',
    '{"topic":"TOPIC","type":"create","url":"http://a.example/","t":1}',
    '{"topic":"TOPIC","type":"create","url":"https://a.example/\\u0000","t":1}',
    '{"topic":"TOPIC","type":"create","url":"https://a.example/","t":1.5}',
    '{"topic":"TOPIC","type":"create","url":"https://a.example/","t":1,"root":true}',
    '{"topic":"TOPIC","type":"create","url":"https://a.example/","t":1,"data":{"a":[1,2]},"topic":"payments"}',
    '{"topic":"payments","type":"create","url":"https://a.example/","t":1,"topic":"TOPIC"}',
    '{"topic":"TOPIC","type":"create","url":"https://a.example/","t":1,"data":DEEP,"topic":"payments"}'.replace(
        "DEEP", DEEP
    ),
]


@pytest.mark.guarantee("P4")
def test_records_that_are_no_event_of_their_topic_are_passed_over_and_counted(
    bus: Instance, publisher: Client, subscriber: Client, topic: str, receiver: Receiver
) -> None:
    subscribed(publisher, subscriber, topic, receiver, max=3)
    publisher.publish(topic, url(1))
    stored(bus, f"bus:{topic}", *(each.replace("TOPIC", topic) for each in FORGED))
    publisher.publish(topic, url(2), data=[1, {"a": 2}])
    (queue,) = of_subscriber(bus, subscriber, "queue")
    real = f'{{"topic":"{topic}","type":"create","url":"https://a.example/","t":1}}'
    written(bus, queue, "17", real, real.replace(topic, "test"))
    publisher.publish(topic, url(3))
    until_acknowledged(receiver, [url(1), url(2), url(3)])
    until(subscriber.drained, "the queue to be empty")
    assert receiver.acknowledged() == [url(1), url(2), url(3)]
    assert of_subscriber(bus, subscriber, "sent_total, passed_total, health") == (3, len(FORGED) + 3, 100)
    assert all(batch.events for batch in receiver.batches)
    metrics = bus.get("/v0/metrics")[1]
    assert any(
        line.startswith("push_events_passed_over_total")
        and subscriber.name in line
        and float(line.split()[-1]) == len(FORGED) + 3
        for line in metrics.splitlines()
    )


HALF = '{"topic":"TOPIC","type":"create","url":"https://a.example/\\ud800","t":1}'


@pytest.mark.parametrize("text", [*FORGED, "[1,2]", HALF, HALF.replace(",", ", ")])
def test_what_is_no_event(text: str) -> None:
    assert not is_event("orders", text.replace("TOPIC", "orders"))


@pytest.mark.parametrize("data", [*ODD, "[1,2]", '{"a":[{}],"b":{}}', '"a,\\",b"', "[" * 5000 + "1,2" + "]" * 5000])
def test_what_is_an_event(data: str) -> None:
    text = f'{{"topic":"orders","type":"noop","url":"https://a.example/\\"é,","t":-5,"data":{data}}}'
    assert is_event("orders", text)
    assert not is_event("orders", f'{text[:-1]},"a":1}}')
    assert not is_event("", text)


def large() -> str:
    """Data that PostgreSQL stores in pieces beside the record, and does not compress."""
    return "".join(secrets.choice(string.ascii_letters + string.digits) for _ in range(24_000))


@pytest.mark.parametrize("data", ["1" + "0" * 30, "1" + "0" * 5000, "1e999", "[" * 5000 + "]" * 5000])
def test_data_whose_size_cannot_be_told_is_refused(monkeypatch: pytest.MonkeyPatch, data: str) -> None:
    monkeypatch.setattr(publish, "MAX_DATA", 100)
    with pytest.raises(InvalidRequest):
        publish.check_event(publish.Event("noop", "https://a.example/", None, msgspec.Raw(data.encode())))


def damage(instance: Instance, piece: str) -> None:
    """Lose the page that holds a piece of a large value, as a bad disk does. The instance is stopped meanwhile."""
    instance.stop()
    page = 8192
    for file in (instance.data / "postgresql").rglob("base/*/*"):
        content = file.read_bytes() if file.is_file() else b""
        if (at := content.find(piece.encode())) >= 0:
            at -= at % page
            file.write_bytes(content[:at] + bytes(page) + content[at + page :])
    instance.start()


def readable(instance: Instance, topic: str) -> list[str]:
    """The URLs of the events of a topic that PostgreSQL can still read."""
    found = []
    with instance.connect() as connection:
        (topic_id,) = connection.execute("SELECT id FROM topics_topic WHERE name = %s", [f"bus:{topic}"]).fetchone()  # type: ignore[misc]
        for seq in range(1, 100):
            with contextlib.suppress(psycopg.Error):
                for (data,) in connection.execute(
                    "SELECT data::text FROM topics_record WHERE topic_id = %s AND seq = %s", [topic_id, seq]
                ):
                    found.append(json.loads(data)["url"])
    return found


@pytest.mark.guarantee("P4")
def test_a_record_that_cannot_be_read_is_put_aside_and_told(
    instances: Callable[..., Instance], settings_of_bus: dict[str, str], topic: str, receiver: Receiver
) -> None:
    instance = instances(**WHOLE, **settings_of_bus)
    publisher, subscriber, other = (new_client(instance) for _ in range(3))
    receiver.answer = lambda handler, batch: 500
    subscribed(publisher, subscriber, topic, receiver, timeout=1500, max=6)
    values = [large() for _ in range(9)]
    for n, value in enumerate(values, 1):
        publisher.publish(topic, url(n), data=value)
    other.subscribe(topic, callback=receiver.url("/other"), timeout=0, max=1)
    until(lambda: any(len(batch.events) > 4 for batch in receiver.batches), "a batch to be sent")
    damage(instance, values[3][12_000:12_100])
    left = [each for each in readable(instance, topic) if each != url(0)]
    lost = 9 - len(left)
    assert 0 < lost < 4
    receiver.answer = lambda handler, batch: 200
    publisher.publish(topic, url(10))
    until_acknowledged(receiver, [*left, url(10)])
    until_acknowledged(receiver, [url(10)], "/other")
    until(subscriber.drained, "the queue to be empty")
    assert of_subscriber(instance, subscriber, "unreadable_total, dropped, sent_total") == (lost, 0, len(left) + 1)
    told = [int(batch.headers.get("topics-dropped", 0)) for batch in receiver.of("/events") if batch.status == 200]
    assert sum(told) == lost
    contents: dict[str, bytes] = {}
    for batch in receiver.batches:
        assert contents.setdefault(batch.id, batch.body) == batch.body
    desk = Desk(instance)
    log = rows(desk.get(f"/admin/push/delivery/?q={subscriber.name}"))
    assert sum("was put aside: " in row[2] for row in log) == lost
    assert "Set aside" in (instance.data / "logs" / "push.log").read_text()


@pytest.mark.guarantee("P4")
def test_autodrop_makes_room_whatever_the_stalest_queue_holds(strict: Instance, topic: str, ca: trustme.CA) -> None:
    publisher, gone = new_client(strict), new_client(strict)
    receiver = Receiver(ca, answer=lambda *_: 500)
    subscribed(publisher, gone, topic, receiver, max=1)
    stored(strict, f"bus:{topic}", *['"\\u0000"'] * 10)
    for n in range(1, 5):
        publisher.publish(topic, url(n), data=large())
    drop_now(strict)
    until(lambda: gone.events()["queued"] < 4, "autodrop")
    receiver.answer = lambda *_: 200
    until(gone.drained, "what is left to be delivered")
    receiver.end()


TAKES_TEXT = re.compile(
    r"->>|#>>|\bjsonb?_(?:each|object_keys|populate|to_record|array_elements_text|extract_path_text|strip)\w*|::jsonb|to_jsonb"
)
# PostgreSQL raises for \u0000 wherever it takes text out of JSON. These take it out of what was checked for that, or is ours.
GUARDED = {
    "topics/append/first.py",
    "topics/append/statements.py",
    "topics/append/copies.py",
    "topics/sql/functions/topic_append_judged.sql",  # tags, nodes and keys: check_rows() refuses NUL
    "topics/sql/functions/topic_append.sql",  # the same, and door_label for SQL
    "topics/sql/functions/records_digest.sql",
    "topics/config.py",
    "pipeline/sql/functions/pipeline_judge.sql",  # tags and nodes: check_name() of pipeline/write/written.py refuses NUL
    "topics/audit.py",  # columns of topics, and what the audit log says
    # The rows of a move: PostgreSQL refuses the write with the row, and the mover gets a 400.
    *(f"{app}/state.py" for app in ("topics", "queues", "groups", "pipeline")),
    "push/sql/functions/webhook_settle.sql",  # tags and names, and what endpoints answered: push/delivery/caller.py replaces NUL
    "console/graph/leaves.py",  # ids of topics
    "console/health/signals.py",  # what PostgreSQL had said of problems
    "console/health/problems.py",  # the topic in a schedule's options, which are jsonb: jsonb refuses NUL
}


def test_no_statement_takes_text_out_of_what_clients_send() -> None:
    sources = [
        file
        for app in (
            "base",
            "store",
            "wire",
            "topics",
            "watch",
            "queues",
            "groups",
            "routers",
            "push",
            "console",
            "shell",
            "pipeline",
        )
        for file in (ROOT / app).rglob("*")
        if file.suffix in (".py", ".sql") and "migrations" not in file.parts
    ]
    found = {str(file.relative_to(ROOT)) for file in sources if TAKES_TEXT.search(file.read_text())}
    assert found <= GUARDED

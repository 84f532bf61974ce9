"""Odd JSON through every way that a record can go: it arrives as it was sent, or is refused with 400 and changes nothing.

`THOROUGH=200 pytest tests/fuzz` tries more of it.
"""

from __future__ import annotations

import csv
import gzip
import http.client
import io
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from websockets.exceptions import ConnectionClosedError
from websockets.sync.client import ClientConnection, connect

from contract.cloudevents import EVENT, EVENTS
from shell.flow import Address, Flow, ReadAnswer
from tests.deadlines import DEADLINE
from tests.deep import DEEP, make_deep
from tests.examples import examples
from tests.fuzz.values import DEEPER, KEPT, REFUSED, VALUES
from tests.instances import ROOT, Instance, until
from tests.project.signing_in import log_in
from tests.push import bus as push
from tests.push.receiver import Receiver
from tests.watch.wire import new_name

EXAMPLES = examples(4)
MANY = settings(max_examples=EXAMPLES)
Raws = dict[str, msgspec.Raw]
BATCHES = st.lists(VALUES, min_size=1, max_size=25)


class Wire:
    """Calls with bodies as bytes, and answers as the bytes that they are."""

    def __init__(self, port: int) -> None:
        self.port = port

    def call(self, method: str, path: str, body: bytes = b"", **headers: str) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=DEADLINE)
        try:
            sent = {
                "content-type": "application/json",
                **{name.replace("_", "-"): value for name, value in headers.items()},
            }
            connection.request(method, path, body, sent)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def append(self, topic: str, values: list[bytes], more: bytes = b"", **headers: str) -> tuple[int, bytes]:
        records = b",".join(b'{"tag":"t","data":' + value + b"}" for value in values)
        body = b'{"records":[' + records + b"]" + more + b"}"
        if headers.get("content_encoding") == "gzip":
            body = gzip.compress(body)
        return self.call("POST", f"/v0/topics/{topic}", body, **headers)

    def events(self, topic: str, values: list[bytes]) -> tuple[int, bytes]:
        """Appends a batch of CloudEvents with these data."""
        of = b'"specversion":"1.0","source":"/fuzz","type":"t","id":"%b","data":%b'
        events = [b"{" + of % (new_name("id").encode(), value) + b"}" for value in values]
        return self.call("POST", f"/v0/topics/{topic}", b"[" + b",".join(events) + b"]", content_type=EVENTS)

    def filled(self, values: list[bytes]) -> str:
        """A new topic with these records."""
        topic = new_name("fuzz")
        status, answer = self.append(topic, values)
        assert status == 201, answer
        return topic

    def head(self, topic: str) -> int:
        status, answer = self.call("GET", f"/v0/topics/{topic}")
        return int(msgspec.json.decode(answer)["head_seq"]) if status == 200 else 0

    def stream(self, path: str, last_id: str | None = None) -> Iterator[dict[str, str]]:
        """The events of a stream, each as its fields."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=DEADLINE)
        headers = {"accept": "text/event-stream", **({"last-event-id": last_id} if last_id else {})}
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        assert answer.status == 200
        fields: dict[str, str] = {}
        try:
            while line := answer.readline():
                text = line.decode()[:-1]
                if not text and fields:
                    yield fields
                    fields = {}
                elif text and not text.startswith(":"):
                    name, _, value = text.partition(": ")
                    fields[name] = f"{fields[name]}\n{value}" if name in fields else value
        finally:
            answer.close()
            connection.close()


@pytest.fixture(scope="module")
def wire(server: Instance) -> Wire:
    return Wire(server.port)


def data_in(records: msgspec.Raw | bytes) -> list[bytes]:
    """The data of records, as they are written there."""
    return [bytes(record["data"]) for record in msgspec.json.decode(records, type=list[Raws])]


def as_sent(values: list[bytes]) -> list[bytes]:
    """A stream of events has line breaks of one kind."""
    return [re.sub(rb"\r\n?", b"\n", value) for value in values]


# -- In ----------------------------------------------------------------------------------------------------------------

APPENDS: dict[str, Callable[[Wire, str, list[bytes]], tuple[int, bytes]]] = {
    "plain": lambda wire, topic, values: wire.append(topic, values),
    "under a key": lambda wire, topic, values: wire.append(topic, values, b',"idempotency_key":"k"'),
    "at a head": lambda wire, topic, values: wire.append(topic, values, b',"expected_head":%d' % wire.head(topic)),
    "zipped": lambda wire, topic, values: wire.append(topic, values, content_encoding="gzip"),
    "creating": lambda wire, topic, values: wire.append(topic, values, b',"config":{"durability":"fsync"}'),
    "as events": lambda wire, topic, values: wire.events(topic, values),
}


@pytest.mark.parametrize("kind", APPENDS)
@MANY
@given(values=BATCHES)
def test_values_come_in_and_are_read(wire: Wire, kind: str, values: list[bytes]) -> None:
    topic = new_name("fuzz")
    status, answer = APPENDS[kind](wire, topic, values)
    assert status in (200, 201), answer
    status, answer = wire.call("POST", f"/v0/topics/{topic}/diff", b'{"limit":1000}')
    assert status == 200
    assert data_in(msgspec.json.decode(answer, type=Raws)["records"]) == values


@pytest.mark.parametrize("kind", APPENDS)
@pytest.mark.parametrize("value", REFUSED, ids=lambda value: repr(value[:20]))
def test_broken_values_are_refused_and_change_nothing(wire: Wire, kind: str, value: bytes) -> None:
    topic = wire.filled([b"1"]) if kind != "creating" else new_name("fuzz")
    before = wire.head(topic)
    status, answer = APPENDS[kind](wire, topic, [b"2", value, b"3"])
    assert status == 400, answer
    assert msgspec.json.decode(answer)["error"]["code"] == "invalid_request"
    assert wire.head(topic) == before
    assert APPENDS[kind](wire, topic, [b"4"])[0] in (200, 201)  # and stands in nobody's way


@pytest.mark.parametrize("value", DEEPER, ids=lambda value: repr(value[:20]))
@pytest.mark.parametrize("field", ["data", "meta"])
def test_no_call_but_a_copy_takes_more_than_128_levels(wire: Wire, field: str, value: bytes) -> None:
    queue, topic = new_name("fuzz"), new_name("fuzz")
    wire.call("PUT", f"/v0/topics/{queue}", b'{"type":"queue"}')
    fields = b'"data":1,"meta":{"k":%b}' % value if field == "meta" else b'"data":%b' % value
    shown = b'"records":[{"$seq":1,"$ts":1,%b}]' % fields
    position = b'"here":"iad","source":"fra","from_seq":0,"next_from_seq":1'
    for method, path, body in (
        ("POST", f"topics/{topic}", b'{"records":[{%b}]}' % fields),
        ("POST", f"topics/{queue}", b'{"records":[{%b}]}' % fields),
        ("PUT", f"topics/{queue}/schedules/s", b'{"not_before":0,%b}' % fields),
        ("POST", f"topics/{topic}/mirror", b"{%b,%b}" % (position, shown)),
    ):
        status, answer = wire.call(method, f"/v0/{path}", body)
        assert (status, b"expected at most 128 levels" in answer) == (400, True), (path, answer)


def as_copies(records: bytes) -> bytes:
    """The body of a copy of what a diff showed."""
    return b'{"copy":true,"records":' + records + b"}"


@MANY
@given(values=BATCHES)
def test_values_are_copied_as_they_are_shown(wire: Wire, values: list[bytes]) -> None:
    shown, copied = wire.filled(values), new_name("fuzz")
    assert wire.call("PUT", f"/v0/topics/{copied}", b'{"sealed":true}')[0] == 201
    ask = b'{"limit":1000,"include_tags":true}'
    records = msgspec.json.decode(wire.call("POST", f"/v0/topics/{shown}/diff", ask)[1], type=Raws)["records"]
    status, answer = wire.call("POST", f"/v0/topics/{copied}", as_copies(bytes(records)))
    assert status == 200, answer
    again = msgspec.json.decode(wire.call("POST", f"/v0/topics/{copied}/diff", ask)[1], type=Raws)["records"]
    assert bytes(again) == bytes(records)


def event(wire: Wire, topic: str, value: bytes) -> tuple[int, bytes]:
    """Appends a CloudEvent with these data, whose attributes are in headers."""
    attributes = {"ce_specversion": "1.0", "ce_source": "/fuzz", "ce_type": "t", "ce_id": new_name("id")}
    return wire.call("POST", f"/v0/topics/{topic}", value, **attributes)


@MANY
@given(value=VALUES)
def test_the_data_of_an_event_with_headers_come_in(wire: Wire, value: bytes) -> None:
    topic = new_name("fuzz")
    status, answer = event(wire, topic, value)
    assert status == 201, answer
    _, answer = wire.call("GET", f"/v0/topics/{topic}/records")
    assert data_in(msgspec.json.decode(answer, type=Raws)["records"]) == [value]


@pytest.mark.parametrize("value", [each for each in REFUSED if each], ids=lambda value: repr(value[:20]))
def test_broken_data_of_an_event_with_headers_are_refused(wire: Wire, value: bytes) -> None:
    topic = new_name("fuzz")
    status, answer = event(wire, topic, value)
    assert status == 400, answer
    assert wire.head(topic) == 0


class Unconnected(Flow):
    """A direction of a mirror whose calls are in a list."""

    def __init__(self, topic: str) -> None:
        at = Address("fra", "http://fra", None), Address("iad", "http://iad", None)
        super().__init__(topic, *at, {}, once=True)
        self.bodies: list[bytes] = []
        self.dest.call = lambda *_, body: self.bodies.append(msgspec.json.encode(body)) or b""  # type: ignore[assignment, func-returns-value]
        self.put_cursor = lambda: b""  # type: ignore[method-assign]


@MANY
@given(values=st.one_of(BATCHES, st.just(KEPT)))
def test_values_are_mirrored_as_they_are_shown(wire: Wire, values: list[bytes]) -> None:
    shown, mirrored = wire.filled(values), new_name("fuzz")
    ask = b'{"limit":1000,"include_tags":true}'
    assert wire.call("PUT", f"/v0/topics/{mirrored}", b"{}")[0] == 201
    flow = Unconnected(shown)
    flow.take(msgspec.json.decode(wire.call("POST", f"/v0/topics/{shown}/diff", ask)[1], type=ReadAnswer))
    status, answer = wire.call("POST", f"/v0/topics/{mirrored}/mirror", flow.bodies[-1])
    assert status == 200, answer
    again = msgspec.json.decode(wire.call("POST", f"/v0/topics/{mirrored}/diff", ask)[1], type=Raws)["records"]
    assert data_in(again) == values


@pytest.mark.parametrize("value", REFUSED, ids=lambda value: repr(value[:20]))
def test_a_handover_of_broken_values_is_refused_and_changes_nothing(wire: Wire, value: bytes) -> None:
    topic = new_name("fuzz")
    records = b'[{"$seq":1,"$ts":1,"data":' + value + b"}]"
    body = b'{"here":"iad","source":"fra","from_seq":0,"next_from_seq":1,"records":' + records + b"}"
    status, answer = wire.call("POST", f"/v0/topics/{topic}/mirror", body)
    assert status == 400, answer
    assert wire.head(topic) == 0


@pytest.mark.parametrize("value", [each for each in REFUSED if each not in DEEPER], ids=lambda value: repr(value[:20]))
def test_a_copy_of_broken_values_is_refused_and_changes_nothing(wire: Wire, value: bytes) -> None:
    copied = new_name("fuzz")
    assert wire.call("PUT", f"/v0/topics/{copied}", b'{"sealed":true}')[0] == 201
    status, answer = wire.call("POST", f"/v0/topics/{copied}", as_copies(b'[{"$seq":1,"$ts":1,"data":' + value + b"}]"))
    assert status == 400, answer
    assert wire.head(copied) == 0


@MANY
@given(cut=st.integers(0, 400), values=BATCHES)
def test_a_body_that_was_cut_off_is_refused(wire: Wire, cut: int, values: list[bytes]) -> None:
    body = b'{"records":[' + b",".join(b'{"data":' + value + b"}" for value in values) + b"]}"
    status, answer = wire.call("POST", f"/v0/topics/{new_name('fuzz')}", body[: min(cut, len(body) - 1)])
    assert (status, msgspec.json.decode(answer)["error"]["code"]) == (400, "invalid_request")


# -- Out ---------------------------------------------------------------------------------------------------------------


@MANY
@given(values=BATCHES)
def test_values_go_out_by_every_read(wire: Wire, values: list[bytes]) -> None:
    topic = wire.filled(values)
    status, answer = wire.call("GET", f"/v0/topics/{topic}/records?limit=1000")
    assert data_in(msgspec.json.decode(answer, type=Raws)["records"]) == values
    status, answer = wire.call("GET", f"/v0/topics/{topic}/records?limit=1000", accept=EVENT)
    assert data_in(answer) == values
    for seq in {1, len(values)}:
        status, answer = wire.call("GET", f"/v0/topics/{topic}/records/{seq}")
        assert (status, bytes(msgspec.json.decode(answer, type=Raws)["data"])) == (200, values[seq - 1])


@MANY
@given(values=BATCHES)
def test_values_go_out_by_every_stream(wire: Wire, values: list[bytes]) -> None:
    topic = wire.filled(values)
    _, session = wire.call("POST", "/v0/watch", b'{"topics":{"%s":{"from_seq":0}}}' % topic.encode())
    found: list[bytes] = []
    for event in wire.stream(msgspec.json.decode(session)["stream_url"]):
        if event.get("event") == "record":
            found += data_in(msgspec.json.decode(event["data"].encode(), type=Raws)["records"])
        if len(found) >= len(values):
            break
    assert found == as_sent(values)
    found = []
    for event in wire.stream(f"/v0/topics/{topic}/events", f"{topic}:0"):
        if event.get("event") == "message":
            found.append(bytes(msgspec.json.decode(event["data"].encode(), type=Raws)["data"]))
        if len(found) >= len(values):
            break
    assert found == as_sent(values)
    found_by_seq: dict[int, bytes] = {}
    for event in wire.stream(f"/v0/topics/{topic}/groups/fuzz/stream?partition_by=$.a&partitions=4"):
        if event.get("event") == "record":
            for record in msgspec.json.decode(
                msgspec.json.decode(event["data"].encode(), type=Raws)["records"], type=list[Raws]
            ):
                found_by_seq[msgspec.json.decode(record["$seq"], type=int)] = bytes(record["data"])
        if len(found_by_seq) >= len(values):
            break
    assert [found_by_seq[seq] for seq in sorted(found_by_seq)] == as_sent(values)


# -- Sockets -----------------------------------------------------------------------------------------------------------


class Frames:
    """A WebSocket with frames as the bytes that they are."""

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection

    def send(self, op: str, topic: str, more: bytes = b"") -> None:
        self.connection.send(b'{"op":"%s","topic":"%s"%s}' % (op.encode(), topic.encode(), more), text=True)

    def publish(self, topic: str, values: list[bytes]) -> None:
        records = b",".join(b'{"tag":"t","data":' + value + b"}" for value in values)
        self.send("publish", topic, b',"records":[' + records + b"]")

    def next(self, op: str) -> Raws:
        """The next frame of this kind. No frame before it is an error."""
        while True:
            frame = msgspec.json.decode(self.connection.recv(60, decode=False), type=Raws)
            found = msgspec.json.decode(frame["op"])
            assert op == found or found != "error", frame
            if op == found:
                return frame

    def records(self, count: int) -> list[bytes]:
        """The data of so many records. Frames have line breaks of one kind."""
        found: list[bytes] = []
        while len(found) < count:
            found += data_in(self.next("record")["records"])
        return found


@contextmanager
def opened(wire: Wire) -> Iterator[Frames]:
    with connect(f"ws://127.0.0.1:{wire.port}/v0/ws", proxy=None, compression=None, max_size=None) as connection:
        yield Frames(connection)


@MANY
@given(values=st.one_of(BATCHES, st.just(KEPT)))
def test_values_pass_a_socket(wire: Wire, values: list[bytes]) -> None:
    topic = new_name("fuzz")
    with opened(wire) as socket:
        socket.publish(topic, values)
        socket.next("ack")
        socket.send("subscribe", topic, b',"from_seq":0')
        assert socket.records(len(values)) == as_sent(values)
        socket.publish(topic, values)
        assert socket.records(len(values)) == as_sent(values)
        socket.send("unsubscribe", topic)
        socket.next("unsubscribed")
        socket.send("join", topic, b',"group":"fuzz","partitions":1')
        assert socket.records(2 * len(values)) == as_sent(values) * 2


@MANY
@given(values=st.one_of(BATCHES, st.just(KEPT)))
def test_values_pass_a_queue(wire: Wire, values: list[bytes]) -> None:
    topic = new_name("fuzz")
    assert wire.call("PUT", f"/v0/topics/{topic}", b'{"type":"queue","lease_ms":100000}')[0] == 201
    with opened(wire) as socket:
        for _ in range(3):
            socket.publish(topic, values)
            socket.next("ack")
        most = b"%d" % len(values)
        socket.send("claim", topic, b',"node":"one","max":' + most)
        assert data_in(socket.next("jobs")["claimed"]) == values
    status, answer = wire.call("POST", f"/v0/topics/{topic}/claim", b'{"node":"two","max":' + most + b"}")
    assert (status, data_in(msgspec.json.decode(answer, type=Raws)["claimed"])) == (200, values)
    found: list[bytes] = []
    for event in wire.stream(f"/v0/topics/{topic}/work?node=three&max=1000"):
        if event.get("event") == "job":
            found.append(bytes(msgspec.json.decode(event["data"].encode(), type=Raws)["data"]))
        if len(found) >= len(values):
            break
    assert found == as_sent(values)


@pytest.mark.parametrize("value", REFUSED, ids=lambda value: repr(value[:20]))
def test_a_socket_refuses_broken_values(wire: Wire, value: bytes) -> None:
    topic = wire.filled([b"1"])
    with opened(wire) as socket:
        socket.publish(topic, [b"2", value, b"3"])
        if value.decode(errors="ignore").encode() == value:
            assert bytes(socket.next("error")["code"]) == b'"invalid_request"'
            socket.publish(topic, [b"4"])
            socket.next("ack")
            assert wire.head(topic) == 2
        else:  # a text frame must be UTF-8
            with pytest.raises(ConnectionClosedError, match="1007"):
                socket.next("error")
            assert wire.head(topic) == 1


@MANY
@given(values=BATCHES)
def test_values_pass_routers_and_sql(wire: Wire, server: Instance, values: list[bytes]) -> None:
    topic = wire.filled(values)
    router = b'{"source":"%s","dest":"%s-to","from":"earliest","filter":["tag","Eq","t"],"guarantee":"exactly_once"}'
    status, answer = wire.call("PUT", f"/v0/routers/{topic}", router % (topic.encode(), topic.encode()))
    assert status == 201, answer
    status, answer = wire.call("POST", f"/v0/topics/{topic}-to/diff", b'{"limit":1000}')
    records = msgspec.json.decode(answer, type=Raws)["records"]
    assert data_in(records) == values
    assert all(b"_topics_router" in bytes(each["meta"]) for each in msgspec.json.decode(records, type=list[Raws]))
    with server.connect() as connection:
        rows = connection.execute("SELECT data::text FROM topic_log WHERE topic = %s ORDER BY seq", (f"{topic}-to",))
        assert [text.encode() for (text,) in rows] == values


# -- Pages, downloads, the shell, the bus ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def cookie(server: Instance) -> str:
    answer = log_in(server, (server.data / "admin-password").read_text().strip())
    found = re.search(r"sessionid=[^;,]+", answer.headers["set-cookie"])
    assert found is not None
    return found[0]


def test_values_are_shown_on_pages_and_downloaded(wire: Wire, cookie: str) -> None:
    topic = wire.filled(KEPT)
    pages = [
        f"topic/{topic}/records/",
        f"topic/{topic}/",
        *(f"topic/{topic}/records/{seq + 1}/" for seq in range(len(KEPT))),
    ]
    for page in pages:
        status, answer = wire.call("GET", f"/admin/{page}", cookie=cookie)
        assert (status, b"<script>alert" in answer) == (200, False), page
    status, answer = wire.call("GET", f"/admin/download/{topic}.ndjson", cookie=cookie)
    lines = [msgspec.json.decode(line, type=Raws) for line in answer.splitlines() if line]
    assert status == 200
    assert [bytes(line["data"]) for line in lines] == [value for value in KEPT if b"\n" not in value] or len(
        lines
    ) == len(KEPT)
    status, answer = wire.call("GET", f"/admin/download/{topic}.csv", cookie=cookie)
    assert (status, len(list(csv.reader(io.StringIO(answer.decode()))))) == (200, len(KEPT) + 1)


def test_values_from_before_the_bound_hold_up_no_reader(wire: Wire, server: Instance, cookie: str) -> None:
    topic, values = wire.filled([b"1", b"2", b"3"]), [b"1", DEEP, b"3"]
    make_deep(server, topic)
    status, answer = wire.call("POST", f"/v0/topics/{topic}/diff", b'{"limit":1000}')
    assert (status, b'"data":' + DEEP in answer) == (200, True)
    assert wire.call("GET", f"/v0/topics/{topic}/records/2")[0] == 200
    for path, last_id, count in (
        (f"/v0/topics/{topic}/groups/one/stream?partition_by=tag&partitions=1", None, 3),
        (f"/v0/topics/{topic}/groups/two/stream?partition_by=$[0].b&partitions=1", None, 3),
        (f"/v0/topics/{topic}/events", f"{topic}:0", 3),
    ):
        found = 0
        for event in wire.stream(path, last_id):
            found += event.get("data", "").count('"$seq":')
            if found >= count:
                break
        assert found == count, path
    with opened(wire) as socket:
        socket.send("subscribe", topic, b',"from_seq":0')
        assert socket.records(3) == values
        socket.send("unsubscribe", topic)
        socket.next("unsubscribed")
        socket.send("join", topic, b',"group":"three","partitions":1')
        assert socket.records(3) == values
    for page in ("records/", "", "records/2/"):
        assert wire.call("GET", f"/admin/topic/{topic}/{page}", cookie=cookie)[0] == 200
    for kind in ("ndjson", "csv"):
        assert DEEP in wire.call("GET", f"/admin/download/{topic}.{kind}", cookie=cookie)[1]
    done = topics(server, "export", topic, "--records")
    assert (done.returncode, done.stderr.count(b"Traceback")) == (0, 0)
    assert DEEP in done.stdout


def test_jobs_from_before_the_bound_hold_up_no_worker(wire: Wire, server: Instance, cookie: str) -> None:
    """A claim gives its jobs, moves a deep job to the dead letters, and these have a page and a redrive."""
    topic = new_name("fuzz")
    config = b'{"type":"queue","lease_ms":1000,"max_deliveries":1,"dead_letter":"%s-dead"}' % topic.encode()
    assert wire.call("PUT", f"/v0/topics/{topic}", config)[0] == 201
    wire.append(topic, [b"1", b"2", b"3"])
    make_deep(server, topic)
    claimed: list[bytes] = []

    def claim() -> bool:
        status, answer = wire.call("POST", f"/v0/topics/{topic}/claim", b'{"node":"one","max":1000}')
        assert status == 200, answer
        claimed.extend(data_in(msgspec.json.decode(answer, type=Raws)["claimed"]))
        return wire.head(f"{topic}-dead") == 3

    until(claim, "three dead letters")
    assert claimed == [b"1", DEEP, b"3"]
    page = f"topic/{topic}/queue/"
    assert wire.call("GET", f"/admin/{page}", cookie=cookie)[0] == 200
    status, answer = wire.call("POST", f"/v0/topics/{topic}-dead/redrive", b'{"queue":"%s"}' % topic.encode())
    assert status == 200, answer
    status, answer = wire.call("POST", f"/v0/topics/{topic}/claim", b'{"node":"one","max":1000,"lease_ms":100000}')
    assert data_in(msgspec.json.decode(answer, type=Raws)["claimed"]) == [b"1", DEEP, b"3"]


def topics(server: Instance, *words: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    environment = {**os.environ, "TOPICS_URL": server.url}
    argv = [sys.executable, "-m", "topics_project", *words]
    return subprocess.run(argv, input=stdin, capture_output=True, env=environment, cwd=ROOT, check=False)


def test_values_pass_the_shell(wire: Wire, server: Instance) -> None:
    lines = [value for value in KEPT if b"\n" not in value]
    topic = new_name("fuzz")
    done = topics(server, "append", topic, stdin=b"\n".join(lines) + b"\n")
    assert done.returncode == 0, done.stderr
    done = topics(server, "export", topic, "--records")
    assert done.returncode == 0, done.stderr
    exported = [msgspec.json.decode(line, type=Raws) for line in done.stdout.splitlines() if line]
    assert [bytes(record["data"]) for record in exported] == lines
    broken = topics(server, "append", topic, stdin=b'{"a":\n')
    assert broken.returncode != 0
    assert b"Traceback" not in broken.stderr
    assert wire.head(topic) == len(lines)


def test_values_pass_the_bus(instances: Callable[..., Instance]) -> None:
    instance = instances(
        WEB_WORKERS="1",
        TOPICS_PROCESSES="push,worker,beat",
        ROUTEMASTER_ROOT_KEY=push.ROOT,
        PUSH_CALLBACK_LOOPBACK_HTTP="1",
    )
    publisher, subscriber = push.new_client(instance), push.new_client(instance)
    receiver, topic = Receiver(None), push.new_topic()
    try:
        publisher.publish(topic, push.url(0))
        subscriber.subscribe(topic, callback=receiver.url(), timeout=50)
        for number, value in enumerate(KEPT, 1):
            body = b'{"type":"create","url":"%s","data":%s}' % (push.url(number).encode(), value)
            reply = publisher.call("POST", f"/topics/{topic}", body)
            assert reply.status == 204, (value[:50], reply)
        for value in REFUSED:
            body = b'{"type":"create","url":"https://shop.example/x","data":%s}' % value
            assert publisher.call("POST", f"/topics/{topic}", body).status == 400, value[:50]
        wanted = [push.url(number) for number in range(1, len(KEPT) + 1)]
        until(lambda: set(wanted) <= set(receiver.acknowledged()), "every event")
        assert receiver.acknowledged() == wanted
        sent = [record for batch in receiver.batches for record in msgspec.json.decode(batch.body, type=list[Raws])]
        # An event without data, and one with null, are the same to Routemaster's clients.
        assert [bytes(event.get("data", b"null")) for event in sent] == KEPT
    finally:
        receiver.end()

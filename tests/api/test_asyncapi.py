"""GET /v0/schema?format=asyncapi: the streams and the WebSocket, as AsyncAPI 3."""

import http.client
import json
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, get_args, get_type_hints

import jsonschema
import pytest
from websockets.sync.client import ClientConnection, connect

from sockets.commands import Envelope
from tests.api.clients import ApiClient, HttpClient
from tests.deadlines import DEADLINE
from tests.instances import Instance
from topics_project.urls import STREAMS


@pytest.fixture(scope="module")
def document(server: Instance) -> Any:
    return HttpClient(server.port).get("/v0/schema?format=asyncapi").json


def references(part: Any) -> Iterator[str]:
    if isinstance(part, dict):
        if isinstance(part.get("$ref"), str):
            yield part["$ref"]
        for each in part.values():
            yield from references(each)
    elif isinstance(part, list):
        for each in part:
            yield from references(each)


def found(document: Any, reference: str) -> Any:
    part = document
    for step in reference.removeprefix("#/").split("/"):
        part = part[step]
    return part


def test_it_is_asyncapi(document: Any) -> None:
    """The official schema has 400 kB, and says what this says: each reference leads somewhere, and required fields exist."""
    assert document["asyncapi"] == "3.0.0"
    assert {"title", "version", "description"} <= document["info"].keys()
    for reference in references(document):
        assert isinstance(found(document, reference), dict), reference
    for name, channel in document["channels"].items():
        assert set(channel.get("parameters", ())) == {
            each[1:-1] for each in channel["address"].split("/") if each.startswith("{")
        }, name
        for message in channel["messages"].values():
            jsonschema.Draft7Validator.check_schema(message["payload"])
            assert 0 < len(message["summary"]) < 150, message["summary"]
            assert message["contentType"] == "application/json"
    for name, operation in document["operations"].items():
        assert operation["action"] in ("send", "receive")
        channel = operation["channel"]["$ref"]
        told = [*operation["messages"], *operation.get("reply", {}).get("messages", ())]
        assert told, name
        assert all(each["$ref"].startswith(f"{channel}/messages/") for each in told), name
    for schema in document["components"]["schemas"].values():
        jsonschema.Draft7Validator.check_schema(schema)


def test_it_has_every_stream_and_every_command(document: Any) -> None:
    addresses = {each["address"] for each in document["channels"].values()}
    assert addresses == {*("/" + each.path.replace("<str:", "{").replace(">", "}") for each in STREAMS), "/v0/ws"}
    commands = {
        name.removeprefix("socket_") for name, each in document["operations"].items() if each["action"] == "receive"
    }
    assert commands == set(get_args(get_type_hints(Envelope)["op"]))


@pytest.mark.parametrize(("query", "status"), [("format=openapi", 200), ("format=yaml", 400), ("as=asyncapi", 400)])
def test_another_format_is_refused(api: ApiClient, query: str, status: int) -> None:
    reply = api.get(f"/v0/schema?{query}")
    assert reply.status == status
    assert status == 400 or reply.json["openapi"].startswith("3.")


class Stream:
    """The events of a stream. Each must have the shape that the document says."""

    def __init__(self, stack: ExitStack, port: int, path: str, document: Any, channel: str) -> None:
        self.document, self.messages = document, document["channels"][channel]["messages"]
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=DEADLINE)
        self.connection.request("GET", path, headers={"accept": "text/event-stream"})
        self.answer = self.connection.getresponse()
        stack.callback(self.connection.close)
        stack.callback(self.answer.close)
        assert self.answer.status == 200

    def until(self, name: str) -> Any:
        """Returns the data of the next event of this name."""
        event, data = "", ""
        while line := self.answer.readline().decode().rstrip("\n"):
            field, _, value = line.partition(":")
            event, data = (value.strip(), data) if field == "event" else (event, data)
            data += value.strip() if field == "data" else ""
        if event and data:
            validate(self.document, self.messages[event], json.loads(data))
        elif event:
            assert event in self.messages
        return (json.loads(data) if data else None) if event == name else self.until(name)


def validate(document: Any, message: Any, value: Any) -> None:
    jsonschema.validate(value, {**message["payload"], "components": document["components"]}, jsonschema.Draft7Validator)


def test_streams_send_what_it_says(live: ApiClient, document: Any, server: Instance, name: str) -> None:
    with ExitStack() as stack:

        def opened(path: str, channel: str) -> Stream:
            return Stream(stack, server.port, path, document, channel)

        live.put(f"/v0/topics/{name}", {"cap_records": 2})
        watch = live.post("/v0/watch", {"topics": {name: {}}, "include_data": False}).json["stream_url"]
        live.append(name, 1, 2, 3)
        watched = opened(watch, "follow_watch")
        one = opened(f"/v0/topics/{name}/events?from_seq=0", "follow_topic")
        member = opened(f"/v0/topics/{name}/groups/g/stream?partitions=1", "follow_group")
        assert watched.until("tombstone")["gap_to"] == 1
        assert watched.until("record")["to_seq"] == 3
        watched.until("caught-up")
        assert one.until("stream-reset")["channels"] == [name]
        assert one.until("message")["data"] == 2
        session = member.until("joined")["session"]
        assert len(member.until("assigned")["shares"]) == 1
        member.until("tombstone")
        assert member.until("record")["to_seq"] == 3
        live.post(f"/v0/topics/{name}/groups/g/leave", {"session": session})
        assert member.until("error")["code"] == "session_ended"
        live.delete(f"/v0/topics/{name}")
        assert watched.until("topic-deleted")["topic"] == name
        live.put(f"/v0/topics/{name}.jobs", {"type": "queue"})
        live.post(f"/v0/topics/{name}.jobs", {"records": [{"data": 1, "tag": "t", "meta": {}}]})
        worker = opened(f"/v0/topics/{name}.jobs/work?node=w", "work")
        assert worker.until("job")["data"] == 1
        live.delete(f"/v0/topics/{name}.jobs")
        assert worker.until("error")["code"] == 404


def test_a_socket_sends_what_it_says(live: ApiClient, document: Any, server: Instance, name: str) -> None:
    messages = document["channels"]["upgrade"]["messages"]
    live.put(f"/v0/topics/{name}", {"cap_records": 2})
    live.append(name, 1, 2, 3)

    def call(socket: ClientConnection, until: str, **command: Any) -> Any:
        validate(document, messages[f"command_{command['op']}"], command)
        socket.send(json.dumps(command))
        while True:
            frame = json.loads(socket.recv(timeout=DEADLINE))
            in_group = "group" in frame and f"group_{frame['op']}" in messages
            validate(document, messages[f"group_{frame['op']}" if in_group else frame["op"]], frame)
            if frame["op"] == until:
                return frame

    with connect(f"ws://127.0.0.1:{server.port}/v0/ws") as socket:
        ack = call(socket, "ack", op="publish", request_id=1, topic=f"{name}.new", records=[{"data": {"id": 7}}])
        assert (ack["request_id"], ack["first_seq"]) == (1, 1)
        call(socket, "caught_up", op="subscribe", topic=name)
        assert call(socket, "pong", op="ping", positions=True)["positions"] == {name: 3}
        session = call(socket, "joined", op="join", topic=name, group="g", partitions=1)["session"]
        share = call(socket, "record", op="ping")
        done = {"share": share["share"], "generation": share["generation"], "seq": share["to_seq"]}
        call(socket, "committed", op="commit", topic=name, group="g", session=session, shares=[done])
        call(socket, "left", op="leave", topic=name, group="g", session=session)
        call(socket, "unsubscribed", op="unsubscribe", topic=name)
        assert call(socket, "error", op="claim", topic=name, node="w")["code"] == "not_a_queue"

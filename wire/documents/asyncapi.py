"""The AsyncAPI document of the streams and of the WebSocket, made from the same declarations as the OpenAPI document.

The document describes the server: it sends the events of streams and the frames of a socket, and receives the commands.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import msgspec
from django.conf import settings

from contract.operations import Operation
from wire.documents.openapi import KEY, Part, Shapes, named, path_of, reference, without_null
from wire.endpoint import Declaration
from wire.schema import JSON, Shape

VERSION = "3.0.0"
WEBSOCKET = Operation.UPGRADE.value  # the socket's channel. The other channels have the ids of their operations
REQUEST_ID = {
    "description": "The id of a command, which its answer repeats: up to 256 bytes.",
    "type": ["string", "number"],
}
TOKEN = {"description": "The key's secret, in place of the header `Authorization`.", "type": "string"}
HTTP, WS = {"bindingVersion": "0.3.0"}, {"bindingVersion": "0.1.0"}


class SocketMessage(NamedTuple):
    """A message of a socket: its `op`, and the shape of its other fields. `summary`: by default that of its shape.

    `scope` and `answer`: of a command. `of_group`: the frame names a group, too.
    """

    op: str
    shape: Shape
    summary: str = ""
    scope: str | None = None
    answer: str = ""
    of_group: bool = False


class SocketCalls(NamedTuple):
    """A WebSocket: the commands of clients, the frames that answer them, and the frames that answer none, by name."""

    path: str
    commands: Mapping[str, SocketMessage]
    answers: Mapping[str, SocketMessage]
    pushed: Mapping[str, SocketMessage]

    @property
    def frames(self) -> dict[str, SocketMessage]:
        """Returns all messages by a name of their own. `ack` is the name of a command and of a frame."""
        commands = {f"command_{name}": each for name, each in self.commands.items()}
        return {**commands, **self.answers, **self.pushed}


@dataclass(frozen=True, eq=False)
class Streams:
    """The described streams and the socket. `about`: the description. `names`: the names in paths, as of an API."""

    about: str
    names: Mapping[str, Part]
    operations: Sequence[Declaration]
    socket: SocketCalls


@functools.cache
def schema(streams: Streams) -> bytes:
    """Returns the document as JSON. Only a change of the code changes it."""
    return msgspec.json.encode(document(streams))


def document(streams: Streams) -> Part:
    """Returns the whole AsyncAPI document."""
    frames = streams.socket.frames
    events = [shape for each in streams.operations for shape in each.events.values()]
    shapes = Shapes(
        [*events, *(each.shape for each in frames.values())], {each.query for each in streams.operations if each.query}
    )
    channels = {each.id: channel(each, streams) for each in streams.operations}
    operations = {each.id: following(each, shapes) for each in streams.operations}
    return {
        "asyncapi": VERSION,
        "info": {"title": "topics", "version": settings.VERSION, "description": streams.about},
        "defaultContentType": JSON,
        "channels": {**channels, WEBSOCKET: socket_channel(streams.socket)},
        "operations": {**operations, **socket_operations(streams.socket)},
        "components": {"schemas": shapes.components, "securitySchemes": {"key": KEY}},
    }


def channel(of: Declaration, streams: Streams) -> Part:
    """Returns the channel of a stream of server-sent events."""
    more = of.summary.partition("\n\n")[2]
    parameters = {each["name"]: {"description": each["description"]} for each in named(of, streams.names)}
    return {
        "address": path_of(of),
        "title": title(of),
        "description": " ".join(more.split()),
        "parameters": parameters,
        "messages": {
            name: message(name, said_of(shape), reference(shape.__name__)) for name, shape in of.events.items()
        },
    }


def title(of: Declaration) -> str:
    return " ".join(of.summary.partition("\n\n")[0].split()).removesuffix(".")


def message(name: str, summary: str, payload: Part) -> Part:
    return {"name": name, "summary": summary, "contentType": JSON, "payload": payload}


def said_of(shape: Shape) -> str:
    return " ".join((shape.__doc__ or "").split())


def following(of: Declaration, shapes: Shapes) -> Part:
    """Returns the operation of a stream: the server sends its events."""
    query = {"query": object_of(shapes.queries[of.query])} if of.query else {}
    return {
        "action": "send",
        "channel": at("channels", of.id),
        "summary": title(of),
        "security": secured(of.scope),
        "bindings": {"http": {"method": of.method, **query, **HTTP}},
        "messages": [at("channels", of.id, "messages", name) for name in of.events],
    }


def object_of(part: Part) -> Part:
    return {"type": "object", "properties": {name: without_null(each) for name, each in part["properties"].items()}}


def secured(scope: str | None) -> list[Part]:
    return [at("components", "securitySchemes", "key")] if scope else []


def socket_channel(socket: SocketCalls) -> Part:
    return {
        "address": socket.path,
        "title": "One connection for all calls",
        "description": "A WebSocket. Each message is one JSON object with a field `op`.",
        "messages": {name: message(each.op, told(each), framed(each)) for name, each in socket.frames.items()},
        "bindings": {"ws": {"method": "GET", "query": object_of({"properties": {"token": TOKEN}}), **WS}},
    }


def told(of: SocketMessage) -> str:
    return of.summary or said_of(of.shape)


def framed(of: SocketMessage) -> Part:
    """Returns the schema of a frame: its shape, with `op`, the `request_id`, and the group."""
    fields: Part = {"op": {"const": of.op}, "request_id": REQUEST_ID}
    if of.of_group:
        fields["group"] = {"description": "The group's name.", "type": "string"}
    return {"allOf": [reference(of.shape.__name__), {"type": "object", "required": ["op"], "properties": fields}]}


def socket_operations(socket: SocketCalls) -> Part:
    """Returns an operation for each command with its answer, and one for the frames that answer no command."""

    def messages(*names: str) -> list[Part]:
        return [at("channels", WEBSOCKET, "messages", name) for name in names]

    here = at("channels", WEBSOCKET)
    found: Part = {}
    for name, each in socket.commands.items():
        reply = {"channel": here, "messages": messages(each.answer, "error")}
        found[f"socket_{name}"] = {
            "action": "receive",
            "channel": here,
            "summary": told(each),
            "security": secured(each.scope),
            "messages": messages(f"command_{name}"),
            "reply": reply,
        }
    summary = "The frames of subscriptions and of memberships."
    pushed = {"action": "send", "channel": here, "summary": summary, "messages": messages(*socket.pushed)}
    return {**found, "socket_frames": pushed}


def at(*path: str) -> Part:
    return {"$ref": "#/" + "/".join(path)}

"""Translates topic names in both directions: in paths, bodies, answers, frames, ids and errors.

The client's name of a topic differs from the server's name by a prefix. Names of routers are translated in the same way.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
from collections.abc import Callable
from typing import Any
from urllib.parse import quote, unquote

import msgspec

from base.errors import InvalidRequest
from gateway.api import Operation, Request, Response
from gateway.edits import decoded, edited
from gateway.edits import encoded as raw
from gateway.frames import Frame, Frames
from gateway.identifiers import parameter, with_parameter

NAMES = ("topic", "source", "dest", "router", "dead_letter")  # fields with one name
INSIDE = (
    "topics",
    "routers",
    "cursors",
    "path",
    "routers_removed",
    "detail",
    "cycle",
    "config",
    "channels",
)  # fields with nested names
# Entries of these lists are dropped if the client may not see their name.
LISTED = ("topics", "routers", "routers_removed")
HIDDEN = "*"  # replaces a name that the client may not see
STAMP = b'"_topics_router":'  # in the meta of a record from an exactly_once router
LAST_EVENT_ID = b"last-event-id"
Raws = dict[str, msgspec.Raw]
Rename = Callable[[str], str]


class Renaming:
    """Two functions.

    `to_server` returns the server's name of a client's topic, and raises InvalidRequest if the client may not use the name.
    `to_client` returns the client's name of a server's topic.
    """

    def __init__(self, to_server: Rename, to_client: Rename) -> None:
        self.to_server, self.to_client = to_server, to_client


def prefixed_at_client(prefix: str) -> Renaming:
    """The client uses `eu.orders` for the server's `orders`."""

    def to_server(name: str) -> str:
        if not name.startswith(prefix):
            raise InvalidRequest(f"invalid name {name!r}: expected the prefix {prefix!r}")
        return name[len(prefix) :]

    return Renaming(to_server, lambda name: prefix + name)


def prefixed_at_server(prefix: str) -> Renaming:
    """The client uses `orders` for the server's `acme.orders`.

    Names without the prefix are hidden from the client, and appear as `*`.
    """

    def to_client(name: str) -> str:
        return name[len(prefix) :] if name.startswith(prefix) and name != prefix else HIDDEN

    return Renaming(lambda name: prefix + name, to_client)


# -- Requests --------------------------------------------------------------------------------------------------------------


async def renamed_request(request: Request, renaming: Renaming) -> Request:
    """Returns the request with the server's names. Raises InvalidRequest."""
    operation, to_server = request.operation, renaming.to_server
    changes: dict[str, Any] = {}
    if request.topic is not None:
        changes["topic"] = quote(to_server(request.topic), safe=".:_-")
    elif operation in (Operation.GET_ROUTER, Operation.PUT_ROUTER, Operation.DELETE_ROUTER) and request.name:
        changes["path"] = f"/v0/routers/{quote(to_server(request.name), safe='.:_-')}"
    if operation is Operation.WATCH:
        body = await request.json(Raws)
        topics = decoded(body.get("topics"), Raws)
        if topics is not None:
            body["topics"] = raw({to_server(name): value for name, value in topics.items()})
            changes["body"] = msgspec.json.encode(body)
    elif operation is Operation.PUT_ROUTER:
        body = await request.json(Raws)
        changes["body"] = msgspec.json.encode(with_names(body, to_server))
    elif operation in (Operation.APPEND, Operation.PUT_TOPIC):
        if b'"dead_letter"' in (body_bytes := await request.body()):
            changes["body"] = edited(body_bytes, lambda members: members.update(with_names(members, to_server)))
    elif operation is Operation.LIST_ROUTERS:
        query = request.query
        for name in ("source", "dest"):
            if (value := parameter(query, name)) is not None:
                query = with_parameter(query, name, to_server(value))
        changes["query"] = query
    if request.operation.is_stream:
        changes |= _stream_position(request, to_server)
    # The gateway reads the answer, so the server must not compress the answer.
    headers = changes.get("headers", request.headers)
    changes["headers"] = [each for each in headers if each[0] != b"accept-encoding"]
    return request.replace(**changes)


def _stream_position(request: Request, to_server: Rename) -> dict[str, Any]:
    """Returns the changes that put the stream's position into the server's names."""
    shown = request.header(LAST_EVENT_ID)
    if request.operation is Operation.FOLLOW_WATCH:
        if shown is None:
            return {}
        position = renamed_id(decoded_id(shown.decode("latin-1")), to_server)
        return {"headers": with_header(request.headers, LAST_EVENT_ID, encoded_id(position))}
    changes: dict[str, Any] = {}
    if shown is not None:
        changes["headers"] = with_header(request.headers, LAST_EVENT_ID, renamed_event_id(shown, to_server))
    if (asked := parameter(request.query, "lastEventId")) is not None:
        new = renamed_event_id(asked.encode(), to_server).decode()
        changes["query"] = with_parameter(request.query, "lastEventId", new)
    return changes


def with_header(headers: Any, name: bytes, value: bytes) -> list[tuple[bytes, bytes]]:
    return [*(each for each in headers if each[0] != name), (name, value)]


# -- Answers ---------------------------------------------------------------------------------------------------------------


async def renamed_response(operation: Operation, response: Response, renaming: Renaming, asked: str | None) -> Response:
    """Returns the answer with the client's names.

    `asked`: the server's name of the topic in the path, for errors that quote the name.
    """
    to_client = renaming.to_client
    if operation.is_stream and response.status == 200:

        def change(frame: Frame) -> bytes:
            rename_frame(frame, to_client)
            return frame.encoded()

        return response.replace(body=Frames(response.body, change))
    if not response.is_json:
        return response
    try:
        body = await response.decoded(Raws)
    except msgspec.MsgspecError:
        return response
    if "error" in body:
        body["error"] = raw(_renamed_error(msgspec.json.decode(body["error"], type=Raws), to_client, asked))
    return response.replace(body=msgspec.json.encode(with_names(body, to_client)))


def with_names(body: Raws, rename: Rename) -> Raws:
    """Returns the object with its names changed, also nested names. All other members keep their bytes."""
    found = dict(body)
    for key in NAMES:
        if (value := decoded(found.get(key), str)) is not None:
            found[key] = raw(rename(value))
    for key in INSIDE:
        if key in found:
            found[key] = _inside(found[key], rename, hides=key in LISTED)
    for key in ("records", "meta"):
        if key in found and STAMP in bytes(found[key]):
            found[key] = _stamped(found[key], rename)
    if found.get("kind") == raw("router"):  # a router's cursor has the router's name
        found["cursor"] = raw(rename(msgspec.json.decode(found["cursor"], type=str)))
    return found


def _stamped(value: msgspec.Raw, rename: Rename) -> msgspec.Raw:
    """Returns records, one record or its meta, with renamed stamps of exactly_once routers."""
    if STAMP not in bytes(value):
        return value
    if bytes(value)[:1] == b"[":
        return raw([_stamped(each, rename) for each in msgspec.json.decode(value, type=list[msgspec.Raw])])
    found = msgspec.json.decode(value, type=Raws)
    if "_topics_router" in found:
        stamp = decoded(found["_topics_router"], Raws) or {}
        own, key = decoded(stamp.get("router"), str), decoded(stamp.get("key"), str)
        if own is not None and key is not None:  # otherwise a client wrote the field, and the field is not a stamp
            found["_topics_router"] = raw({**with_names(stamp, rename), "key": rename(own) + key.removeprefix(own)})
    elif "meta" in found:
        found["meta"] = _stamped(found["meta"], rename)
    return raw(found)


def _inside(value: msgspec.Raw, rename: Rename, *, hides: bool = False) -> msgspec.Raw:
    first = bytes(value)[:1]
    if first == b"[":
        items = [_inside(each, rename) for each in msgspec.json.decode(value, type=list[msgspec.Raw])]
        return raw([each for each in items if not (hides and _is_hidden(each))])
    if first == b'"':
        return raw(rename(msgspec.json.decode(value, type=str)))
    if first == b"{":
        inner = msgspec.json.decode(value, type=Raws)
        if any(name in inner for name in (*NAMES, *INSIDE)):
            return raw(with_names(inner, rename))
        if inner and all(bytes(memoryview(each)[:1]) == b"{" for each in inner.values()):
            return raw({rename(name): each for name, each in inner.items()})  # a watch's topics, by name
    return value


def _is_hidden(value: msgspec.Raw) -> bool:
    """Returns whether the name of a list's entry is hidden from the client."""
    if bytes(value)[:1] == b"{":
        entry = msgspec.json.decode(value, type=Raws)
        value = entry.get("router", entry.get("topic", msgspec.Raw(b"null")))
    return bool(value == raw(HIDDEN))


def _renamed_error(error: Raws, rename: Rename, asked: str | None) -> Raws:
    detail = decoded(error.get("detail"), Raws)
    names = {asked} if asked is not None else set()
    if detail is not None:
        names |= {value for key in NAMES if (value := decoded(detail.get(key), str)) is not None}
        if path := decoded(detail.get("path"), str):
            detail["path"] = raw(path)  # an address, not a name
        error["detail"] = raw(
            {key: value if key == "path" else with_names({key: value}, rename)[key] for key, value in detail.items()}
        )
    message = decoded(error.get("message"), str)
    if message is not None:
        for name in sorted(names, key=len, reverse=True):
            message = message.replace(f"'{name}'", f"'{rename(name)}'")
        error["message"] = raw(message)
    return error


def rename_frame(frame: Frame, rename: Rename) -> None:
    """Renames topics in the frame's data and id to the client's names."""
    if (frame.data is not None and frame.data.startswith((b'{"topic"', b'{"channels"'))) or frame.event == b"error":
        with contextlib.suppress(msgspec.MsgspecError):
            frame.data = msgspec.json.encode(with_names(msgspec.json.decode(frame.data or b"{}", type=Raws), rename))
    if frame.id and frame.has_position:
        if b":" in frame.id:
            frame.id = renamed_event_id(frame.id, rename)
        else:
            frame.id = encoded_id(renamed_id(decoded_id(frame.id.decode("latin-1")), rename))


# -- Ids of streams --------------------------------------------------------------------------------------------------------


def decoded_id(text: str) -> dict[str, Any]:
    """Returns the seqs by topic from a watch's Last-Event-ID. Raises InvalidRequest."""
    try:
        bare = text.rstrip("=")
        found: dict[str, Any] = msgspec.json.decode(
            base64.b64decode(bare + "=" * (-len(bare) % 4), altchars=b"-_", validate=True), type=dict[str, Any]
        )
        return found
    except (ValueError, binascii.Error, msgspec.MsgspecError) as error:
        raise InvalidRequest("invalid Last-Event-ID: this stream gave out other ids. Connect without it") from error


def encoded_id(position: dict[str, Any]) -> bytes:
    text = msgspec.json.encode(position)
    return base64.urlsafe_b64encode(text + b" " * (-len(text) % 3))


def renamed_id(position: dict[str, Any], rename: Rename) -> dict[str, Any]:
    """Returns the position with other names. Keys with `$` come from ids of earlier versions, and are dropped."""
    return {rename(name): seq for name, seq in position.items() if not name.startswith("$")}


def renamed_event_id(shown: bytes, rename: Rename) -> bytes:
    """Renames the topic in an id of a topic's events: `topic:seq`."""
    topic, colon, seq = shown.decode("latin-1").rpartition(":")
    return f"{rename(unquote(topic))}{colon}{seq}".encode("latin-1") if colon else shown

"""Translates topic names in both directions: in paths, bodies, answers, frames, ids and errors.

The client's name of a topic differs from the server's name by a prefix. Names of routers are translated in the same way.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import re
from collections.abc import Awaitable, Callable, Collection
from typing import Any
from urllib.parse import quote, unquote

import msgspec

from base.bounds import LETTER_FROM, MIRROR_STAMP
from base.errors import HIDDEN, InvalidRequest, TopicsError, UnsupportedMediaType, rendered
from base.names import QUOTED, check_router_name
from contract.operations import Resource, about
from gateway.api import Headers, Operation, Request, Response, without
from gateway.rewrite.edits import decoded, is_absent
from gateway.rewrite.edits import encoded as raw
from gateway.rewrite.frames import Frame, Frames
from gateway.rewrite.identifiers import parameter, with_parameter
from http1.messages import find
from wire.request.accept import HTML, choose
from wire.schema import JSON

NAMES = ("topic", "source", "dest", "router", "dead_letter", "queue")  # fields with one name
NAMES_OF_ERRORS = (*NAMES, "name")
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
    "schedules",
)  # fields with nested names
# Entries of these lists are dropped if the client may not see their name.
LISTED = ("topics", "routers", "routers_removed")
BUS = about(Resource.BUS)
# A plugin that decides by topics refuses these calls, because it cannot read their topics. With the reason.
UNKNOWN = {
    Operation.OTHER: "the gateway does not know this call, so it cannot see which topics the call names",
    **dict.fromkeys(
        about(Resource.WEBHOOKS), "a webhook reads topics by patterns at its server: ask the server itself"
    ),
}
ANY = "*"  # the pattern of every name
LONGEST_NAME = 255
# Members of a record's meta that hold names. Servers write them.
ROUTER_STAMP = "_topics_router"
STAMPS = tuple(f'"{name}"'.encode() for name in (ROUTER_STAMP, MIRROR_STAMP, LETTER_FROM))
LAST_EVENT_ID = b"last-event-id"
NO_PAGES = frozenset((Operation.DOCS, *(each for each in Operation if each.is_stream)))
CONTROL = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")  # characters that no header contains
Raws = dict[str, msgspec.Raw]
Rename = Callable[[str], str]
Send = Callable[[Request], Awaitable[Response]]


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
        if name == ANY:  # all queues of the server
            return name
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

    def to_server(name: str) -> str:
        if name == ANY:
            return prefix + ANY
        # Routers and topics come here, and a router's name can have one letter more. The server refuses that letter in a topic.
        check_router_name(name, "name")
        if len(name) > LONGEST_NAME - len(prefix):
            raise InvalidRequest(
                f"the name has {len(name)} characters: expected at most {LONGEST_NAME - len(prefix)} here"
            )
        return prefix + name

    return Renaming(to_server, to_client)


# -- Requests --------------------------------------------------------------------------------------------------------------


ONE, PATTERN, ITEMS, KEYS = "one", "pattern", "items", "keys"
Shape = dict[str, Any]
# Where the body of a call names topics: the member, and whether it has one name, a pattern, a list of names, an object whose keys
# are names, or an object with such members. `source` of a mirror is a site, and not a topic.
BODIES: dict[Operation, Shape] = {
    Operation.WATCH: {"topics": KEYS},
    Operation.PUT_ROUTER: {"source": ONE, "dest": ONE},
    Operation.PUT_TOPIC: {"dead_letter": ONE},
    Operation.APPEND: {"config": {"dead_letter": ONE}},
    Operation.MIRROR: {"config": {"dead_letter": ONE}},
    Operation.REDRIVE: {"queue": PATTERN},
    Operation.SUBSCRIBE: {"topics": ITEMS},
}
# Calls whose body names topics that a server uses together with other topics. A watch only reads its topics.
JOINING = frozenset(BODIES) - {Operation.WATCH}
# Where a query names topics.
QUERIES: dict[Operation, tuple[str, ...]] = {Operation.LIST_ROUTERS: ("source", "dest")}
OF_ROUTERS = frozenset(
    (Operation.GET_ROUTER, Operation.PUT_ROUTER, Operation.DELETE_ROUTER)
)  # `name` is a router's name
FORMS = (b"application/x-www-form-urlencoded", b"multipart/form-data")


async def topics_of(request: Request) -> list[str]:
    """Returns every topic that a request names, in its path, query, body and last id. A redrive names a pattern of queues.

    Names that a filter renames are the names that a filter refuses: both read a request here. Raises TopicsError.
    """
    found: list[str] = []

    def note(name: str) -> str:
        found.append(name)
        return name

    await renamed_request(request, Renaming(note, str), topics_only=True)
    return found


async def renamed_request(request: Request, renaming: Renaming, *, topics_only: bool = False) -> Request:
    """Returns the request with the server's names. `topics_only`: without names of routers, and without names in records.

    Raises InvalidRequest, UnsupportedMediaType.
    """
    operation, to_server = request.operation, renaming.to_server
    changes: dict[str, Any] = {}
    if request.topic is not None:
        changes["topic"] = quote(to_server(request.topic), safe=".:_-")
    elif operation in OF_ROUTERS and request.name and not topics_only:
        changes["path"] = f"/v0/routers/{quote(to_server(request.name), safe='.:_-')}"
    if operation in BODIES:
        changes["body"] = await _renamed_body(request, to_server, topics_only)
    if operation in QUERIES:
        query = request.query
        for name in QUERIES[operation]:
            if (value := parameter(query, name)) is not None:
                query = with_parameter(query, name, to_server(value))
        changes["query"] = query
    if request.operation.is_stream:
        changes |= _stream_position(request, to_server)
    # The gateway reads the answer, so the server must not compress the answer.
    headers = [each for each in changes.get("headers", request.headers) if each[0] != b"accept-encoding"]
    # A page would show the server's names. A stream is none, and the documentation names no topics.
    accepted = find(headers, b"accept")
    if accepted is not None and choose(accepted, (JSON, HTML)) == HTML and operation not in NO_PAGES:
        headers = with_header(headers, b"accept", JSON.encode())
    changes["headers"] = headers
    return request.replace(**changes)


async def _renamed_body(request: Request, to_server: Rename, topics_only: bool) -> bytes:
    """Returns the body with the server's names. A body without an object stays, because the server refuses it."""
    body = await request.body()  # before its headers: an event may have any content type, and is JSON now
    content_type = b",".join(value for name, value in request.headers if name == b"content-type")
    if any(form in content_type.lower() for form in FORMS):
        # A page of the server would read the fields of the form as members of the body.
        raise UnsupportedMediaType("the gateway does not read forms: send JSON, as application/json")
    try:
        members = msgspec.json.decode(body or b"{}", type=Raws)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return body
    except RecursionError as error:  # the server may still be able to read the body
        raise InvalidRequest("the JSON is nested too deeply") from error
    changed = _with_members(members, BODIES[request.operation], to_server)
    is_copied = request.operation is Operation.MIRROR or decoded(members.get("copy"), bool)
    if is_copied and "records" in members and not topics_only:
        changed["records"] = _stamped(members["records"], _lenient(to_server))
    return body if changed == members else msgspec.json.encode(changed)


def _with_members(members: Raws, shape: Shape, rename: Rename) -> Raws:
    """Returns the members with changed names. A member of another type stays, because the server refuses it."""
    found = dict(members)
    for member, kind in shape.items():
        value = members.get(member)
        if kind == PATTERN:
            name = ANY if is_absent(members, member) else decoded(value, str)
            if name is not None and (new := rename(name)) != name:
                found[member] = raw(new)
        elif isinstance(kind, dict):
            if (inner := decoded(value, Raws)) is not None and (changed := _with_members(inner, kind, rename)) != inner:
                found[member] = raw(changed)
        elif kind == ONE:
            if (name := decoded(value, str)) is not None:
                found[member] = raw(rename(name))
        elif kind == ITEMS:
            if (names := decoded(value, list[str])) is not None:
                found[member] = raw([rename(each) for each in names])
        elif (starts := decoded(value, Raws)) is not None:
            found[member] = raw({rename(each): start for each, start in starts.items()})
    return found


def _lenient(rename: Rename) -> Rename:
    """Returns a renaming that keeps a name that it cannot change. A stamp with such a name says nothing at the server."""

    def renamed(name: str) -> str:
        try:
            return rename(name)
        except InvalidRequest:
            return name

    return renamed


def _stream_position(request: Request, to_server: Rename) -> dict[str, Any]:
    """Returns the changes that put the stream's position into the server's names."""
    shown = request.header(LAST_EVENT_ID)
    if shown is None:
        return {}
    if request.operation is Operation.FOLLOW_WATCH:
        position = renamed_id(decoded_id(shown.decode("latin-1")), to_server)
        return {"headers": with_header(request.headers, LAST_EVENT_ID, encoded_id(position))}
    return {"headers": with_header(request.headers, LAST_EVENT_ID, renamed_event_id(shown, to_server))}


def with_last_id(request: Request) -> Request:
    """Returns a stream's request with its last id in the header alone. A client without own headers sends it in the query.

    Raises InvalidRequest.
    """
    asked = parameter(request.query, "lastEventId")
    if asked is None:
        return request
    headers = request.headers
    if not request.header(LAST_EVENT_ID):
        headers = with_header(headers, LAST_EVENT_ID, asked.encode("latin-1", "replace"))
    return request.replace(query=with_parameter(request.query, "lastEventId", None), headers=headers)


def with_header(headers: Any, name: bytes, value: bytes) -> list[tuple[bytes, bytes]]:
    """Returns the headers with one more, in place of those with its name.

    Raises InvalidRequest for a value that no client can send as a header: one from a query or an id can contain lines.
    """
    if CONTROL.search(value):
        raise InvalidRequest(f"invalid {name.decode().title()}: expected no control characters")
    return [*(each for each in headers if each[0] != name), (name, value)]


# -- Answers ---------------------------------------------------------------------------------------------------------------


async def quotable(request: Request, response: Response) -> list[str]:
    """Returns the names of topics and routers in a request that its answer can quote: an error, a stream or a redrive."""
    operation = request.operation
    if response.status < 400 and not operation.is_stream and operation is not Operation.REDRIVE:
        return []
    with contextlib.suppress(TopicsError):  # a refused request
        found = [name for name in await topics_of(request) if not name.endswith(ANY)]
        return [*found, request.name] if operation in OF_ROUTERS and request.name else found
    return []


async def of_owner(request: Request, response: Response, renaming: Renaming, send: Send) -> Response:
    """Returns the answer about the cursor of an owner, such as a router, if the answer about a named cursor is 404.

    A named cursor has the client's name at the server, and counts first, as it does there. Other cursors have the server's name
    of their owner there, and the client's in the list. `request` is as the client sent it. Raises TopicsError.
    """
    if request.operation is not Operation.GET_CURSOR or response.status != 404:
        return response
    try:
        owner = renaming.to_server(request.name or "")
    except InvalidRequest:
        return response
    await response.read()  # its connection is free for the next request
    inner = await renamed_request(request, renaming)
    topic, cursor = (quote(name or "", safe=".:_-") for name in (inner.topic, owner))
    found = await send(inner.replace(path=f"/v0/topics/{topic}/cursors/{cursor}"))
    try:
        body = await found.decoded(Raws)
    except msgspec.MsgspecError:
        return response
    return found if found.status == 200 and body.get("kind") != raw("named") else response


async def renamed_response(
    operation: Operation, response: Response, renaming: Renaming, asked: Collection[str] = ()
) -> Response:
    """Returns the answer with the client's names.

    `asked`: the server's names in the request, which the answer can quote (quotable). Other names in an error are in its detail,
    from which its message is rendered again (base/errors.py).
    """
    to_client = renaming.to_client
    if operation.is_stream and response.status == 200:

        def change(frame: Frame) -> bytes:
            rename_frame(frame, to_client, asked)
            return frame.encoded()

        return response.replace(body=Frames(response.body, change))
    if not response.is_json:
        return response
    try:
        body = await response.decoded(Raws)
    except msgspec.MsgspecError:
        return response
    if (error := decoded(body.get("error"), Raws)) is not None:
        body["error"] = raw(_renamed_error(error, to_client, asked))
    changed = with_names(body, to_client)
    if operation is Operation.MIRROR and "source" in body:
        changed["source"] = body["source"]  # a site
    elif operation is Operation.REDRIVE and "queues" in body:
        changed |= _redriven(body, to_client, asked)
    return response.replace(body=msgspec.json.encode(changed))


def _redriven(body: Raws, rename: Rename, asked: Collection[str]) -> Raws:
    """Returns the queues in an answer to a redrive: the moved letters by queue, and the letters that stay."""
    moved, skipped = decoded(body["queues"], Raws) or {}, decoded(body.get("skipped"), list[Raws]) or []
    return {
        "queues": raw({rename(name): count for name, count in moved.items()}),
        "skipped": raw([_renamed_error(each, rename, asked) for each in skipped]),
    }


def with_names(body: Raws, rename: Rename) -> Raws:
    """Returns the object with its names changed, also nested names. All other members keep their bytes."""
    found = dict(body)
    for key in NAMES:
        if (value := decoded(found.get(key), str)) is not None:
            found[key] = raw(rename(value))
    for key in INSIDE:
        if key in found:
            found[key] = _inside(found[key], rename, hides=key in LISTED)
    for key in ("records", "claimed", "meta"):
        if key in found:
            found[key] = _stamped(found[key], rename)
    if (name := decoded(body.get("topic"), str)) and (error := decoded(body.get("error"), str)):  # of a schedule
        found["error"] = raw(error.replace(f"'{name}'", f"'{rename(name)}'"))
    if (dest := decoded(body.get("dest"), str)) and (error := decoded(body.get("last_error"), str)):  # of a router
        found["last_error"] = raw(error.replace(f"dest {dest} ", f"dest {rename(dest)} "))
    if "cursor" in found and found.get("kind") not in (
        None,
        raw("named"),
    ):  # it has the name of its owner, such as a router
        found["cursor"] = raw(rename(msgspec.json.decode(found["cursor"], type=str)))
    return found


def _stamped(value: msgspec.Raw, rename: Rename) -> msgspec.Raw:
    """Returns records, one record or its meta, with changed names in the stamps of servers."""
    text = bytes(value)
    if not any(stamp in text for stamp in STAMPS):
        return value
    if text[:1] == b"[":
        return raw([_stamped(each, rename) for each in msgspec.json.decode(value, type=list[msgspec.Raw])])
    found = decoded(value, Raws)
    if found is None:
        return value
    is_meta = False
    if (stamp := decoded(found.get(ROUTER_STAMP), Raws)) is not None:
        is_meta = True
        own, key = decoded(stamp.get("router"), str), decoded(stamp.get("key"), str)
        if own is not None and key is not None:  # otherwise a client wrote the field, and the field is not a stamp
            found[ROUTER_STAMP] = raw({**with_names(stamp, rename), "key": rename(own) + key.removeprefix(own)})
    if (stamp := decoded(found.get(MIRROR_STAMP), Raws)) is not None:
        is_meta = True
        found[MIRROR_STAMP] = raw(with_names(stamp, rename))
    if (queue := decoded(found.get(LETTER_FROM), str)) is not None:
        is_meta = True
        found[LETTER_FROM] = raw(rename(queue))
    if not is_meta and "meta" in found:
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


def _renamed_error(error: Raws, rename: Rename, asked: Collection[str]) -> Raws:
    """Returns an error, or the letters that a redrive left in place, in the client's names."""
    detail = decoded(error.get("detail"), Raws)
    names = set(asked)
    if (queue := decoded(error.get("queue"), str)) is not None:
        names.add(queue)
        error["queue"] = raw(rename(queue))
    if detail is not None:
        names |= {value for key in NAMES_OF_ERRORS if (value := decoded(detail.get(key), str)) is not None}
        detail = {key: _renamed_detail(key, value, rename) for key, value in detail.items()}
        error["detail"] = raw(detail)
    code, message = decoded(error.get("code"), str), decoded(error.get("message"), str)
    if message is not None:
        told = {key: decoded(value, Any) for key, value in (detail or {}).items()}
        error["message"] = raw(rendered(code or "", told) or quoting(message, names, rename))
    return error


def _renamed_detail(key: str, value: msgspec.Raw, rename: Rename) -> msgspec.Raw:
    if key == "path":  # an address, not a name
        return value
    if key == "name" and (name := decoded(value, str)) is not None:
        return raw(rename(name))
    return with_names({key: value}, rename)[key]


def quoting(message: str, names: Collection[str], rename: Rename) -> str:
    """Returns a message that quotes the client's names in place of these. A message about an invalid name quotes its start."""
    for name in sorted(names, key=len, reverse=True):
        new = rename(name)
        message = message.replace(f"'{name}'", f"'{new}'").replace(f"'{name[:QUOTED]}'", f"'{new[:QUOTED]}'")
    return message


def rename_frame(frame: Frame, rename: Rename, asked: Collection[str] = ()) -> None:
    """Renames topics in the frame's data and id to the client's names. `asked`: the names that an error can quote."""
    if frame.data is not None and frame.data.startswith(b"{"):
        with contextlib.suppress(msgspec.MsgspecError):
            frame.data = bytes(_renamed_data(frame.event, msgspec.Raw(frame.data), rename, asked))
    if frame.id and frame.has_position and not frame.id.isdigit():  # the id of a job is a seq
        if b":" in frame.id:
            frame.id = renamed_event_id(frame.id, rename)
        else:
            frame.id = encoded_id(renamed_id(decoded_id(frame.id.decode("latin-1")), rename))


def _renamed_data(event: bytes, data: msgspec.Raw, rename: Rename, asked: Collection[str]) -> msgspec.Raw:
    if event == b"message":  # one record, as a client sent it
        return _stamped(data, rename)
    told = with_names(msgspec.json.decode(data, type=Raws), rename)
    if event == b"error" and (message := decoded(told.get("error"), str)) is not None:
        told["error"] = raw(quoting(message, asked, rename))
    return raw(told)


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


def position_of(request: Request) -> dict[str, Any]:
    """Returns the position in a watch that a client continues from, or an empty one. Raises InvalidRequest."""
    shown = request.header(LAST_EVENT_ID)
    return decoded_id(shown.decode("latin-1")) if shown else {}


def at_position(headers: Headers, position: dict[str, Any]) -> Headers:
    """Returns the headers of a request that continues a watch from a position, or begins it if the position is empty."""
    headers = without(headers, LAST_EVENT_ID)
    return with_header(headers, LAST_EVENT_ID, encoded_id(position)) if position else headers


def renamed_id(position: dict[str, Any], rename: Rename) -> dict[str, Any]:
    """Returns the position with other names. Keys with `$` come from ids of earlier versions, and are dropped."""
    return {rename(name): seq for name, seq in position.items() if not name.startswith("$")}


def renamed_event_id(shown: bytes, rename: Rename) -> bytes:
    """Renames the topic in an id of a topic's events: `topic:seq`."""
    topic, colon, seq = shown.decode("latin-1").rpartition(":")
    return f"{rename(unquote(topic))}{colon}{seq}".encode("latin-1", "replace") if colon else shown

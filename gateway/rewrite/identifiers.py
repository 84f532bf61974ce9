"""Finds identifiers of one server in requests and answers: watch ids, and cursors of lists.

The gateway wraps an identifier of a server and unwraps the identifier in later requests. So routers need not.
"""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import quote, unquote, unquote_plus

import msgspec

from base.errors import InvalidRequest, NotFound
from gateway.api import Operation, Request, Response
from gateway.rewrite.edits import encoded
from gateway.rewrite.ids import MARK, Foreign

LISTS = frozenset(
    (
        Operation.LIST_TOPICS,
        Operation.LIST_CURSORS,
        Operation.LIST_GROUPS,
        Operation.LIST_SCHEDULES,
        Operation.LIST_ROUTERS,
        Operation.LIST_WEBHOOKS,
        Operation.LIST_DELIVERIES,
        Operation.GET_STATE,
    )
)
WID, CURSOR = "wid", "cursor"
Unwrap = Callable[[str, str], tuple[tuple[str, ...], str]]


def identifier_in(request: Request) -> tuple[str, str] | None:
    """Returns the kind and the wrapped identifier in a request, or None."""
    if request.operation is Operation.FOLLOW_WATCH and request.name is not None:
        found = (WID, request.name)
    elif request.operation in LISTS and (cursor := parameter(request.query, "cursor")):
        found = (CURSOR, cursor)
    else:
        return None
    return found if found[1].startswith(MARK) else None


def hands_out(operation: Operation) -> bool:
    """Returns whether an answer can contain an identifier."""
    return operation is Operation.WATCH or operation in LISTS


def unwrapped(request: Request, way: tuple[str, ...], unwrap: Unwrap) -> Request:
    """Returns the request with the server's own identifier.

    Raises NotFound or InvalidRequest for an identifier of another server.
    """
    is_stream = request.operation is Operation.FOLLOW_WATCH
    if not is_stream and request.operation not in LISTS:
        return request
    found = identifier_in(request)
    try:
        if found is None:
            if is_stream:
                raise Foreign("not an identifier of a gateway")
            if parameter(request.query, "cursor"):
                raise Foreign("not an identifier of a gateway")
            return request
        came_from, identifier = unwrap(*found)
        if came_from != way:
            raise Foreign("an identifier of another server")
    except Foreign as error:
        if is_stream:
            raise no_session() from error
        raise InvalidRequest("invalid cursor: this list gave out other cursors. Start without cursor") from error
    if is_stream:
        return request.replace(path=f"/v0/watch/{quote(identifier, safe='')}")
    return request.replace(query=with_parameter(request.query, "cursor", identifier))


async def wrapped(operation: Operation, response: Response, wrap: Callable[[str, str], str]) -> Response:
    """Returns the answer with its identifier wrapped. An answer without a JSON object is unchanged."""
    if response.status not in (200, 201) or not response.is_json:
        return response
    try:
        body = await response.decoded(dict[str, msgspec.Raw])
        if operation is Operation.WATCH:
            wid = wrap(WID, msgspec.json.decode(body["wid"], type=str))
            body["wid"] = encoded(wid)
            body["stream_url"] = encoded(f"/v0/watch/{wid}")
        elif "next_cursor" in body:
            body["next_cursor"] = encoded(wrap(CURSOR, msgspec.json.decode(body["next_cursor"], type=str)))
    except (msgspec.MsgspecError, KeyError):
        return response
    return response.replace(body=msgspec.json.encode(body))


def no_session() -> NotFound:
    return NotFound("unknown or expired watch session: create another with POST /v0/watch")


def parameter(query: str, name: str) -> str | None:
    """Returns the last value of a query parameter, or None."""
    found = None
    if name in query or "%" in query:
        for each in query.split("&"):
            key, _, value = each.partition("=")
            if unquote(key) == name:
                found = unquote_plus(value)
    return found


def with_parameter(query: str, name: str, value: str | None) -> str:
    """Returns the query string with a new value for a parameter. None removes the parameter."""
    kept = [each for each in query.split("&") if each and unquote(each.partition("=")[0]) != name]
    if value is not None:
        kept.append(f"{name}={quote(value, safe='')}")
    return "&".join(kept)

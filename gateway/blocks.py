"""Building blocks for routers: scatter and gather, pages, one stream from several, identifiers and errors of several servers.

class Everywhere:
    async def on_request(self, operation, request, context):
        answers = await scatter(context, {route: request for route in self.routes}, partial=wants_partial(request))
        return context.respond_with(Response.json(200, {name: await each.decoded() for name, each in answers.items()}))
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from base.bigint import bigint
from base.errors import InvalidRequest, NotReady, TopicsError
from gateway.api import Operation, Request, Response, RouterContext
from gateway.errors import RoutesFailed
from gateway.rewrite.frames import closed
from gateway.rewrite.identifiers import no_session, parameter, with_parameter
from gateway.rewrite.joined import JoinedStream
from gateway.rewrite.names import (
    Raws,
    Renaming,
    at_position,
    position_of,
    quotable,
    raw,
    renamed_id,
    renamed_response,
)

DEFAULT_PAGE, LARGEST_PAGE = 100, 1000


def wants_partial(request: Request) -> bool:
    """Returns whether the client accepts an answer of only some routes (`partial=true`)."""
    return parameter(request.query, "partial") in ("true", "1")


def without_partial(request: Request) -> Request:
    """Returns the request without `partial`, because servers refuse the parameter."""
    return request.replace(query=with_parameter(request.query, "partial", None))


async def ask(context: RouterContext, route: str, request: Request, *expected: int) -> Response:
    """Returns the answer of any node of a route.

    Raises NotReady for a status that is not in `expected`. `detail` has the status.
    """
    answer = await context.send_request(context.any_node(route), request)
    if answer.status in expected:
        return answer
    try:
        said = ": " + str((await answer.decoded())["error"]["message"])
    except (msgspec.MsgspecError, KeyError, TypeError):
        said = ""
    raise NotReady(
        f"the route {route!r} answered {request.method} {request.path} with {answer.status}{said}", status=answer.status
    )


@dataclass
class Gathered:
    """The answers of a fan-out by route, and the errors of the routes that failed."""

    answers: dict[str, Response]
    errors: dict[str, dict[str, Any]] = field(default_factory=dict)


Answering = Callable[[Request], Awaitable[Response]]


async def gather(
    context: RouterContext, requests: Mapping[str, Request], answering: Mapping[str, Answering] | None = None
) -> Gathered:
    """Sends a request to any node of each route, at the same time.

    A route fails if no answer arrives, or if the answer is 5xx. `answering`: functions of the router that answer for a route.
    """

    async def one(route: str, request: Request) -> Response | dict[str, Any]:
        try:
            if answering is not None and route in answering:
                response = await answering[route](request)
            else:
                response = await context.send_request(context.any_node(route), request)
            if response.status < 500:
                if not request.operation.is_stream:
                    # Also if another route fails: an answer that waits for a reader keeps its connection.
                    await response.read()
                return response
            body = await response.decoded() if response.is_json else {}
            error = body.get("error")
            return error if isinstance(error, dict) else {"code": "internal", "message": f"status {response.status}"}
        except TopicsError as error:
            return dict(error.body()["error"])
        except msgspec.MsgspecError:
            return {"code": "internal", "message": "unreadable answer"}

    results = await asyncio.gather(*(one(route, request) for route, request in requests.items()))
    found = Gathered({})
    for route, result in zip(requests, results, strict=True):
        if isinstance(result, Response):
            found.answers[route] = result
        else:
            found.errors[route] = result
    return found


async def scatter(
    context: RouterContext, requests: Mapping[str, Request], *, partial: bool = False
) -> dict[str, Response]:
    """Returns the answer of each route. Raises RoutesFailed if a route failed. With `partial`, failed routes are left out."""
    found = await gather(context, requests)
    if found.errors and not (partial and found.answers):
        raise RoutesFailed(found.errors)
    return found.answers


def first_refusal(answers: Mapping[str, Response]) -> Response | None:
    """Returns the first answer with status 400 or above, or None."""
    return next((each for each in answers.values() if each.status >= 400), None)


# -- Lists -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Listed:
    """One route's part of a list.

    `request`: the client's request in the route's names. `renamed` converts an answer to the client's names. `answering`: a
    function of the router that answers instead of a server.
    """

    request: Request
    renamed: Callable[[Response], Awaitable[Response]]
    answering: Answering | None = None


class _Part:
    """The pages of one route, in order."""

    def __init__(self, route: str, listed: Listed, cursor: str | None) -> None:
        self.route, self.listed = route, listed
        self.cursor: str | None = cursor  # cursor of the page in `items`; "" is the first page
        self.next: str | None = None
        self.items: list[tuple[str, msgspec.Raw]] = []

    def request(self, size: int) -> Request:
        query = with_parameter(self.listed.request.query, "page_size", str(size))
        return self.listed.request.replace(query=with_parameter(query, "cursor", self.cursor or None))


async def merged_list(
    context: RouterContext, request: Request, parts: Mapping[str, Listed], key: str, name: str
) -> Response:
    """Returns one page of a list whose parts are on several routes, ordered by name.

    `key`: the list's field in the answer. `name`: the field by which entries are ordered.

    The page's cursor contains the last name of the page and each route's own cursor. A route without further pages is not asked
    again.
    """
    size = page_size(request)
    position = parameter(request.query, "cursor") or ""
    after, cursors = "", dict.fromkeys(parts, "")
    if position:
        after, cursors = checked_position(context.unseal("cursor", position), parts)
    pending = [_Part(route, parts[route], cursor) for route, cursor in cursors.items()]
    partial = wants_partial(request)
    errors: dict[str, dict[str, Any]] = {}
    fetch = pending
    while fetch:
        own = {part.route: part.listed.answering for part in fetch if part.listed.answering is not None}
        found = await gather(context, {part.route: part.request(size) for part in fetch}, own)
        if found.errors and not (partial and len(errors) + len(found.errors) < len(parts)):
            raise RoutesFailed(found.errors)
        errors |= found.errors
        pending = [part for part in pending if part.route not in found.errors]
        if (refused := first_refusal(found.answers)) is not None:
            return refused
        for part in fetch:
            if part.route in found.answers:
                await take(part, found.answers[part.route], key, name, after)
        # A route's page may have no entry after `after`, because the page was fetched before the last merged page.
        fetch = [part for part in pending if not part.items and part.next is not None]
        for part in fetch:
            part.cursor, part.next = part.next, None
    merged = list(heapq.merge(*(part.items for part in pending), key=lambda item: item[0]))
    page, more = merged[:size], len(merged) > size
    last = page[-1][0] if page else after
    rest = {}
    for part in pending:
        unshown = [item for item in part.items if item[0] > last]
        if unshown:
            rest[part.route] = part.cursor or ""
        elif part.next is not None:
            rest[part.route] = part.next
    body: dict[str, Any] = {key: [value for _, value in page]}
    if rest and (more or page):
        body["next_cursor"] = context.seal("cursor", [last, rest])
    if errors:
        body["route_errors"] = errors
    return Response.json(200, {**body, "performance": {"server_total_ms": 0.0}})


async def take(part: _Part, response: Response, key: str, name: str, after: str) -> None:
    body = await (await part.listed.renamed(response)).decoded(Raws)
    values = msgspec.json.decode(body.get(key, b"[]"), type=list[msgspec.Raw])
    named = [(str(msgspec.json.decode(value, type=dict[str, Any])[name]), value) for value in values]
    part.items = sorted((item for item in named if item[0] > after), key=lambda item: item[0])
    part.next = msgspec.json.decode(body["next_cursor"], type=str) if "next_cursor" in body else None


def page_size(request: Request) -> int:
    asked = parameter(request.query, "page_size")
    if asked is None:
        return DEFAULT_PAGE
    size = bigint(asked)
    if not size:
        raise InvalidRequest("invalid page_size: expected a whole number from 1")
    return min(size, LARGEST_PAGE)


def checked_position(value: Any, parts: Mapping[str, Listed]) -> tuple[str, dict[str, str]]:
    try:
        after, cursors = msgspec.convert(value, tuple[str, dict[str, str]])
    except msgspec.ValidationError as error:
        raise InvalidRequest("invalid cursor: this list gave out other cursors. Start without cursor") from error
    return after, {route: cursor for route, cursor in cursors.items() if route in parts}


# -- Watches -----------------------------------------------------------------------------------------------------------


async def begin_watches(
    context: RouterContext,
    requests: Mapping[str, tuple[Request, Renaming]],
    *,
    partial: bool = False,
    lenient: bool = False,
) -> Response:
    """Begins a watch on each route, and answers with one watch id for all of them.

    `requests`: in the server's names. `lenient`: a route without any of the topics is left out, unless all routes lack them.
    """
    found = await gather(context, {route: request for route, (request, _) in requests.items()})
    there = {route: each for route, each in found.answers.items() if each.status != 404}
    if lenient and there:
        found.answers = there
    if found.errors and not (partial and found.answers):
        raise RoutesFailed(found.errors)
    for route, response in found.answers.items():
        if response.status >= 400:
            request, renaming = requests[route]
            return await renamed_response(Operation.WATCH, response, renaming, await quotable(request, response))
    wids: dict[str, str] = {}
    topics: dict[str, msgspec.Raw] = {}
    body: Raws = {}
    ttls = []
    for route, response in found.answers.items():
        body = await response.decoded(Raws)
        wids[route] = msgspec.json.decode(body["wid"], type=str)
        rename = requests[route][1].to_client
        topics |= {rename(name): value for name, value in msgspec.json.decode(body["topics"], type=Raws).items()}
        ttls.append(msgspec.json.decode(body["session_ttl_ms"], type=int))
    wid = compose(context, "wid", wids)
    body |= {"wid": raw(wid), "stream_url": raw(f"/v0/watch/{wid}"), "topics": raw(topics)}
    body["session_ttl_ms"] = raw(min(ttls))
    if found.errors:
        body["route_errors"] = raw(found.errors)
    return Response(200, [(b"content-type", b"application/json")], msgspec.json.encode(body))


async def joined_stream(context: RouterContext, request: Request, renamings: Mapping[str, Renaming]) -> Response:
    """Returns the stream of a watch from `begin_watches`. Its ids contain the position in the topics of all routes."""
    try:
        wids = decompose(context, "wid", request.name or "", list(renamings))
    except InvalidRequest as error:
        raise no_session() from error
    position = position_of(request)
    requests, heard = {}, list[str]()
    for route, wid in wids.items():
        own = owned(position, renamings[route])
        heard += [route] if own else []
        requests[route] = request.replace(path=f"/v0/watch/{wid}", headers=at_position(request.headers, own))
    found = await gather(context, requests)
    refused = first_refusal(found.answers)
    if found.errors or refused is not None:
        for response in found.answers.values():
            await closed(response.body)
    if found.errors:
        raise RoutesFailed(found.errors)
    if refused is not None:
        return refused
    sources = {route: (response.body, renamings[route].to_client) for route, response in found.answers.items()}
    first = next(iter(found.answers.values()))
    return Response(200, first.headers, JoinedStream(sources, position, heard))


def owned(position: dict[str, Any], renaming: Renaming) -> dict[str, Any]:
    """Returns the part of a position for one route's topics, in the server's names."""

    def is_own(name: str) -> bool:
        try:
            renaming.to_server(name)
        except InvalidRequest:
            return False
        return True

    return renamed_id({name: seq for name, seq in position.items() if is_own(name)}, renaming.to_server)


def compose(context: RouterContext, kind: str, parts: Mapping[str, str]) -> str:
    """Joins identifiers of several routes into one signed identifier. `decompose` returns the parts."""
    return context.seal(kind, dict(parts))


def decompose(context: RouterContext, kind: str, identifier: str, routes: Sequence[str]) -> dict[str, str]:
    """Returns the parts of an identifier from `compose`.

    Raises InvalidRequest if the identifier is not of this client, or names routes that no longer exist.
    """
    parts: dict[str, str] = context.unseal(kind, identifier)
    if not isinstance(parts, dict) or not parts.keys() <= set(routes):
        raise InvalidRequest(f"invalid {kind}: it is from another configuration. Start without it")
    return parts

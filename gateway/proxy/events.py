"""Reads as CloudEvents. Filters and routers see a read in JSON, and the client gets its answer as events."""

from __future__ import annotations

import msgspec

from contract import cloudevents
from gateway.api import Operation, Request, Response, without
from wire.request.accept import HTML, choose

MEDIA = {
    Operation.READ: (*cloudevents.OF_READS, HTML),
    Operation.LIST_RECORDS: (*cloudevents.OF_READS, HTML),
    Operation.GET_RECORD: (*cloudevents.OF_RECORD, HTML),
}  # as at the server
ACCEPT, CONTENT_TYPE = b"accept", b"content-type"


def are_wanted(request: Request) -> bool:
    """Returns whether the server would answer the request with events."""
    media = MEDIA.get(request.operation)
    accepted = request.header(ACCEPT) if media is not None else None
    if media is None or accepted is None:
        return False
    return choose(accepted, media) in (cloudevents.EVENT, cloudevents.EVENTS)


def as_plain(request: Request) -> Request:
    """Returns the same read, with an answer in JSON that is not compressed."""
    headers = without(request.headers, ACCEPT, b"accept-encoding")
    return request.replace(headers=[*headers, (ACCEPT, cloudevents.JSON.encode())])


async def answered(response: Response, topic: str) -> Response:
    """Returns the answer with events in place of records. `topic`: the client's name of the topic."""
    if response.status != 200 or not response.is_json:
        return response
    try:
        body, headers = cloudevents.as_events(topic, await response.read())
    except (msgspec.MsgspecError, KeyError):
        return response  # not the answer of a server
    return response.replace(headers=[*without(response.headers, CONTENT_TYPE), *headers], body=body)

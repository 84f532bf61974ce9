"""The segments of a spliced topic.

A record with the server's seq s appears at s + offset. Clients see positions instead of seqs. A segment contains the positions
above `begin`, up to `end`. Only the last segment grows, and has no end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from gateway.api import Operation, Request, Response, RouterContext, without
from gateway.rewrite.names import Renaming, renamed_response
from gateway.rewrite.seqs import shifted_response

SEALED = ((b"topics-sealed", b"1"),)  # of an answer about a sealed topic
OF_THE_CLIENT = (b"authorization", b"traceparent")  # headers that the gateway's own requests copy


class SegmentRefused(Exception):
    """A server refused a part of the client's request. `response` is in the client's names and positions."""

    def __init__(self, response: Response) -> None:
        super().__init__(response.status)
        self.response = response


@dataclass(frozen=True)
class Segment:
    """The records of `topic` at `route` above the server's seq `start` up to `upto`.

    `name`: the client's name of the topic. `upto`: None for the last segment. Without a route, no server has the records any
    more.
    """

    name: str
    route: str | None
    topic: str
    start: int
    upto: int | None
    offset: int

    @property
    def begin(self) -> int:
        return self.start + self.offset

    @property
    def end(self) -> int | None:
        return None if self.upto is None else self.upto + self.offset

    def holds(self, position: int) -> bool:
        return self.begin < position and (self.end is None or position <= self.end)

    @property
    def renaming(self) -> Renaming:
        return Renaming(
            lambda name: self.topic if name == self.name else name,
            lambda name: self.name if name == self.topic else name,
        )

    def request(self, client: Request, method: str, rest: str = "", query: str = "", body: Any = b"") -> Request:
        """Returns one of the gateway's own requests about this topic, with the client's credentials."""
        kept = [each for each in client.headers if each[0] in OF_THE_CLIENT]
        if body != b"":
            body = msgspec.json.encode(body)
            kept.append((b"content-type", b"application/json"))
        return Request(method, f"/v0/topics/{self.topic}{rest}", query, kept, body)

    async def ask(self, context: RouterContext, request: Request) -> Response | None:
        """Returns the server's answer, or None if the topic is absent. Raises Refusal, TopicsError."""
        if self.route is None:
            return None
        response = await context.send_request(context.any_node(self.route), request)
        if response.status < 400:
            return response
        if response.status == 404 and b'"topic_not_found"' in await response.read():
            return None
        raise SegmentRefused(await self.shown(response))

    async def shown(self, response: Response) -> Response:
        """Returns the answer with the client's names and positions."""
        if self.upto is not None:  # an earlier segment is sealed, but the client's topic is not
            response = response.replace(headers=without(response.headers, SEALED[0][0]))
        renamed = await renamed_response(Operation.READ, response, self.renaming, [self.topic])
        return await shifted_response(renamed, self.offset)

    def clip(self, head_seq: int) -> int:
        """Returns the head that clients see for this segment, as a position."""
        return max(self.start, head_seq if self.upto is None else min(head_seq, self.upto)) + self.offset

    def first_shown(self, earliest_seq: int, head_seq: int) -> int | None:
        """Returns the position of the first live record that clients see, or None."""
        earliest = max(earliest_seq, self.start + 1)
        return earliest + self.offset if earliest + self.offset <= self.clip(head_seq) else None


def is_sealed(response: Response) -> bool:
    return response.header(SEALED[0][0]) is not None

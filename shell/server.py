"""The interface of servers: remote (remote.py) or on the local database (local.py). Both take the calls of /v0 (docs/wire.md).
Each command is therefore written once, and can do everything that a client can do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol
from urllib.parse import quote

import msgspec

from base.errors import InvalidRequest, TopicsError
from shell.follower import Follower

Query = Mapping[str, str | int | bool]
MOST_OF_A_PAGE = 1000
RETRIED = (429, 500, 502, 503, 504)  # not 501, by which a gateway says that it cannot carry out the call


class CommandServer(Protocol):
    def send(
        self, method: str, path: str, query: Query | None = None, body: bytes | None = None, again: bool = False
    ) -> bytes:
        """Returns the body of the answer. Raises TopicsError if the server refuses the call.

        `again`: the POST is safe to repeat, and is sent again if the answer was lost.
        """

    def follow(self, follower: Follower) -> None:
        """Passes new records to the follower until Ctrl-C or an error."""


def path(*segments: str) -> str:
    """Returns the path of a call. Raises InvalidRequest for a name that would lead to another path."""
    for segment in segments:
        if not segment.strip("."):
            raise InvalidRequest(f"invalid name {segment!r}: expected a name other than . and ..")
    return "/v0/" + "/".join(quote(segment, safe=":") for segment in segments)


def can_pass(error: TopicsError) -> bool:
    """Returns whether the same call may succeed later, because the server is away, has a fault, or asks for fewer calls."""
    return error.status in RETRIED


def shown(query: Query | None) -> dict[str, str | int]:
    """Returns the query in the form of a URL."""
    return {name: str(value).lower() if isinstance(value, bool) else value for name, value in (query or {}).items()}


def ask(
    server: CommandServer, method: str, at: str, query: Query | None = None, body: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Sends a call with a JSON body. Returns the decoded answer. Raises TopicsError."""
    sent = None if body is None else msgspec.json.encode(body)
    answer: dict[str, Any] = msgspec.json.decode(server.send(method, at, query, sent))
    return answer


def listed(server: CommandServer, at: str, field: str, query: Query | None = None) -> Iterator[dict[str, Any]]:
    """Yields the items under `field` from all pages of a list."""
    asked: dict[str, Any] = {**(query or {}), "page_size": MOST_OF_A_PAGE}
    while True:
        answer = ask(server, "GET", at, asked)
        yield from answer[field]
        if "next_cursor" not in answer:
            return
        asked["cursor"] = answer["next_cursor"]

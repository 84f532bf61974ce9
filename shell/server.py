"""What the commands speak to: a server elsewhere (remote.py), or the database beside us (local.py). Both know the calls of /v0
(docs/wire.md), so that a command is written once, and can do what a client can do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol
from urllib.parse import quote

import msgspec

from base.errors import InvalidRequest
from shell.follower import Follower

Query = Mapping[str, str | int | bool]
MOST_OF_A_PAGE = 1000


class Server(Protocol):
    def send(
        self, method: str, path: str, query: Query | None = None, body: bytes | None = None, again: bool = False
    ) -> bytes:
        """Returns the body of the answer. Raises TopicsError where the call is refused.

        `again`: a POST that does nothing the second time, so that it is sent again when its answer was lost.
        """

    def follow(self, follower: Follower) -> None:
        """Have it hear what comes, until somebody interrupts or it raises."""


def path(*segments: str) -> str:
    """The path of a call. Raises InvalidRequest for a name that would lead to another path."""
    for segment in segments:
        if not segment.strip("."):
            raise InvalidRequest(f"{segment!r} is no valid name")
    return "/v0/" + "/".join(quote(segment, safe=":") for segment in segments)


def shown(query: Query | None) -> dict[str, str | int]:
    """The query as it stands in a URL."""
    return {name: str(value).lower() if isinstance(value, bool) else value for name, value in (query or {}).items()}


def ask(
    server: Server, method: str, at: str, query: Query | None = None, body: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """A call whose body and answer are JSON."""
    sent = None if body is None else msgspec.json.encode(body)
    answer: dict[str, Any] = msgspec.json.decode(server.send(method, at, query, sent))
    return answer


def listed(server: Server, at: str, field: str, query: Query | None = None) -> Iterator[dict[str, Any]]:
    """What all pages of a list hold under `field`."""
    asked: dict[str, Any] = {**(query or {}), "page_size": MOST_OF_A_PAGE}
    while True:
        answer = ask(server, "GET", at, asked)
        yield from answer[field]
        if "next_cursor" not in answer:
            return
        asked["cursor"] = answer["next_cursor"]

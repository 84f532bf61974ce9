"""The calls on topics, cursors, schedules and routers, as scripts. Their answers are the dicts of docs/wire.md."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from topics_client.calls import Filter, address, decoded, path
from topics_client.script import Request, Script, call

Object = dict[str, Any]


def router_path(*parts: str) -> str:
    return address("routers", *parts)


def get(path: str) -> Script[Object]:
    return shown((yield from call(Request("GET", path))))


def put(path: str, fields: Mapping[str, Any]) -> Script[Object]:
    """Creates an object, or changes it. `fields` as in docs/wire.md."""
    return shown((yield from call(Request("PUT", path, msgspec.json.encode(fields)))))


def delete(path: str) -> Script[Object]:
    return shown((yield from call(Request("DELETE", path))))


def every(path: str, kind: str, query: Mapping[str, str]) -> Script[list[Object]]:
    """Returns all objects of a list, page by page."""
    found: list[Object] = []
    after: dict[str, str] = {}
    while True:
        page = shown((yield from call(Request("GET", path, query={**query, **after}))))
        found += page[kind]
        if not page.get("next_cursor"):
            return found
        after = {"cursor": page["next_cursor"]}


def redrive(topic: str, match: Filter | None, fields: Mapping[str, Any]) -> Script[int]:
    """Moves all dead letters that fit back to their queues, and returns their number."""
    moved = 0
    body = {**fields, **({} if match is None else {"match": match})}
    while True:
        answer = shown((yield from call(Request("POST", path(topic, "redrive"), msgspec.json.encode(body)))))
        moved += int(answer["moved"])
        if answer["caught_up"] or "seqs" in body:
            return moved
        body["from_seq"] = answer["next_from_seq"]


def shown(body: bytes) -> Object:
    answer = decoded(body, dict[str, Any])
    answer.pop("performance", None)
    return answer

"""A reader of the changes of a captured table."""

from __future__ import annotations

import json
from typing import Any

from base.clock import now_ms
from tests.outbox.clients import Client
from tests.scripts import diff
from topics.read.diff import Diff

Told = tuple[str | None, dict[str, Any]]


def told(topic: str) -> list[Told]:
    """Returns the tag and the data of each record, in order. Numbers are strings, as they were sent."""
    found: list[Told] = []
    seq = 0
    while True:
        window = diff(topic, Diff(from_seq=seq, limit=1000, include_tags=True), now_ms())
        records = json.loads(f"[{window.records or ''}]", parse_float=str, parse_int=str)
        found += [(record.get("$tag"), record["data"]) for record in records]
        if not records:
            return found
        seq = window.next_from_seq


def followed(changes: list[Told], *, is_whole: bool = True) -> dict[str | None, Any]:
    """Returns the rows that a reader has at the end, by tag.

    It checks each old value that it is told, unless a snapshot may come to the row later (`is_whole`).
    """
    rows: dict[str | None, Any] = {}
    for tag, change in changes:
        match change["op"]:
            case "truncate":
                rows.clear()
            case "delete":
                assert rows.pop(tag, None if is_whole else change["old"]) == change["old"]
            case "update":
                assert {**change["new"], **change["old"]} == rows.get(tag) or not (is_whole or tag in rows)
                rows[tag] = change["new"]
            case "insert":
                assert tag not in rows
                rows[tag] = change["new"]
            case "read":
                rows[tag] = change["new"]
            case op:
                raise AssertionError(op)
    return rows


def held(session: Client, table: str, tag: str = "id::text") -> dict[str | None, Any]:
    """Returns the rows of a table. `tag`: the SQL of the tag of a row."""
    rows = session.execute(f"SELECT {tag}, row_to_json(t)::text FROM {table} t".encode()).fetchall()
    return {key: json.loads(row, parse_float=str, parse_int=str) for key, row in rows}

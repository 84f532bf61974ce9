"""Pages of lists, and the list of calls."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

from base.errors import InvalidRequest
from contract.operations import Operation
from gateway.kafka.shapes import CursorListOptions, ListOptions

LARGEST_PAGE = 1000


def page_of(names: Sequence[str], options: ListOptions | CursorListOptions) -> tuple[list[str], dict[str, Any]]:
    """Returns the names of a page, and the fields of the answer that are about pages. Raises InvalidRequest."""
    size = min(options.page_size, LARGEST_PAGE)
    after = ""
    if options.cursor:
        try:
            after = base64.urlsafe_b64decode(options.cursor.encode()).decode()
        except ValueError as error:
            raise InvalidRequest("invalid cursor: this list gave out other cursors. Start without cursor") from error
    rest = [name for name in names if name > after]
    told: dict[str, Any] = {}
    if len(rest) > size:
        told["next_cursor"] = base64.urlsafe_b64encode(rest[size - 1].encode()).decode()
    if size != options.page_size:
        told["clamped"] = {"page_size": size}
    return rest[:size], told


def schema(offered: frozenset[Operation]) -> dict[str, Any]:
    """Returns the schema of the calls, with their ids. Their fields are those of a server, whose schema describes them."""
    paths: dict[str, Any] = {}
    for operation in sorted(offered, key=lambda each: each.value):
        for method, path in operation.paths[:1]:
            names = [part[1:-1] for part in path.split("/") if part.startswith("{")]
            parameters = [
                {"name": each, "in": "path", "required": True, "schema": {"type": "string"}} for each in names
            ]
            call = {
                "operationId": operation.value,
                "parameters": parameters,
                "responses": {"200": {"description": "JSON"}},
            }
            paths.setdefault(path, {})[method.lower()] = call
    info = {
        "title": "topics on Kafka",
        "version": "0",
        "description": "The fields of each call are those of a server of topics.",
    }
    return {"openapi": "3.1.0", "info": info, "paths": paths}

"""Pages of lists, and the list of calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from contract.listing import ListFields, next_cursor
from contract.operations import Operation


def page_of(names: Sequence[str], options: ListFields) -> tuple[list[str], dict[str, Any]]:
    """Returns the names of a page, and the fields of the answer that are about pages. Raises InvalidRequest."""
    (after,) = options.after()
    rest = [name for name in names if name > after]
    shown = rest[: options.size]
    told: dict[str, Any] = {}
    if len(rest) > len(shown):
        told["next_cursor"] = next_cursor(shown[-1])
    if options.size != options.page_size:
        told["clamped"] = {"page_size": options.size}
    return shown, told


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

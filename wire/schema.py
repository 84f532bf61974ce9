"""The OpenAPI schema of /v0, made of the structs that bodies and queries are parsed into and answers are built from.

A shape is said once: what the schema shows of an endpoint is what its declaration has it use (endpoint.py).
"""

from __future__ import annotations

import functools
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import msgspec
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse
from msgspec import UNSET, UnsetType

if TYPE_CHECKING:
    from wire.endpoint import Endpoint

JSON = "application/json"
NAME = r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,254}$"
PATHS: dict[str, dict[str, Any]] = {  # what the names in paths have to look like
    "topic": {"type": "string", "pattern": NAME},
    "cursor": {"type": "string", "pattern": NAME},
    "router": {"type": "string", "pattern": NAME.replace("_:-", "_:>-")},
    "seq": {"type": "integer", "minimum": 1, "maximum": 2**63 - 1},
}
COMPONENTS: dict[str, Any] = {}
Shape = type[msgspec.Struct]
# What was used in place of what was asked for, by field; absent where all was used as it came (answer.clamped()).
Clamped = dict[str, int] | UnsetType


class Performance(msgspec.Struct):
    """Where the time went, in ms."""

    server_total_ms: float


class Problem(msgspec.Struct):
    code: str
    message: str
    detail: dict[str, Any] | UnsetType = UNSET


class Error(msgspec.Struct):
    """What every refusal looks like."""

    error: Problem
    performance: Performance


def reference(shape: Shape) -> dict[str, Any]:
    """A reference to the shape, which from now on stands among the schema's components."""
    (schema,), components = msgspec.json.schema_components([shape], ref_template="#/components/schemas/{name}")
    COMPONENTS.update(components)
    return dict(schema)


def described(endpoint: Endpoint) -> dict[str, Any]:
    """What drf-spectacular is told of an endpoint; its docstring says the rest."""
    refused = {400, 401, 403, 404, 406, 429, 500, 503, *endpoint.errors, *((413, 415) if endpoint.body else ())}
    responses = {(str(status), media(shape)): answer(status, shape) for status, shape in endpoint.answers.items()}
    responses |= {(str(status), JSON): answer(status, Error) for status in sorted(refused)}
    return {
        "operation_id": endpoint.id,
        "tags": [endpoint.tag],
        "request": {JSON: reference(endpoint.body)} if endpoint.body else None,
        "responses": responses,
        "parameters": query_parameters(endpoint.query) if endpoint.query else [],
    }


def media(shape: Shape | str) -> str:
    return shape if isinstance(shape, str) else JSON


def answer(status: int, shape: Shape | str) -> OpenApiResponse:
    schema = {"type": "string"} if isinstance(shape, str) else reference(shape)
    return OpenApiResponse(schema, description=HTTPStatus(status).phrase)


def query_parameters(shape: Shape) -> list[OpenApiParameter]:
    reference(shape)
    described = COMPONENTS.pop(shape.__name__)
    return [
        OpenApiParameter(name, schema, OpenApiParameter.QUERY, required=name in described.get("required", ()))
        for name, schema in described["properties"].items()
    ]


def add_components(result: dict[str, Any], **_: Any) -> dict[str, Any]:
    """A hook of drf-spectacular: it knows the paths, we know the shapes."""
    result["components"].setdefault("schemas", {}).update(COMPONENTS)
    for methods in result["paths"].values():
        for described in methods.values():
            for parameter in described.get("parameters", ()):
                if parameter["in"] == "path" and parameter["name"] in PATHS:
                    parameter["schema"] = PATHS[parameter["name"]]
    return result


@functools.cache
def schema() -> bytes:
    """The whole schema as JSON: it changes with the code only."""
    from drf_spectacular.generators import SchemaGenerator  # its import needs the URL conf's settings

    return msgspec.json.encode(SchemaGenerator().get_schema(request=None, public=True))

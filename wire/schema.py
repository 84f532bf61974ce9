"""The shapes that all answers share. Requests and answers are structs, and documents/openapi.py makes the schema from these."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import UNSET, Meta, UnsetType

JSON = "application/json"
EVENT_STREAM = "text/event-stream"
Shape = type[msgspec.Struct]


class Format(NamedTuple):
    """Another media type of a body or of an answer, with its shape. `is_array`: an array of the shape."""

    media: str
    shape: Shape
    is_array: bool = False


Clamped = Annotated[
    dict[str, int] | UnsetType,
    Meta(
        title="Clamped",
        description="The values that the server used instead of values out of range, by field. Absent without such a value.",
    ),
]


class Performance(msgspec.Struct):
    """The time that the server took."""

    server_total_ms: float
    """Milliseconds from the request's first byte at the server to the answer."""


class Problem(msgspec.Struct):
    """The reason why a request was refused. The request changed nothing."""

    code: str
    """The reason, for programs."""
    message: str
    """The reason, for people: the error and its path."""
    detail: dict[str, Any] | UnsetType = UNSET
    """More data for programs: the name, the limit or the position. Absent if there is none."""


class Error(msgspec.Struct):
    """The body of every refusal."""

    error: Problem
    performance: Performance

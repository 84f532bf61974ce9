"""The shapes that all answers share. What is sent and answered is a struct, of which the schema is made (openapi.py)."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

JSON = "application/json"
EVENT_STREAM = "text/event-stream"
Shape = type[msgspec.Struct]
Clamped = Annotated[
    dict[str, int] | UnsetType,
    Meta(description="What was used in place of what was asked for, by field; absent where all was used as it came."),
]


class Performance(msgspec.Struct):
    """Where the time went."""

    server_total_ms: float
    """Milliseconds from the request's first byte here to the answer."""


class Problem(msgspec.Struct):
    """Why a request was refused. It changed nothing."""

    code: str
    """The reason, for programs."""
    message: str
    """The same for people: what is wrong, and where."""
    detail: dict[str, Any] | UnsetType = UNSET
    """More for programs, where there is more to tell: the name, limit or position that it is about."""


class Error(msgspec.Struct):
    """What every refusal looks like."""

    error: Problem
    performance: Performance

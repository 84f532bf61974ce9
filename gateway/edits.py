"""Changes to a JSON body that leave all other members as the bytes that they were."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

Members = dict[str, msgspec.Raw]


def edited(body: bytes, change: Callable[[Members], None]) -> bytes:
    """Returns the JSON object after `change`. An empty body counts as `{}`. A body that is not an object comes back as it is: the
    server refuses it."""
    try:
        members = msgspec.json.decode(body or b"{}", type=Members)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return body
    change(members)
    return msgspec.json.encode(members)


def encoded(value: Any) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value))


def is_absent(members: Members, name: str) -> bool:
    """Whether a member is missing or null."""
    return bytes(members.get(name, b"null")).strip() == b"null"


def decoded(value: msgspec.Raw | None, shape: Any) -> Any:
    """Returns the value if it is of that shape, else None."""
    if value is None:
        return None
    try:
        return msgspec.json.decode(value, type=shape)
    except msgspec.MsgspecError:
        return None

"""Changes members of a JSON body. All other members keep their bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

Members = dict[str, msgspec.Raw]


def edited(body: bytes, change: Callable[[Members], None]) -> bytes:
    """Returns the JSON object after `change`. An empty body counts as `{}`.

    A body that is not an object is returned unchanged, because the server will refuse the body.
    """
    try:
        members = msgspec.json.decode(body or b"{}", type=Members)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return body
    change(members)
    return msgspec.json.encode(members)


def encoded(value: Any) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value))


def is_absent(members: Members, name: str) -> bool:
    """Returns whether a member is missing or null."""
    return bytes(members.get(name, b"null")).strip() == b"null"


def decoded(value: msgspec.Raw | None, shape: Any) -> Any:
    """Returns the value if the value has the shape, otherwise None. A text that is not UTF-8 has no shape."""
    if value is None:
        return None
    try:
        return msgspec.json.decode(value, type=shape)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None

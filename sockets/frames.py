"""The frames that a WebSocket sends: JSON objects with the field `op` (docs/websocket.md)."""

from __future__ import annotations

from operator import attrgetter
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from base.errors import TopicsError
from watch.position import Form

RequestId = msgspec.Raw | UnsetType


def event(name: str, **data: Any) -> bytes:
    """Returns a frame. The names of server-sent events have hyphens, the names of frames have underscores."""
    return msgspec.json.encode({"op": name.replace("-", "_"), **data})


def answer(op: str, request_id: RequestId, body: bytes = b"{}") -> bytes:
    """Returns the frame that answers a command. `body`: a JSON object, the answer of an endpoint."""
    rest = b"}" if body == b"{}" else b"," + body[1:]
    if request_id is UNSET:
        return b'{"op":"%b"%b' % (op.encode(), rest)
    return b'{"op":"%b","request_id":%b%b' % (op.encode(), bytes(request_id), rest)


def shared_record(
    topic: str,
    group: str,
    share: int,
    generation: int,
    from_seq: int,
    to_seq: int,
    head_seq: int,
    records: list[bytes],
) -> bytes:
    """Returns the frame `record` of a group's member, with records of one share."""
    return (
        b'{"op":"record","topic":"%b","group":"%b","share":%d,"generation":%d,'
        b'"from_seq":%d,"to_seq":%d,"head_seq":%d,"records":[%b]}'
    ) % (topic.encode(), group.encode(), share, generation, from_seq, to_seq, head_seq, b",".join(records))


def error(refused: TopicsError, request_id: RequestId = UNSET) -> bytes:
    """Returns the frame of a refusal."""
    problem: dict[str, Any] = {"code": refused.code, "message": refused.message}
    if refused.detail:
        problem["detail"] = refused.detail
    if refused.retry_after:
        problem["retry_after"] = refused.retry_after
    return answer("error", request_id, msgspec.json.encode(problem))


TEXT = Form(event, attrgetter("text"), b"")

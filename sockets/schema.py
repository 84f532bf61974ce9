"""The commands and frames of a WebSocket, for the schema (wire/documents/asyncapi.py)."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from groups.events import OF_GROUP
from sockets.commands import CALLS, OTHERS
from sockets.subscriptions import Subscribed
from topics.api.shapes import TopicName
from watch.events import OF_WATCH
from wire.documents.asyncapi import SocketCalls, SocketMessage
from wire.schema import Shape


class UnsubscribedFrame(msgspec.Struct):
    """The answer to `unsubscribe`."""

    topic: TopicName


class PongFrame(msgspec.Struct):
    """The answer to `ping`."""

    positions: dict[str, int] | UnsetType = UNSET
    """The seqs to resume from, by topic. Only if the `ping` asked for them."""


class ErrorFrame(msgspec.Struct):
    """The refusal of a command. Without a `request_id` it ends a membership, or the socket."""

    code: str
    """The reason, for programs."""
    message: str
    """The reason, for people."""
    detail: dict[str, Any] | UnsetType = UNSET
    """More data for programs."""
    retry_after: int | UnsetType = UNSET
    """Seconds after which to try again."""
    topic: str | UnsetType = UNSET
    """The topic of the membership that ends."""
    group: str | UnsetType = UNSET
    """The group of the membership that ends."""
    session: int | UnsetType = UNSET
    """The session that ends."""


REPLIES = {"subscribe": "subscribed", "unsubscribe": "unsubscribed", "join": "joined", "ping": "pong"}
SHAPES = {op: each.shape for op, each in CALLS.items()} | OTHERS
OTHER_ANSWERS: dict[str, Shape] = {
    "subscribed": Subscribed,
    "unsubscribed": UnsubscribedFrame,
    "joined": OF_GROUP["joined"],
    "pong": PongFrame,
    "error": ErrorFrame,
}
SCOPES = {"subscribe": "read", "join": "write"}


def pushed() -> dict[str, SocketMessage]:
    """Returns the frames that answer no command. Those of groups have the group, too."""
    frames = {name.replace("-", "_"): shape for name, shape in OF_WATCH.items() if name != "error"}
    of_groups = {name.replace("-", "_"): shape for name, shape in OF_GROUP.items() if name not in ("joined", "error")}
    found = {op: SocketMessage(op, shape) for op, shape in frames.items()}
    return found | {f"group_{op}": SocketMessage(op, shape, of_group=True) for op, shape in of_groups.items()}


def command(op: str, shape: Shape) -> SocketMessage:
    """Returns a command. One that an endpoint answers is described as the endpoint."""
    called = CALLS.get(op)
    if called is None:
        return SocketMessage(op, shape, "", SCOPES.get(op), REPLIES[op])
    summary = " ".join(called.endpoint.summary.partition("\n\n")[0].split())
    return SocketMessage(op, shape, summary, called.endpoint.scope, called.answer)


SOCKET = SocketCalls(
    "/v0/ws",
    {op: command(op, shape) for op, shape in SHAPES.items()},
    {
        **{
            of.answer: SocketMessage(of.answer, next(of.endpoint.shapes()), f"The answer to `{op}`.")
            for op, of in CALLS.items()
        },
        **{op: SocketMessage(op, shape) for op, shape in OTHER_ANSWERS.items()},
    },
    pushed(),
)

"""The shapes of the events that a member's stream sends, for the schema (wire/documents/asyncapi.py)."""

from __future__ import annotations

import msgspec

from topics.api.shapes import RecordShown, TopicName
from watch.events import EndEvent, RecordFields, TombstoneFields
from wire.schema import Shape


class JoinedEvent(msgspec.Struct):
    """You are a member, and the session has begun."""

    topic: TopicName
    group: str
    """The group's name."""
    member: str
    """Your name in the group."""
    session: int
    """The session. Each commit needs it."""
    session_ms: int
    """Milliseconds without a commit after which the session ends."""
    partitions: int
    """Number of shares of the group."""
    partition_by: str
    """The key that decides a record's share."""


class OwnShare(msgspec.Struct):
    """A share of yours."""

    share: int
    """The number of the share."""
    generation: int
    """Number of changes of the share's owner. Each commit needs it."""
    seq: int
    """The share's cursor: its records start after this seq."""


class AssignedEvent(msgspec.Struct):
    """These shares are yours now."""

    topic: TopicName
    group: str
    """The group's name."""
    shares: list[OwnShare]
    """The shares."""


class RevokedEvent(AssignedEvent):
    """These shares are to move. Commit what you have of them."""


class ShareRecordEvent(RecordFields, kw_only=True):
    """Records of one share."""

    share: int
    """The number of the share."""
    generation: int
    """The share's generation."""
    records: list[RecordShown]
    """The records, with tag, node and meta."""


class ShareTombstoneEvent(TombstoneFields, kw_only=True):
    """The topic lost records before the share read them."""

    share: int
    """The number of the share."""
    generation: int
    """The share's generation."""


class GroupDeletedEvent(msgspec.Struct):
    """The topic and its groups were deleted. The stream ends."""

    topic: TopicName
    reason: str
    """`deleted`."""


OF_GROUP: dict[str, Shape] = {
    "joined": JoinedEvent,
    "assigned": AssignedEvent,
    "revoked": RevokedEvent,
    "record": ShareRecordEvent,
    "tombstone": ShareTombstoneEvent,
    "topic-deleted": GroupDeletedEvent,
    "error": EndEvent,
}

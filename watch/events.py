"""The shapes of the events that streams send, for the schema (wire/documents/asyncapi.py). The streams write them as text."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from contract.names import NamedTopic
from contract.reading import Seq
from topics.api.shapes import EarliestSeq, HeadSeq, RecordShown, TopicName
from wire.schema import Shape


class RecordFields(msgspec.Struct, kw_only=True):
    topic: TopicName
    from_seq: Seq
    """The records are above this seq."""
    to_seq: Seq
    """The last examined seq. Continue after it."""
    head_seq: HeadSeq


class StreamedRecord(RecordShown, kw_only=True):
    """A record. Fields that were not set or not asked for are absent."""

    data: Any = UNSET
    """Exactly the JSON that was sent. Absent with `include_data: false`."""


class RecordEvent(RecordFields, kw_only=True):
    """Records of a topic."""

    records: list[StreamedRecord]
    """The records, in order of seq, with the fields that the session asked for."""


class TombstoneFields(msgspec.Struct, kw_only=True):
    topic: TopicName
    reason: str
    """The reason, as in a read. `from_seq_too_old`: a loss from before this stream connected, whose reason is `cause`."""
    gap_from: int
    """The first lost seq. If the gap has no seq, `gap_to + 1`."""
    gap_to: int
    """The last lost seq."""
    lost_from: int | UnsetType = UNSET
    """The first seq of a loss by a crash or restart. If it is below `gap_from`, undo what you did from here on."""
    earliest_seq: EarliestSeq
    head_seq: HeadSeq


class TombstoneEvent(TombstoneFields, kw_only=True):
    """The topic lost records without a request to delete."""

    cause: str | UnsetType = UNSET
    """The reason of a loss from before this stream connected."""


class CaughtUpEvent(msgspec.Struct):
    """From here on the stream of this topic is live."""

    topic: TopicName
    head_seq: HeadSeq


class TopicDeletedEvent(msgspec.Struct):
    """The topic was deleted. The stream continues, also with a new topic of the name."""

    topic: TopicName
    head_seq: HeadSeq
    reason: str
    """`deleted`."""


class EndEvent(msgspec.Struct):
    """The stream ends."""

    code: str | int
    """The reason, for programs: `shutting_down`, `unauthorized`, or an HTTP status."""
    error: str
    """The reason, for people."""


class MessageEvent(RecordShown, kw_only=True):
    """One record. Its id is `topic:seq`."""


class ResetEvent(msgspec.Struct):
    """Records were lost, or the topic was created again."""

    channels: list[NamedTopic]
    """The topic's name, alone."""
    lost_from: int | UnsetType = UNSET
    """The first seq of a loss by a crash or restart."""


class StreamErrorEvent(msgspec.Struct):
    """The last id is invalid, or the key is no longer valid."""

    condition: str
    """The reason, for programs."""
    text: str
    """The reason, for people."""
    channels: list[NamedTopic] | UnsetType = UNSET
    """The topic's name, alone."""


class KeepAlive(msgspec.Struct):
    """Nothing happened for 20 s."""


class StreamOpen(msgspec.Struct):
    """The stream is open."""


OF_WATCH: dict[str, Shape] = {
    "record": RecordEvent,
    "caught-up": CaughtUpEvent,
    "tombstone": TombstoneEvent,
    "topic-deleted": TopicDeletedEvent,
    "error": EndEvent,
}
OF_TOPIC: dict[str, Shape] = {
    "stream-open": StreamOpen,
    "message": MessageEvent,
    "stream-reset": ResetEvent,
    "keep-alive": KeepAlive,
    "stream-error": StreamErrorEvent,
    "error": EndEvent,
}

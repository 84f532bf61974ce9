"""A watch of several topics that continues exactly where it was, through every cut, restart and crash."""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping, Sequence
from typing import Any, Generic, Literal, TypeVar

import msgspec

from topics_client.calls import Filter, decoded
from topics_client.codec import Codec
from topics_client.errors import NotFound
from topics_client.events import HEARTBEAT_SECONDS, EventStream
from topics_client.following import Start
from topics_client.records import Streamed, Tombstone
from topics_client.script import Pause, Request, Script, backoff, call, connect

T = TypeVar("T")


class _Place(msgspec.Struct):
    from_seq: int


class _Session(msgspec.Struct):
    stream_url: str
    topics: dict[str, _Place]


class Watching(EventStream, Generic[T]):
    """`seqs`: the last seq of each topic that the stream has told."""

    def __init__(
        self,
        topics: Sequence[str],
        codec: Codec[T],
        start: Start | Mapping[str, Start],
        match: Filter | None,
        limit: int,
        consistency: Literal["eventual", "strong"],
    ) -> None:
        super().__init__()
        if not topics:
            raise ValueError("no topics: expected the name of one at least")
        starts = start if isinstance(start, Mapping) else dict.fromkeys(topics, start)
        self.starts = {topic: starts.get(topic, "earliest") for topic in topics}
        self.codec, self.match, self.limit, self.consistency = codec, match, limit, consistency
        self.seqs: dict[str, int] | None = None
        self.url: str | None = None

    def connect(self) -> Script[Any]:
        """Continues the session by the seqs of all topics. If the server has forgotten the session, begins another."""
        while True:
            url = self.url or (yield from self.begin())
            assert self.seqs is not None
            headers = {"accept": "text/event-stream", "last-event-id": event_id(self.seqs)}
            try:
                return (yield from connect(Request("GET", url, seconds=HEARTBEAT_SECONDS, headers=headers), math.inf))
            except NotFound:
                self.url = None
                yield Pause(backoff(self.tries))

    def begin(self) -> Script[str]:
        topics: dict[str, dict[str, Any]] = {}
        for topic, start in self.starts.items():
            seq = self.seqs[topic] if self.seqs is not None else start
            topics[topic] = {"tail": True} if seq == "head" else {"from_seq": 0 if seq == "earliest" else seq}
            if self.match is not None:
                topics[topic]["match"] = self.match
        body = {"topics": topics, "limit": self.limit, "include_tags": True, "consistency": self.consistency}
        answer = yield from call(Request("POST", "/v0/watch", msgspec.json.encode(body)), math.inf)
        session = decoded(answer, _Session)
        if self.seqs is None:
            self.seqs = {topic: place.from_seq for topic, place in session.topics.items()}
        self.url = session.stream_url
        return self.url

    def next(self) -> Script[list[Streamed[T]] | Tombstone | None]:
        """Returns the next records of a topic, or a loss."""
        while event := (yield from self.event()):
            if event.name == "record":
                told = self.codec.told(event.data)
                assert self.seqs is not None
                self.seqs[told.topic] = told.to_seq
                for record in told.records:
                    record.topic = told.topic
                return told.records
            if event.name == "tombstone":
                tombstone = decoded(event.data, Tombstone)
                assert self.seqs is not None
                assert tombstone.topic is not None
                self.seqs[tombstone.topic] = tombstone.gap_to
                return tombstone
            if event.name == "error":  # the server is shutting down, or the key is revoked, which the next call says
                yield from self.hang_up()
        return None


def event_id(seqs: Mapping[str, int]) -> str:
    """Returns the id of a stream that has told the records up to these seqs (docs/watch.md)."""
    return base64.urlsafe_b64encode(msgspec.json.encode(seqs)).decode().rstrip("=")

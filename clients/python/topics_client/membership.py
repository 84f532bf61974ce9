"""A member of a consumer group: its session, its shares, and how far the application has done each of them."""

from __future__ import annotations

import math
import time
from contextlib import suppress
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from topics_client.calls import decoded, path
from topics_client.codec import Codec, Told
from topics_client.errors import NotFound, SessionEnded, ShareMoved, TopicNotFound, TopicsError
from topics_client.events import HEARTBEAT_SECONDS, Event, EventStream
from topics_client.records import Streamed, Tombstone
from topics_client.script import Request, Script, call, connect

T = TypeVar("T")
PATIENCE = 5.0  # seconds of a commit: its records come again at worst


class _Joined(msgspec.Struct):
    session: int


class _Owned(msgspec.Struct):
    share: int
    generation: int
    seq: int


class _Shares(msgspec.Struct):
    shares: list[_Owned]


class _Lost(Tombstone):
    generation: int = 0


class _Error(msgspec.Struct):
    code: str | int


class Share:
    """A share of this member. Records up to `done` are done. `committed` is the cursor on the server."""

    def __init__(self, generation: int, seq: int) -> None:
        self.generation, self.done, self.committed = generation, seq, seq


class Part(NamedTuple):
    """The next step of one share: records, or a loss."""

    number: int
    share: Share
    records: list[Streamed[Any]]
    to_seq: int
    tombstone: Tombstone | None = None


class Membership(EventStream, Generic[T]):
    """`options`: those of the stream, as text (docs/groups.md)."""

    def __init__(
        self, topic: str, group: str, member: str, codec: Codec[T], options: dict[str, str], commit_ms: int
    ) -> None:
        super().__init__()
        self.topic, self.group, self.codec = topic, group, codec
        self.options = {"member": member, **options}
        self.commit_seconds = commit_ms / 1000
        self.session: int | None = None
        self.shares: dict[int, Share] = {}
        self.before: dict[int, Share] = {}  # of the last connection, whose records may come again
        self.due_at = 0.0

    def path(self, what: str) -> str:
        return path(self.topic, "groups", self.group, what)

    # -- The stream ---------------------------------------------------------------------------------------------------

    def connect(self) -> Script[Any]:
        self.before |= self.shares
        self.shares = {}
        request = Request("GET", self.path("stream"), query=self.options, seconds=HEARTBEAT_SECONDS)
        return (yield from connect(request._replace(headers={"accept": "text/event-stream"}), math.inf))

    def before_wait(self) -> Script[None]:
        yield from self.commit()

    def next(self) -> Script[Part | None]:
        """Returns the next records or the next loss of a share of this member. None after `is_ending` is set."""
        while event := (yield from self.event()):
            if event.name == "record":
                if part := self.records(self.codec.told(event.data)):
                    return part
            elif event.name == "tombstone":
                if part := self.loss(decoded(event.data, _Lost)):
                    return part
            else:
                yield from self.told(event)
        return None

    def records(self, told: Told[T]) -> Part | None:
        share = self.owned(told.share, told.generation)
        if share is None:
            return None
        records = [record for record in told.records if record.seq > share.done]  # the others are done, not committed
        for record in records:
            record.topic, record.share = told.topic, told.share
        if not records:
            share.done = max(share.done, told.to_seq)
            return None
        return Part(told.share, share, records, told.to_seq)

    def loss(self, told: _Lost) -> Part | None:
        assert told.share is not None
        share = self.owned(told.share, told.generation)
        if share is None or told.gap_to <= share.done:
            return None
        return Part(told.share, share, [], told.gap_to, told)

    def owned(self, number: int, generation: int) -> Share | None:
        share = self.shares.get(number)
        return share if share is not None and share.generation == generation else None

    def told(self, event: Event) -> Script[None]:
        if event.name == "joined":
            self.session = decoded(event.data, _Joined).session
        elif event.name == "assigned":
            for each in decoded(event.data, _Shares).shares:
                self.assigned(each)
        elif event.name == "topic-deleted":
            message = f"topic {self.topic!r} was deleted, and its groups with it"
            raise TopicNotFound(message, code=TopicNotFound.code, status=404, detail={"topic": self.topic})
        elif event.name == "error":
            if decoded(event.data, _Error).code == SessionEnded.code:
                self.forget()
            yield from self.hang_up()

    def assigned(self, owned: _Owned) -> None:
        """Notes a share. Records that this member did in its last connection, and could not commit, are not handed out again."""
        share = Share(owned.generation, owned.seq)
        known = self.shares.get(owned.share) or self.before.pop(owned.share, None)
        if known is not None and known.generation <= owned.generation:
            share.done = max(owned.seq, known.done)
        self.shares[owned.share] = share

    def forget(self) -> None:
        """The session has ended: another member may have the shares, or the group may be another one."""
        self.session = None
        self.shares, self.before = {}, {}

    # -- The application ----------------------------------------------------------------------------------------------

    def is_mine(self, part: Part) -> bool:
        return self.shares.get(part.number) is part.share

    def is_due(self, part: Part, seq: int) -> bool:
        """Counts the records of a share up to `seq` as done, and returns whether to commit now."""
        part.share.done = max(part.share.done, seq)
        return time.monotonic() >= self.due_at

    def commit(self) -> Script[None]:
        """Commits the done records. Forgets the shares that this member has lost."""
        while self.session is not None:
            done = {number: share for number, share in self.shares.items() if share.done > share.committed}
            if not done:
                break
            seqs = {number: share.done for number, share in done.items()}
            shares = [
                {"share": number, "generation": share.generation, "seq": share.done} for number, share in done.items()
            ]
            body = msgspec.json.encode({"session": self.session, "shares": shares})
            try:
                yield from call(Request("POST", self.path("commit"), body), PATIENCE)
            except ShareMoved as moved:
                for number in moved.detail.get("shares") or list(done):
                    self.shares.pop(number, None)
                continue
            except SessionEnded:
                self.forget()
                yield from self.hang_up()
            except TopicsError as error:
                if not error.can_pass:  # otherwise the next commit has all of it
                    raise
            else:
                for number, share in done.items():
                    share.committed = seqs[number]
            break
        self.due_at = time.monotonic() + self.commit_seconds

    def leave(self) -> Script[None]:
        """Commits, and ends the membership: others get the shares at once."""
        yield from self.commit()
        session, self.session = self.session, None
        if session is not None:
            body = msgspec.json.encode({"session": session})
            with suppress(SessionEnded, NotFound):  # the first try has left
                yield from call(Request("POST", self.path("leave"), body), PATIENCE)
        yield from self.hang_up()

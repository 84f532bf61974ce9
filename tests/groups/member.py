"""A member of a group for tests: its stream, what it holds, and its commits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from tests.watch.wire import Answer, Api, Event, Stream


@dataclass
class Member:
    """An open stream of a member. `generations`: those of its shares. `seen`: share and seq of each record, in order."""

    api: Api
    topic: str
    group: str
    stream: Stream
    events: Iterator[Event]  # the only one: another would lose what this one has read
    session: int = 0
    generations: dict[int, int] = field(default_factory=dict)
    seen: list[tuple[int, int]] = field(default_factory=list)

    @property
    def path(self) -> str:
        return f"/v0/topics/{self.topic}/groups/{self.group}"

    def take(self, event: Event) -> Event:
        """Notes what an event changes."""
        match event.name:
            case "joined":
                self.session = event.data["session"]
            case "assigned":
                self.generations |= {each["share"]: each["generation"] for each in event.data["shares"]}
            case "record":
                self.seen += [(event.data["share"], seq) for seq in event.seqs]
        return event

    def next(self, *names: str) -> Event:
        """The next event with one of these names."""
        for event in self.events:
            if self.take(event).name in names:
                return event
        raise AssertionError(f"the stream ended before {names}")

    def until_seqs(self, *seqs: int) -> list[Event]:
        """The record events up to the last of these seqs."""
        wanted, got = set(seqs) - {seq for _, seq in self.seen}, []
        while wanted:
            event = self.next("record")
            got.append(event)
            wanted -= set(event.seqs)
        return got

    def commit(self, *events: Event) -> Answer:
        """Commits everything up to the end of these events."""
        ends = {
            each.data["share"]: (each.data["generation"], each.data.get("to_seq", each.data.get("gap_to")))
            for each in events
        }
        shares = [{"share": share, "generation": generation, "seq": seq} for share, (generation, seq) in ends.items()]
        return self.api.call("POST", f"{self.path}/commit", {"session": self.session, "shares": shares})

    def leave(self) -> Answer:
        return self.api.call("POST", f"{self.path}/leave", {"session": self.session})

    def close(self) -> None:
        self.stream.close()


def session_of(port: int, topic: str, group: str, secret: str | None = None) -> int:
    """Returns a session of a group whose member is called like the group. It lasts as long as a test."""
    member = joined(Api(port, secret), topic, group, member=group, session_ms=600_000, partitions=4)
    member.next("assigned")
    member.close()
    return member.session


def joined(api: Api, topic: str, group: str, **options: Any) -> Member:
    """Opens a stream, and reads up to the event `joined`."""
    stream = api.stream(f"/v0/topics/{topic}/groups/{group}/stream?{urlencode(options)}")
    member = Member(api, topic, group, stream, stream.events())
    member.next("joined")
    return member

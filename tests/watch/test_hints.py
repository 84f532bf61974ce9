"""A stream shows the same records in the same order, whichever hints arrive, when and in which order, with records or without."""

from __future__ import annotations

import asyncio
import json
import random
import time
from typing import Any

import msgspec
import pytest

from base.clock import now_ms
from base.errors import HeadMismatch
from shell.follower import events
from store import loop
from topics import wake
from topics.append.appending import append
from topics.append.records import Append, NewRecord, check_rows
from topics.append.written import Written
from topics.config import Config, put_topic
from topics.delete.records import delete_records, delete_seqs
from topics.read.diff import Diff, diff
from watch import hub as hub_module
from watch.feeds import Feeds
from watch.nearby import Heads, packed, unpacked
from watch.sessions import Options, SavedPosition, Session
from watch.stream import Stream
from wire.access.keys import OPEN

STEPS = 150
TAGS, NODES = ("x", "y"), (None, "a", "b")
WHOLE = Options(limit=256, max_bytes=262_144, heartbeat_ms=60_000, tags=True)
OPTIONS = (
    WHOLE,
    msgspec.structs.replace(WHOLE, nodes=("a",), limit=3),
    msgspec.structs.replace(WHOLE, meta=False),
    msgspec.structs.replace(WHOLE, strong=True),  # this one always reads
)


class Client:
    """The far end of a stream in this process. `removed`: the seqs that did not exist any more when the client connected."""

    def __init__(self, story: Story, options: Options, seq: int) -> None:
        self.story, self.options, self.seq = story, options, seq
        self.removed = frozenset(story.removed)
        self.shown: dict[int, Any] = {}
        self.lost: set[int] = set()
        session = Session("wid", options, {story.name: SavedPosition(story.topic_id, seq)}, 1, exact=True)
        self.stream = Stream(story.hub, session, OPEN, self.send)
        self.from_seq = seq

    async def send(self, frame: bytes) -> None:
        for name, data in events(frame):
            frame = json.loads(data)
            if name == "tombstone":
                assert frame["gap_from"] > self.seq
                self.lost |= set(range(frame["gap_from"], frame["gap_to"] + 1))
                self.seq = frame["gap_to"]
            elif name == "record":
                assert self.seq <= frame["from_seq"] < frame["to_seq"] <= frame["head_seq"]
                for record in frame["records"]:
                    assert frame["from_seq"] < record["$seq"] <= frame["to_seq"]
                    assert record["$seq"] > max(self.shown, default=0), "out of order"
                    self.shown[record["$seq"]] = record
                self.seq = frame["to_seq"]

    def wanted(self) -> dict[int, Any]:
        """Returns all records that the client may get."""
        return {
            seq: {key: value for key, value in record.items() if key != "meta" or self.options.meta}
            for seq, record in self.story.stored.items()
            if seq > self.from_seq and record.get("$node") not in (self.options.nodes or ())
        }

    def check(self) -> None:
        wanted = self.wanted()
        assert self.shown.items() <= {seq: wanted[seq] for seq in wanted if seq not in self.removed}.items()
        missed = wanted.keys() - self.shown.keys()
        assert missed <= self.lost | self.story.removed, "a record is missing"
        assert not (self.lost & self.shown.keys())


class Story:
    """Appends and removals of a topic. `stored`: all records that a commit has made visible. `removed`: the seqs of those that a
    client or a cap has removed since. `hints`: the wake-ups on their way."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, name: str, seed: int) -> None:
        self.name, self.pick = name, random.Random(seed)
        self.stored: dict[int, Any] = {}
        self.removed: set[int] = set()
        self.head_seq = self.handed = 0
        self.hints: list[tuple[int, int, Written | None]] = []
        monkeypatch.setattr(wake, "announce", self.announced)
        is_next = Feeds.is_next

        def counted(feeds: Feeds, *given: Any) -> bool:
            found = is_next(feeds, *given)
            self.handed += found
            return found

        monkeypatch.setattr(Feeds, "is_next", counted)

    def announced(self, topic_id: int, head_seq: int, routed: bool, written: Written | None = None) -> None:
        self.hints.append((topic_id, head_seq, written))

    async def run(self) -> None:
        self.hub = hub_module.hub()
        self.hub.running.cancel()  # it looks when the story says so
        self.store = self.hub.store
        await self.store.drive(put_topic(self.name, Config(), now_ms()))
        self.topic_id = (await self.hub.find([self.name]))[self.name][0]
        clients = [Client(self, options, 0) for options in OPTIONS * 2]
        pumps = [await self.begun(client) for client in clients]
        for step in range(STEPS):
            await self.change()
            await self.note()
            while self.hints and self.pick.random() < 0.8:
                self.tell(self.hints.pop(self.pick.randrange(len(self.hints))))
                await asyncio.sleep(self.pick.choice((0, 0, 0.01)))
            if step % 30 == 29:
                await self.hub.look()
                clients.append(Client(self, self.pick.choice(OPTIONS), self.pick.randint(0, self.head_seq)))
                pumps.append(await self.begun(clients[-1]))
        await self.hub.look()
        deadline = time.monotonic() + 60
        while any(client.stream.positions[self.name].seq < self.head_seq for client in clients):
            assert time.monotonic() < deadline, "a stream has stopped"
            await asyncio.sleep(0.01)
        for client in clients:
            client.stream.close()
            client.stream.wake()
        await asyncio.gather(*pumps)
        for client in clients:
            client.check()
        await self.hub.close()
        await loop.close()

    async def begun(self, client: Client) -> asyncio.Task[None]:
        await client.stream.begin()
        return asyncio.create_task(client.stream.run())

    def tell(self, hint: tuple[int, int, Written | None]) -> None:
        """Delivers a hint: of an append of this process or of a neighbour, some twice, and some never."""
        topic_id, head_seq, written = hint
        match self.pick.choices(("own", "neighbour", "again", "lost"), (40, 40, 10, 10))[0]:
            case "own":
                self.hub.hint(*hint)
            case "neighbour":
                message = msgspec.json.encode(list(packed({topic_id: (head_seq, written)})))
                for told_id, told_seq, records in Heads.decode(message):
                    self.hub.hint(told_id, told_seq, None if records is None else unpacked(told_id, records))
            case "again":
                self.hub.hint(*hint)
                self.hints.append(hint)

    async def change(self) -> None:
        name, now = self.name, now_ms()
        match self.pick.choices(("append", "seqs", "tag", "before", "cap", "version"), (50, 3, 1, 1, 1, 1))[0]:
            case "append":
                await asyncio.gather(*(self.append() for _ in range(self.pick.choice((1, 1, 1, 2, 3)))))
            case "seqs":
                near = self.pick.randint(max(1, self.head_seq - 5), self.head_seq + 1)
                await self.store.drive(delete_seqs(name, [near], now))
            case "tag":
                await self.store.drive(delete_records(name, None, self.pick.choice(TAGS), now))
            case "before":
                await self.store.drive(delete_records(name, max(0, self.head_seq - self.pick.randint(0, 9)), None, now))
            case "cap":
                cap = self.pick.choice((0, 0, 12))  # more than a step appends
                await self.store.drive(put_topic(name, Config(cap_records=cap), now))
            case "version":
                await self.store.drive(put_topic(name, Config(priority=self.pick.randint(0, 9)), now))

    async def append(self) -> None:
        rows = [
            NewRecord(
                msgspec.Raw(self.pick.choice((b'{"a":\n 1.0}', b'"\xc3\xbc"', b"null"))),
                self.pick.choice(TAGS),
                self.pick.choice(NODES),
                msgspec.Raw(self.pick.choice((b"null", b'{"m" : 1}'))),
            )
            for _ in range(self.pick.randint(1, 3))
        ]
        # Some appends go another way, and may be told before those whose seqs are lower.
        expected = None if self.pick.random() < 0.8 else self.head_seq
        wanted = Append(rows, expected_head=expected)
        try:
            done = await self.store.drive(append(self.name, wanted, check_rows(wanted), now_ms()))
        except HeadMismatch:
            return
        self.head_seq = max(self.head_seq, done.last_seq)

    async def note(self) -> None:
        """Notes what the topic holds now."""
        window = await self.store.drive(diff(self.name, Diff(limit=1000, include_tags=True), now_ms))
        held = {record["$seq"]: record for record in json.loads(f"[{window.records or ''}]")}
        self.head_seq = window.head_seq
        self.stored |= held
        self.removed |= self.stored.keys() - held.keys()


@pytest.mark.parametrize("seed", range(4))
def test_hints_in_any_order_change_nothing(
    transactional_db: None, monkeypatch: pytest.MonkeyPatch, name: str, seed: int
) -> None:
    story = Story(monkeypatch, name, seed)
    asyncio.run(story.run())
    assert story.handed > STEPS // 10

"""A stream that is served from the tail gets what a read of its own would get."""

import asyncio
import json
import random
import time
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from base.clock import now_ms
from routers.routers import RouterConfig
from shell.follower import events
from store.loop import here
from tests.scripts import append, catch_up, delete_records, delete_seqs, diff, look_up, put_router, put_topic
from topics.append.records import Append, NewRecord, check_rows
from topics.append.written import Written
from topics.config import Config
from topics.models import Record
from topics.read.diff import Diff, Window
from watch import feeds as feeds_module
from watch.batch import Batch
from watch.feeds import Feeds
from watch.reading import Reading, ReadView
from watch.tail import LONGEST_PAUSE_SECONDS, PACE, Link, Tail

pytestmark = pytest.mark.deep


STEPS = 250
TAGS, NODES = ("x", "y", "xy"), (None, "a", "b", "c")
WHOLE = ReadView(7, 700, None, None, True, True, True, strong=False)
VIEWS = (WHOLE, WHOLE._replace(match_op="Eq", match="x"), WHOLE._replace(data=False, limit=100, max_bytes=100_000))


@dataclass
class Reader:
    """Stands in for a stream."""

    view: ReadView
    own: frozenset[str]
    seq: int = 0


class Run:
    """Random changes of a topic, which also gets records by a router, and readers at their own seqs."""

    def __init__(self, name: str, seed: int, runner: asyncio.Runner) -> None:
        self.name, self.source, self.pick, self.runner = name, f"{name}-source", random.Random(seed), runner
        for topic in (self.source, name):
            put_topic(topic, Config(), now_ms())
        put_router(name, RouterConfig(self.source, name), now_ms())
        self.topic_id = look_up(name).id
        self.feeds = runner.run(self.begun())
        self.readers = [
            Reader(view, frozenset(self.pick.sample(NODES[1:], self.pick.randint(0, 2)))) for view in VIEWS * 4
        ]
        self.since = 0.0  # records were removed then, which an earlier reading would show
        self.unread = 0  # answers that took no statement

    async def begun(self) -> Feeds:
        return Feeds(here())

    def change(self) -> None:
        name = self.name if self.pick.random() < 0.7 else self.source
        match self.pick.choices(("append", "seqs", "tag", "before", "cap", "dedupe"), (40, 2, 1, 1, 1, 1))[0]:
            case "append":
                rows = [self.record() for _ in range(self.pick.randint(1, 4))]
                self.append(name, rows)
                catch_up(self.topic_id, now_ms())
                return
            case "seqs":
                head_seq = self.head_seq
                delete_seqs(self.name, [self.pick.randint(max(1, head_seq - 9), head_seq + 1)], now_ms())
            case "tag":
                delete_records(self.name, None, self.pick.choice(TAGS), now_ms())
            case "before":
                delete_records(self.name, max(0, self.head_seq - self.pick.randint(0, 20)), None, now_ms())
            case "cap":
                put_topic(self.name, Config(cap_records=self.pick.choice((0, 10, 30))), now_ms())
            case "dedupe":
                put_topic(self.name, Config(dedupe_node=self.pick.random() < 0.7), now_ms())
        self.since = time.monotonic()

    def append(self, name: str, rows: list[NewRecord]) -> None:
        """Appends, and mostly hands the records to the tails of the topic, as an append of the readers' own process does."""
        topic, checked, before = look_up(name), check_rows(Append(rows)), time.monotonic()
        done = append(name, Append(rows), checked, now_ms())
        if name == self.name and not topic.evicts and self.pick.random() < 0.7:
            ts = Record.objects.get(topic_id=topic.id, seq=done.last_seq).ts
            self.runner.run(self.hand(Written(topic, done.first_seq - 1, [checked], ts, before)))

    async def hand(self, written: Written) -> None:
        for tail in self.feeds.tails.values():
            tail.busy_until = 0.0
        self.feeds.hand(VIEWS, written)

    def record(self) -> NewRecord:
        data = self.pick.choice(("1", '{"a":\n [1, 2]}', '"' + "ü" * self.pick.randint(0, 90) + '"'))
        return NewRecord(msgspec.Raw(data.encode()), self.pick.choice(TAGS), self.pick.choice(NODES))

    @property
    def head_seq(self) -> int:
        return diff(self.name, Diff(limit=1), now_ms()).head_seq

    def read(self, reader: Reader) -> None:
        """Moves a reader on by one reading, and compares this with a diff of its own."""
        reads = self.feeds.reads
        reading = self.runner.run(self.answered(reader))
        has_read = self.feeds.reads > reads
        self.unread += not has_read
        assert reading.error is None
        assert reading.batch is not None
        batch = reading.batch.without(reader.own)
        wanted = Diff(reader.seq, limit=1000, node=list(reader.own), match=reader.view.match, include_tags=True)
        fresh, window = diff(self.name, wanted, now_ms()), batch.window
        assert window.next_from_seq <= window.head_seq <= fresh.head_seq
        # A reading of just now may have found records that the cap has evicted since.
        assert window.lost == fresh.lost or (window.lost is None and fresh.lost == "cap")
        assert window.scanned <= reader.view.limit
        if window.lost is not None and has_read:
            assert (self.topic_id, reader.view) not in self.feeds.tails
        records = json.loads(f"[{fresh.records or ''}]")
        if not reader.view.data:
            for record in records:
                del record["data"]
        shown = [record for record in self.shown(batch) if record["$seq"] >= fresh.earliest_seq]
        assert shown == [record for record in records if record["$seq"] <= window.next_from_seq]
        assert window.next_from_seq > reader.seq or window.caught_up or window.lost is not None
        reader.seq = window.next_from_seq

    async def answered(self, reader: Reader) -> Reading:
        reading = self.feeds.ask(self.name, self.topic_id, reader.seq, reader.view, self.since)
        await asyncio.gather(*self.feeds.tasks)
        return reading

    def shown(self, batch: Batch) -> list[dict[str, Any]]:
        if batch.is_empty:
            return []
        ((_, data),) = events(batch.record)
        frame = json.loads(data)
        assert frame["from_seq"] == (batch.from_seq if batch.window.lost is None else batch.window.gap_to)
        records: list[dict[str, Any]] = frame["records"]
        return records

    def check_memory(self) -> None:
        kept = list(self.feeds.recent.values())
        joined = [each for tail in self.feeds.tails.values() for each in tail.joined.values()]
        assert self.feeds.bytes == sum(each.bytes for each in kept + joined) <= feeds_module.MOST_BYTES
        for tail in self.feeds.tails.values():
            assert tail.links
            assert all(link.reading in kept for link in tail.links)


@pytest.mark.parametrize(("seed", "most_bytes"), [(1, 8 * 1024 * 1024), (2, 8 * 1024 * 1024), (3, 5_000)])
def test_the_tail_shows_what_a_diff_shows(
    transactional_db: None, monkeypatch: pytest.MonkeyPatch, name: str, seed: int, most_bytes: int
) -> None:
    monkeypatch.setattr(feeds_module, "MOST_BYTES", most_bytes)
    with asyncio.Runner() as runner:
        run = Run(name, seed, runner)
        for _ in range(STEPS):
            run.change()
            for reader in run.pick.sample(run.readers, 3):
                run.read(reader)
                run.check_memory()
        for reader in run.readers:
            while reader.seq < run.head_seq:
                run.read(reader)
        runner.run(run.feeds.store.close())
    assert run.unread > STEPS // 10


TEXTS = ("a", "", "ü\u2028", '"\\/', "\x01\b\f\n\r\t\x1f\x7f", "\U0001f600")
VALUES = ('{"a": 1.0E+05 , "a":2}', " [1,\n 2] ", '"\\u0000\\ud83d\\ude00"', "null", "-0", '"\\u007f\x7f/"')


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("value", VALUES)
def test_records_in_memory_are_written_as_postgresql_writes_them(db: None, name: str, text: str, value: str) -> None:
    meta = msgspec.Raw(b'{"k" : ' + value.strip().encode() + b"}")
    body = b'{"records":[{"data":%b,"tag":%b,"node":%b,"meta":%b},{"data":1,"meta":null}]}'
    sent = body % (value.encode(), *(msgspec.json.encode(text),) * 2, meta)
    wanted = msgspec.json.decode(sent, type=Append)
    rows = check_rows(wanted)
    done = append(name, wanted, rows, now_ms())
    ts = Record.objects.get(topic_id=look_up(name).id, seq=2).ts
    written = Written(look_up(name), done.first_seq - 1, [rows], ts, 0.0)
    for tags, has_meta in ((True, True), (False, True), (True, False), (False, False)):
        stored = diff(name, Diff(include_tags=tags, include_meta=has_meta), now_ms())
        assert ",".join(written.shown(tags, has_meta)) == stored.records


def link(from_seq: int, to_seq: int, head_seq: int = 0) -> Link:
    batch = Batch("t", Window(None, 0, to_seq, head_seq or to_seq, 1, None, 0), from_seq, ())
    return Link(from_seq, Reading(), batch, 0.0)


def test_the_next_read_waits_as_the_streams_of_the_last_one_took() -> None:
    tail = Tail(WHOLE)
    tail.add(link(3, 7))
    assert tail.pause(7, 10.0) == 0
    tail.was_served(4, 10.0, 10.001)
    assert tail.pause(7, 10.001) == pytest.approx(0.001 * PACE * 3 / 4), "the fewer records, the shorter"
    assert tail.pause(5, 10.001) == 0, "this read is of records that exist"
    assert tail.pause(7, 10.001 + 0.001 * PACE) == 0, "nothing has happened since"
    tail.was_served(1, 15.0, 15.004)
    assert tail.pause(7, 15.004) == 0, "a lone record"
    tail.was_served(40, 20.0, 29.0)
    assert tail.pause(7, 29.0) == pytest.approx(LONGEST_PAUSE_SECONDS)


def test_a_reader_of_old_records_does_not_wait() -> None:
    tail = Tail(WHOLE)
    tail.add(link(3, 7, head_seq=90))
    tail.was_served(40, 20.0, 29.0)
    assert tail.pause(7, 29.0) == 0

"""However many streams watch a topic, each position of it is read once and rendered once."""

import asyncio
import json
import os
import re
import signal
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection

from base.clock import now_ms
from shell.follower import events
from store.codec import Arguments, Rows
from store.reads import Reads
from tests.instances import Instance, until
from tests.scripts import put_topic
from tests.shell.writing import put
from tests.watch.wire import Api, seqs
from topics.config import Config
from topics.read.diff import DIFF
from watch import feeds
from watch import hub as hub_module
from watch.sessions import Options, SavedPosition, Session
from watch.stream import Stream
from wire.access.keys import OPEN

pytestmark = pytest.mark.deep


STREAMS, APPENDS = 50, 20
ONCE = dict.fromkeys(range(APPENDS), 1)  # each seq that was read from; an append may hand its records over instead

# A diff as PostgreSQL logs it, with its first three parameters: topic id, version, from_seq.
READ = re.compile(r"FROM topic_diff\(\$1,.*?Parameters: \$1 = '(\d+)', \$2 = '\d+', \$3 = '(\d+)'", re.DOTALL)


def log_statements(instance: Instance) -> None:
    """Have its PostgreSQL log what it executes, in every connection."""
    cluster = instance.data / "postgresql"
    with (cluster / "postgresql.conf").open("a") as config:
        config.write("\nlog_statement = 'all'\n")
    os.kill(int((cluster / "postmaster.pid").read_text().split()[0]), signal.SIGHUP)

    def logs() -> bool:
        with instance.connect() as database:
            return database.execute("SHOW log_statement").fetchone() == ("all",)

    until(logs, "PostgreSQL to log")  # a new connection does so after the others were told


def test_postgresql_is_asked_once(instances: Callable[..., Instance], name: str) -> None:
    instance = instances(WEB_WORKERS="1")
    log_statements(instance)
    api = Api(instance.port)
    api.done("PUT", f"/v0/topics/{name}", {})
    # Every second stream is one who writes here, too, and leaves out what is its own.
    nodes = [f"node {place}" if place % 2 else None for place in range(STREAMS)]
    streams = [api.stream(api.watch({name: {}}, **({"node": node} if node else {}))) for node in nodes]
    for stream in streams:
        stream.until_event("caught-up")
    for seq in range(1, APPENDS + 1):
        api.done("POST", f"/v0/topics/{name}", {"records": [{"data": seq}], "node": f"node {seq}"})
        for node, stream in zip(nodes, streams, strict=True):
            if node != f"node {seq}":
                assert seqs(stream.until_seq(name, seq)) == [seq]
    for stream in streams:
        stream.close()
    reads = READ.findall((instance.data / "logs" / "postgresql.log").read_text())
    assert {topic_id for topic_id, _ in reads} == {reads[0][0]}
    assert Counter(int(from_seq) for _, from_seq in reads).items() <= ONCE.items()


@pytest.mark.parametrize("workers", [1, 2])
def test_a_lone_append_is_shown_without_a_read(instances: Callable[..., Instance], name: str, workers: int) -> None:
    """Each process has streams. The records come from this process, or from the other one with the wake-up. On a busy machine the
    streams can be too slow for that, and then a read follows."""
    instance = instances(WEB_WORKERS=str(workers))
    log_statements(instance)
    api = Api(instance.port)
    api.done("PUT", f"/v0/topics/{name}", {})
    streams = [api.stream(api.watch({name: {}})) for _ in range(4 * workers)]
    for stream in streams:
        stream.until_event("caught-up")
    seqs = iter(range(1, 10_000))

    def is_shown_without_a_read() -> bool:
        seq = next(seqs)
        record = {"data": seq, "tag": "a", "node": "ü", "meta": {"n": seq}}
        api.done("POST", f"/v0/topics/{name}", {"records": [record]})
        for stream in streams:
            (event,) = [each for each in stream.until_seq(name, seq) if each.name == "record"]
            (shown,) = event.data["records"]
            assert (shown["data"], shown["$node"], shown["meta"]) == (seq, "ü", {"n": seq})
        reads = READ.findall((instance.data / "logs" / "postgresql.log").read_text())
        return str(seq - 1) not in [from_seq for _, from_seq in reads]

    until(is_shown_without_a_read, "an append whose records all streams got without a read")
    for stream in streams:
        stream.close()


def test_plain_streams_share_reads_too(instances: Callable[..., Instance], name: str) -> None:
    """One look-up a stream as it opens, and then one read for all of them, in no thread."""
    instance = instances(WEB_WORKERS="1")
    log_statements(instance)
    api = Api(instance.port)
    api.done("PUT", f"/v0/topics/{name}", {})
    streams = [api.stream(f"/v0/topics/{name}/events") for _ in range(STREAMS)]
    for stream in streams:
        stream.until_event("stream-open")
    api.append(name, 1)  # from here on all of them are at one seq, whenever each of them opened
    for stream in streams:
        stream.until_event("message")
    before = len(reads_of(instance))
    for seq in range(2, APPENDS + 1):
        api.append(name, seq)
        for stream in streams:
            assert stream.until_event("message")[-1].data["$seq"] == seq
    for stream in streams:
        stream.close()
    reads = reads_of(instance)[before:]
    assert set(reads) >= set(range(1, APPENDS))
    assert len(reads) < 3 * APPENDS  # not 50 times: the look at all heads may add one now and then


def reads_of(instance: Instance) -> list[int]:
    """Returns the seqs that a topic was read from, in order."""
    log = (instance.data / "logs" / "postgresql.log").read_text()
    return [int(from_seq) for _, from_seq in READ.findall(log)]


class Reader:
    """The far end of a stream in this process."""

    def __init__(self) -> None:
        self.got: list[bytes] = []

    async def send(self, frame: bytes) -> None:
        if any(name == "record" for name, _ in events(frame)):
            self.got.append(frame)


async def watch(name: str, readers: list[Reader], append: Callable[[int], None]) -> None:
    """Append records one after the other, each when every reader has got the one before."""
    hub, options = hub_module.hub(), Options(limit=256, max_bytes=262_144, heartbeat_ms=60_000)
    topic_id = (await hub.find([name]))[name][0]
    sessions = [
        Session(f"{place}", options, {name: SavedPosition(topic_id, 0)}, 1, True) for place in range(len(readers))
    ]
    streams = [Stream(hub, session, OPEN, reader.send) for session, reader in zip(sessions, readers, strict=True)]
    for stream in streams:
        await stream.begin()
    pumps = [asyncio.create_task(stream.run()) for stream in streams]
    for seq in range(1, APPENDS + 1):
        await asyncio.to_thread(append, seq)
        deadline = time.monotonic() + 60
        while any(len(reader.got) < seq for reader in readers):
            assert time.monotonic() < deadline, f"record {seq} did not come to all"
            await asyncio.sleep(0.01)
    for stream in streams:
        stream.close()
        stream.wake()
    await asyncio.gather(*pumps)
    await hub.close()


@pytest.mark.parametrize("is_told_again", [False, True])
def test_what_was_read_is_rendered_once(
    transactional_db: None, monkeypatch: pytest.MonkeyPatch, name: str, is_told_again: bool
) -> None:
    """`is_told_again`: the look at all heads finds each head while it is being read, and tells it once more."""
    reads: Counter[int] = Counter()
    renderings: Counter[int] = Counter()
    execute, rendered = Reads.execute, feeds.rendered

    def counting_execute(self: Reads, sql: str, arguments: Arguments) -> asyncio.Future[Rows]:
        if sql == DIFF:
            reads[arguments[2]] += 1
        return execute(self, sql, arguments)

    def counting_rendered(topic: str, from_seq: int, *rest: Any) -> feeds.Batch:
        renderings[from_seq] += 1
        if is_told_again:
            hub = hub_module.hub()
            for topic_id, followers in hub.followers.items():
                hub.tell(topic_id, hub.heads[topic_id], followers)
        return rendered(topic, from_seq, *rest)

    def append(seq: int) -> None:
        put(name, str(seq))
        connection.close()  # this thread's own

    monkeypatch.setattr(Reads, "execute", counting_execute)
    monkeypatch.setattr(feeds, "rendered", counting_rendered)
    put_topic(name, Config(), now_ms())
    readers = [Reader() for _ in range(STREAMS)]
    asyncio.run(watch(name, readers, append))
    assert (reads, renderings) == (ONCE, ONCE)
    for seq, messages in enumerate(zip(*(reader.got for reader in readers), strict=True), 1):
        assert b'"$seq":%d,' % seq in messages[0]
        assert all(message is messages[0] for message in messages), "rendered for each reader"


async def read_behind(name: str, append: Callable[[], None]) -> list[int]:
    """Let one stream read 3..4 while 4 is the head, then append, and let another begin at 0: it may share that read.

    Returns the heads that the other was told, in order.
    """
    hub, options = hub_module.hub(), Options(limit=2, max_bytes=262_144, heartbeat_ms=60_000)
    topic_id = (await hub.find([name]))[name][0]
    ahead, behind = Reader(), Reader()
    streams = {
        reader: Stream(hub, Session(wid, options, {name: SavedPosition(topic_id, seq)}, 1, True), OPEN, reader.send)
        for wid, seq, reader in (("ahead", 2, ahead), ("behind", 0, behind))
    }
    pumps = []
    for reader, stream in streams.items():
        await stream.begin()
        pumps.append(asyncio.create_task(stream.run()))
        deadline = time.monotonic() + 60
        while not reader.got or windows(reader)[-1]["to_seq"] < hub.heads[topic_id]:
            assert time.monotonic() < deadline, f"{stream.session.wid} did not come to the head"
            await asyncio.sleep(0.01)
        await asyncio.to_thread(append)
    for stream in streams.values():
        stream.close()
        stream.wake()
    await asyncio.gather(*pumps)
    await hub.close()
    return [window["head_seq"] for window in windows(behind)]


def windows(reader: Reader) -> list[dict[str, Any]]:
    """Returns the data of each `record` event that this reader got."""
    got = b"".join(reader.got)
    return [json.loads(data) for name, data in events(got) if name == "record"]


def test_a_shared_read_takes_no_head_back(transactional_db: None, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    def append() -> None:
        put(name, "5", "6")
        connection.close()  # this thread's own

    put_topic(name, Config(), now_ms())
    put(name, "1", "2", "3", "4")
    heads = asyncio.run(read_behind(name, append))
    assert heads == sorted(heads)

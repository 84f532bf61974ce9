"""A stream's unsent news of a topic is not lost: the next stream of the session sends the news."""

import asyncio
from collections.abc import Awaitable, Callable

import msgspec
import pytest
from django.db import connection

from base.clock import now_ms
from shell.follower import events
from store import loop
from tests.scripts import delete_topic, put_topic
from tests.shell.writing import put
from topics import wake
from topics.config import Config
from watch import arrived
from watch import hub as hub_module
from watch.hub import Hub
from watch.sessions import Options, SavedPosition, SavedPositions, Session
from watch.stream import Stream
from wire.access.keys import OPEN

OPTIONS = Options(limit=256, max_bytes=262_144, heartbeat_ms=60_000)


class Client:
    """The far end of the streams of a session in this process, which shows no Last-Event-ID."""

    def __init__(self, hub: Hub, positions: SavedPositions) -> None:
        self.hub, self.positions = hub, positions
        self.got: list[str] = []
        self.is_taking = asyncio.Event()
        self.is_taking.set()
        self.was_sent = asyncio.Event()

    async def send(self, frame: bytes) -> None:
        self.got += [name for name, _ in events(frame)]
        self.was_sent.set()
        await self.is_taking.wait()

    async def until(self, *got: str) -> None:
        while self.got != list(got):
            self.was_sent.clear()
            await asyncio.wait_for(self.was_sent.wait(), 60)

    async def connect(self, meanwhile: Callable[[Stream], Awaitable[None]]) -> None:
        """Have a stream until that is over. Where it came to is where the next one begins."""
        self.got.clear()
        stream = Stream(self.hub, Session("wid", OPTIONS, self.positions, 1, exact=True), OPEN, self.send)
        await stream.begin()
        pump = asyncio.create_task(stream.run())
        await meanwhile(stream)
        saved = stream.to_save(open=False)
        self.is_taking.set()
        stream.hang_up()
        await pump
        stream.close()
        self.positions = msgspec.json.decode(saved.spots, type=SavedPositions)


def in_a_thread(do: Callable[[], object]) -> Awaitable[None]:
    def done() -> None:
        do()
        connection.close()  # this thread's own

    return asyncio.to_thread(done)


def watched(monkeypatch: pytest.MonkeyPatch, name: str, story: Callable[[Client], Awaitable[None]]) -> None:
    async def told() -> None:
        hub = hub_module.hub()
        hub.running.cancel()  # it looks when the story says so
        client = Client(hub, {name: SavedPosition((await hub.find([name]))[name][0], 0)})
        try:
            await story(client)
        finally:
            await hub.close()
            await loop.close()

    monkeypatch.setattr(wake, "announce", lambda *_, **__: None)  # it hears of nothing by itself
    monkeypatch.setattr(arrived, "SETTLE_SECONDS", 0.0)  # what was sent has arrived
    put_topic(name, Config(), now_ms())
    put(name, "1")
    asyncio.run(told())


async def see_it_deleted(client: Client, name: str) -> None:
    await client.until("record", "caught-up")
    await in_a_thread(lambda: delete_topic(name, False, now_ms()))
    await client.hub.look()
    await client.until("record", "caught-up", "topic-deleted")


def test_a_deletion_that_was_noticed(transactional_db: None, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    async def story(client: Client) -> None:
        async def notice(stream: Stream) -> None:
            await client.until("record", "caught-up")
            await in_a_thread(lambda: delete_topic(name, False, now_ms()))
            await client.hub.look()

        await client.connect(notice)
        assert client.got == ["record", "caught-up"]
        await client.connect(lambda _: client.until("topic-deleted"))
        await client.connect(lambda _: asyncio.sleep(0))
        assert client.got == []

    watched(monkeypatch, name, story)


def test_a_deletion_that_the_client_does_not_take(
    transactional_db: None, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    async def story(client: Client) -> None:
        async def send(stream: Stream) -> None:
            await client.until("record", "caught-up")
            await in_a_thread(lambda: delete_topic(name, False, now_ms()))
            client.is_taking.clear()
            await client.hub.look()
            await client.until("record", "caught-up", "topic-deleted")

        await client.connect(send)
        await client.connect(lambda _: client.until("topic-deleted"))

    watched(monkeypatch, name, story)


def test_a_topic_created_anew_that_was_noticed(
    transactional_db: None, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    async def story(client: Client) -> None:
        async def notice(stream: Stream) -> None:
            await see_it_deleted(client, name)
            await in_a_thread(lambda: put(name, "1"))
            await client.hub.seek()

        await client.connect(notice)
        assert client.got == ["record", "caught-up", "topic-deleted"]
        await client.connect(lambda _: client.until("tombstone", "record", "caught-up"))

    watched(monkeypatch, name, story)


def test_a_topic_created_anew_that_the_client_does_not_take(
    transactional_db: None, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    async def story(client: Client) -> None:
        async def send(stream: Stream) -> None:
            await see_it_deleted(client, name)
            client.is_taking.clear()
            await in_a_thread(lambda: put(name, "1"))
            await client.hub.seek()
            await client.until("record", "caught-up", "topic-deleted", "tombstone", "record", "caught-up")

        await client.connect(send)
        await client.connect(lambda _: client.until("tombstone", "record", "caught-up"))

    watched(monkeypatch, name, story)

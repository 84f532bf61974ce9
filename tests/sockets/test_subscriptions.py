"""The subscriptions of a socket in this process, beside a look-up that fails."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from django.db import connection
from msgspec import UNSET

from base.clock import now_ms
from base.errors import NotReady
from sockets.subscriptions import Subscriptions
from store import loop
from tests.deadlines import DEADLINE
from tests.scripts import put_topic
from tests.shell.writing import put
from topics.config import Config
from watch import hub as hub_module
from watch.hub import Hub
from watch.sessions import Start, Watch
from wire.access.keys import OPEN

WANTED = Watch(topics={"t": Start()})


async def refuse(names: list[str]) -> dict[str, tuple[int, int]]:
    raise NotReady("PostgreSQL is away")


def append(value: str) -> None:
    put("t", value)
    connection.close()  # this thread's own


async def follow_again(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    frames: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    subscriptions = Subscriptions(hub, OPEN, lambda frame: frames.put_nowait(json.loads(frame)), lambda: True)

    async def records() -> list[Any]:
        while (frame := await asyncio.wait_for(frames.get(), DEADLINE))["op"] != "record":
            pass
        return [record["data"] for record in frame["records"]]

    await subscriptions.subscribe(WANTED, UNSET)
    with monkeypatch.context() as patch:
        patch.setattr(hub, "find", refuse)
        with pytest.raises(NotReady):
            await subscriptions.subscribe(WANTED, UNSET)
    assert subscriptions.positions() == {"t": 0}
    await asyncio.to_thread(append, "1")
    assert await records() == [1]
    await subscriptions.subscribe(WANTED, UNSET)
    assert await records() == [1]  # from the start again
    assert [len(followers) for followers in hub.followers.values()] == [1]
    subscriptions.close()
    assert hub.followers == {}


def test_a_subscribe_that_fails_leaves_what_the_socket_follows(
    transactional_db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def told() -> None:
        hub = hub_module.hub()
        try:
            await follow_again(hub, monkeypatch)
        finally:
            await hub.close()
            await loop.close()

    put_topic("t", Config(), now_ms())
    asyncio.run(told())

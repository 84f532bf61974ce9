"""An answer of a server that the gateway does not read to its end frees its connection."""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import pytest

from gateway.api import Request, Response
from gateway.blocks import Listed, merged_list, scatter
from gateway.errors import NodeUnreachable, RoutesFailed
from gateway.proxy.exchange import answered
from http1 import Pool
from http1 import Request as Received
from http1 import Response as Sent
from tests.deadlines import DEADLINE
from tests.http1.test_client import run, served

LARGE = b"x" * 1_000_000  # more than a connection reads without a reader
LIST = Request("GET", "/v0/topics", "page_size=1000")


@pytest.fixture(autouse=True)
def _no_garbage_collector() -> Iterator[None]:
    """So that no answer waits for it."""
    gc.disable()
    yield
    gc.enable()


class Context:
    """The context of a router with the routes `up` and `down`."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool

    def any_node(self, route: str) -> str:
        return route

    async def send_request(self, node: str, request: Request) -> Response:
        if node == "down":
            raise NodeUnreachable("down", "no connection")
        return answered(await self.pool.send(b"GET", b"/"))


async def list_all(context: Any) -> None:
    async def same(response: Response) -> Response:
        return response

    with contextlib.suppress(RoutesFailed):
        await merged_list(context, LIST, {each: Listed(LIST, same) for each in ("up", "down")}, "topics", "topic")
        raise AssertionError("one route is down")


async def scatter_all(context: Any) -> None:
    with contextlib.suppress(RoutesFailed):
        await scatter(context, dict.fromkeys(("up", "down"), LIST))
        raise AssertionError("one route is down")


async def ask_in_vain(context: Any) -> None:
    assert (await context.send_request("up", LIST)).status == 200


async def begin_to_read(context: Any) -> None:
    reading = asyncio.create_task((await context.send_request("up", LIST)).read())
    await asyncio.sleep(0)
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)


@pytest.mark.parametrize("drop", [list_all, scatter_all, ask_in_vain, begin_to_read])
def test_an_answer_that_nobody_reads_keeps_no_connection(drop: Callable[[Any], Awaitable[None]]) -> None:
    async def large() -> AsyncIterator[bytes]:
        while True:
            yield LARGE

    async def handle(request: Received) -> Sent:
        return Sent(
            200, [(b"content-type", b"application/json")], LARGE if drop in (list_all, scatter_all) else large()
        )

    async def main() -> None:
        async with served(handle) as (_, pool):
            for _ in range(20):
                await drop(Context(pool))
            async with asyncio.timeout(DEADLINE):
                while pool.open > len(pool.idle):
                    await asyncio.sleep(0.01)

    run(main())

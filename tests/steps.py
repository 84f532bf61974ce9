"""Steps of one kind (store/coalesce.py) that arrive together in an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from store import loop
from store.script import Coalesced


def in_a_loop(work: Callable[[], Awaitable[Any]]) -> Any:
    async def main() -> Any:
        try:
            return await asyncio.wait_for(work(), 60)
        finally:
            await loop.close()

    return asyncio.run(main())


async def each_of(step: Coalesced[Any]) -> Any:
    return await asyncio.wait_for(loop.here().coalescer.ask(step), 60)


def together(behind: Coalesced[Any], *steps: Coalesced[Any]) -> list[Any]:
    """What comes of them, errors too, when they arrive while one of their kind is under way."""

    async def work() -> list[Any]:
        first = asyncio.ensure_future(each_of(behind))
        await asyncio.sleep(0)
        found = await asyncio.gather(*map(each_of, steps), return_exceptions=True)
        await first
        return found

    return in_a_loop(work)


def held_and_passing(held: Coalesced[Any], passing: Coalesced[Any], let_go: Callable[[], object]) -> tuple[Any, Any]:
    """What comes of two that arrive together, the first of which meets a lock: until the other is done nobody lets go of that."""

    async def work() -> tuple[Any, Any]:
        first = [asyncio.ensure_future(each_of(step)) for step in (held, passing)]
        passed = await first[1]
        assert not first[0].done()
        let_go()
        return await first[0], passed

    return in_a_loop(work)

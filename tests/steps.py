"""Steps of one kind (store/coalesce.py) that arrive together in an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from store import loop
from store.script import Coalesced


async def each_of(step: Coalesced[Any]) -> Any:
    return await asyncio.wait_for(loop.here().coalescer.ask(step), 60)


def together(behind: Coalesced[Any], *steps: Coalesced[Any]) -> list[Any]:
    """What comes of them, errors too, when they arrive while one of their kind is under way."""

    async def main() -> list[Any]:
        try:
            first = asyncio.ensure_future(each_of(behind))
            await asyncio.sleep(0)
            found = await asyncio.gather(*map(each_of, steps), return_exceptions=True)
            await first
            return found
        finally:
            await loop.close()

    return asyncio.run(main())


def held_and_passing(held: Coalesced[Any], passing: Coalesced[Any], let_go: Callable[[], object]) -> tuple[Any, Any]:
    """What comes of two that arrive together, the first of which meets a lock: until the other is done nobody lets go of that."""

    async def main() -> tuple[Any, Any]:
        try:
            first = [asyncio.ensure_future(each_of(step)) for step in (held, passing)]
            passed = await first[1]
            assert not first[0].done()
            let_go()
            return await first[0], passed
        finally:
            await loop.close()

    return asyncio.run(main())

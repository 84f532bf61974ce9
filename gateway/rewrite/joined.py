"""Joins several watch streams into one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping
from typing import Any

from gateway.rewrite.frames import Frame, closed, frames
from gateway.rewrite.names import Rename, decoded_id, encoded_id, rename_frame
from http1 import BrokenOff

MOST_WAITING = 16  # frames of one source that wait for a slow client


class JoinedStream:
    """One watch stream from several sources, by route. Its ids contain the position in the topics of all sources.

    A slow client pauses the reading of all sources. The stream ends as the first source does that ends, is cut or fails, and
    the client reconnects with its last id. `caught-up` events pass as they arrive, one per topic.
    """

    def __init__(
        self, sources: Mapping[str, tuple[Any, Rename]], position: dict[str, Any], heard: Collection[str] = ()
    ) -> None:
        """`position`: the client's Last-Event-ID, in the client's names. `heard`: the routes whose topics are in the id."""
        self.sources = dict(sources)
        self.position = dict(position)
        # Until each source has sent its position, frames get no id. In an id, a missing topic means that the client knows about
        # the topic's deletion.
        self.unheard = set(sources) - set(heard)
        self.queue: asyncio.Queue[bytes | None] = asyncio.Queue(MOST_WAITING)
        self.putting = asyncio.Lock()
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self.ended = False
        self.was_cut = False  # a source failed or was cut

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if not self.tasks and not self.ended:
            loop = asyncio.get_running_loop()
            self.tasks = {route: loop.create_task(self.read(route, *each)) for route, each in self.sources.items()}
        if self.ended or (frame := await self.queue.get()) is None:
            await self.aclose()
            raise BrokenOff if self.was_cut else StopAsyncIteration
        return frame

    async def read(self, route: str, source: Any, rename: Rename) -> None:
        own: set[str] = set()
        try:
            async for each in frames(source):
                frame = Frame(each)
                rename_frame(frame, rename)
                if not await self.passes(route, frame):
                    continue
                # Put frames one at a time, so that frames enter the queue in the order in which they advanced the position.
                async with self.putting:
                    if frame.id:
                        self.unheard.discard(route)
                        own = self.move(frame, own, route)
                    await self.queue.put(frame.encoded())
        except Exception:
            self.was_cut = True
            raise
        finally:
            if not self.ended and route in self.sources:
                await self.queue.put(None)

    async def passes(self, route: str, frame: Frame) -> bool:
        """Returns whether a source's frame is for the client."""
        return True

    def is_of(self, route: str, topic: str) -> bool:
        """Returns whether a source still serves a topic."""
        return True

    def move(self, frame: Frame, own: set[str], route: str) -> set[str]:
        """Merges a source's position into the common position, which becomes the frame's id. Returns the source's topics."""
        assert frame.id is not None
        position = decoded_id(frame.id.decode("latin-1"))
        position = {topic: seq for topic, seq in position.items() if self.is_of(route, topic)}
        # If a source's id no longer contains a topic, the topic was deleted at the source.
        for name in own - position.keys():
            if self.is_of(route, name):
                self.position.pop(name, None)
        self.position |= position
        frame.id = encoded_id(self.position) if not self.unheard else None
        return set(position)

    async def aclose(self) -> None:
        self.ended = True
        for task in self.tasks.values():
            task.cancel()
        await asyncio.gather(*self.tasks.values(), return_exceptions=True)
        for source, _ in self.sources.values():
            await closed(source)

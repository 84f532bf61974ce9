"""Simultaneous reads of an event loop share a round trip (roundtrips.py). Should one of them fail, each is asked again alone,
so that none is told of another's trouble. Those that ask the same share the statement, too: many who wait at the end of one topic
cost PostgreSQL what one of them does. None of them was sent yet, so each sees all that was there when it came."""

from __future__ import annotations

from collections.abc import Awaitable, Hashable, Sequence

from store.codec import Arguments, Rows
from store.connection import Connection
from store.readers import Readers
from store.roundtrips import RoundTrips

Read = tuple[str, Arguments]


class Reads(RoundTrips[Read, Rows]):
    """Nothing that is asked here may wait for a lock: others would wait with it."""

    def __init__(self, connections: int) -> None:
        super().__init__(connections)
        self.readers = Readers(connections)

    def execute(self, sql: str, arguments: Arguments) -> Awaitable[Rows]:
        """The rows of a read that may be done twice, to be awaited at once. Raises NotReady."""
        return self.ask((sql, arguments))

    def same(self, asked: Read) -> Hashable:
        try:
            hash(asked)
        except TypeError:  # some argument of it is a list
            return object()
        return asked

    async def alone(self, asked: Read) -> Rows:
        return await self.readers.execute(*asked)

    async def together(self, batch: Sequence[Read]) -> Sequence[Rows | Awaitable[Rows]]:
        async def work(connection: Connection) -> list[Rows]:
            return (await connection.together(batch))[0]

        try:
            return await self.readers.read(work)
        except Exception:
            return [self.alone(each) for each in batch]

    async def close(self) -> None:
        await super().close()
        await self.readers.close()

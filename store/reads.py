"""Simultaneous reads of an event loop share a round trip (roundtrips.py).

If one of the reads fails, each read is sent again alone, so that no read gets the error of another. Equal reads also share the
statement. Many readers at the end of one topic cost PostgreSQL as much as one reader. Only unsent reads are shared, so each read
sees all records that were committed at its call.
"""

from __future__ import annotations

from collections.abc import Awaitable, Hashable, Sequence

from store.codec import Arguments, Rows
from store.connection import Connection
from store.readers import Readers
from store.roundtrips import RoundTrips

Read = tuple[str, Arguments]


class Reads(RoundTrips[Read, Rows]):
    """Shared reads. A read must not wait for a lock, because all others would wait with it."""

    def __init__(self, connections: int) -> None:
        super().__init__(connections)
        self.readers = Readers(connections)

    def execute(self, sql: str, arguments: Arguments) -> Awaitable[Rows]:
        """Returns an awaitable of a read's rows. The caller must await it at once. The read may run twice. Raises NotReady."""
        return self.ask((sql, arguments))

    def same(self, asked: Read) -> Hashable:
        try:
            hash(asked)
        except TypeError:  # an argument is a list
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

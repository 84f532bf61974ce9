"""Hands out the records of a group member's shares, for threads and for event loops. membership.py has the protocol."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Generator
from contextlib import suppress
from typing import Generic, TypeVar

import httpx

from topics_client.errors import TopicsError
from topics_client.following import AsyncOnLoss, OnLoss, tell, tell_async
from topics_client.membership import Membership, Part
from topics_client.records import Streamed
from topics_client.script import drive, run
from topics_client.signals import Interrupt, Stopped, on_loop_signal

T = TypeVar("T")


class Group(Generic[T]):
    """A loop over the records of this member's shares. A record is done when the loop asks for the next one."""

    def __init__(self, membership: Membership[T], http: httpx.Client, on_loss: OnLoss) -> None:
        self.membership, self.http, self.on_loss = membership, http, on_loss
        self.interrupt = Interrupt()

    def stop(self) -> None:
        """Ends the loop before its next record. Any thread can call it: then a loop that waits ends within 15 seconds."""
        self.membership.is_ending = True
        self.interrupt.set()

    def __iter__(self) -> Generator[Streamed[T], None, None]:
        """Yields records until SIGTERM, SIGINT or `stop`. At its end, it commits and leaves the group."""
        member, interrupt = self.membership, self.interrupt
        with interrupt.installed():
            try:
                while part := self._wait():
                    if part.tombstone:
                        tell(part.tombstone, self.on_loss)
                    for record in part.records:
                        if interrupt.is_set or not member.is_mine(part):
                            break
                        yield record
                        if member.is_due(part, record.seq):
                            run(member.commit(), self.http)
                    else:
                        member.is_due(part, part.to_seq)
            finally:
                with suppress(TopicsError):
                    run(member.leave(), self.http)

    def _wait(self) -> Part | None:
        try:
            with self.interrupt.waiting():
                return run(self.membership.next(), self.http)
        except Stopped:
            return None


class AsyncGroup(Generic[T]):
    """As Group, for `async` code."""

    def __init__(self, membership: Membership[T], http: httpx.AsyncClient, on_loss: AsyncOnLoss) -> None:
        self.membership, self.http, self.on_loss = membership, http, on_loss
        self.stopped = asyncio.Event()

    def stop(self) -> None:
        """Ends the loop before its next record."""
        self.stopped.set()

    async def __aiter__(self) -> AsyncGenerator[Streamed[T], None]:
        """As Group.__iter__. Close it with `contextlib.aclosing` if the loop can end early: then it leaves at once."""
        member = self.membership
        stopped = asyncio.create_task(self.stopped.wait())
        with on_loop_signal(self.stop):
            try:
                while part := await self._wait(stopped):
                    if part.tombstone:
                        await tell_async(part.tombstone, self.on_loss)
                    for record in part.records:
                        if self.stopped.is_set() or not member.is_mine(part):
                            break
                        yield record
                        if member.is_due(part, record.seq):
                            await drive(member.commit(), self.http)
                    else:
                        member.is_due(part, part.to_seq)
            finally:
                stopped.cancel()
                with suppress(TopicsError):
                    await drive(member.leave(), self.http)

    async def _wait(self, stopped: asyncio.Task[bool]) -> Part | None:
        """Returns the next step, or None after `stop`."""
        if self.stopped.is_set():
            return None
        coming = asyncio.ensure_future(drive(self.membership.next(), self.http))
        try:
            await asyncio.wait((coming, stopped), return_when=asyncio.FIRST_COMPLETED)
            return coming.result() if coming.done() else None
        finally:
            if not coming.done():
                coming.cancel()
                await asyncio.wait((coming,))

"""Timeouts without timers. One check of all connections at each tick costs less than a timer for each request."""

from __future__ import annotations

import asyncio
from typing import Protocol

NEVER = float("inf")


class Expiring(Protocol):
    deadline: float

    def expire(self, now: float) -> None: ...


class Deadlines:
    """Members with a `deadline` in the loop's time. `expire` is called for each member after its deadline."""

    def __init__(self, tick: float) -> None:
        """`tick`: seconds between two checks. A timeout is late by at most this time."""
        self.tick = tick
        self.members: set[Expiring] = set()
        self.timer: asyncio.TimerHandle | None = None

    def add(self, member: Expiring) -> None:
        self.members.add(member)
        if self.timer is None:
            self.timer = asyncio.get_running_loop().call_later(self.tick, self.look)

    def discard(self, member: Expiring) -> None:
        self.members.discard(member)

    def look(self) -> None:
        # The timer runs only while there are members, so that an idle process sleeps.
        self.timer = None
        loop = asyncio.get_running_loop()
        now = loop.time()
        for member in [each for each in self.members if each.deadline <= now]:
            member.expire(now)
        if self.members:
            self.timer = loop.call_later(self.tick, self.look)

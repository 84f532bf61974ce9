"""An object that belongs to an event loop. Connections and futures work only in the loop that made them."""

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class PerLoop(Generic[T]):
    """Makes one object for the running event loop. A process has one loop at a time that uses the object."""

    def __init__(self, make: Callable[[], T]) -> None:
        self.make = make
        self.loop: asyncio.AbstractEventLoop | None = None
        self.made: T | None = None  # the object of `loop`

    def here(self) -> T:
        """Returns the object of the running event loop, and makes it at the first call."""
        loop = asyncio.get_running_loop()
        if self.made is None or self.loop is not loop:
            self.made, self.loop = self.make(), loop
        return self.made

"""Messages between the processes of one server, which are forks of one process. No other process takes part."""

from __future__ import annotations

import contextlib
import mmap
import socket


class Neighbours:
    """A socket for each process, and a flag that says whether the process listens. Made before the processes are forked.

    A process that is replaced leaves both to its successor. The successor may get messages to the process before it.
    """

    def __init__(self, processes: int) -> None:
        self.inboxes, self.outboxes = zip(
            *(socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM) for _ in range(processes)), strict=True
        )
        for each in (*self.inboxes, *self.outboxes):
            each.setblocking(False)
        self.listening = memoryview(mmap.mmap(-1, processes))

    def listen(self, slot: int, is_listening: bool) -> None:
        self.listening[slot] = is_listening

    def count(self) -> int:
        """Returns how many processes listen."""
        return sum(self.listening)

    def listeners(self, slot: int) -> list[int]:
        """Returns the processes, other than this one, that listen."""
        return [other for other, listens in enumerate(self.listening) if listens and other != slot]

    def send(self, slot: int, message: bytes) -> None:
        """Sends to the others that listen. A process with a full socket does not get the message."""
        for other in self.listeners(slot):
            with contextlib.suppress(BlockingIOError, ConnectionRefusedError):
                self.outboxes[other].send(message)

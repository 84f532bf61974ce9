"""Frames of a socket that are sent in a later step of the event loop."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from watch.hub import Hub
from wire.access.keys import Key


class Sender(ABC):
    """The subscriptions or the memberships of a socket, in the hub's event loop.

    `may_send`: whether the client has taken the earlier frames.
    """

    def __init__(self, hub: Hub, key: Key, send: Callable[[bytes], None], may_send: Callable[[], bool]) -> None:
        self.hub, self.key, self.send, self.may_send = hub, key, send, may_send
        self.is_closed = self.is_due = False

    def send_soon(self) -> None:
        """Sends in a later step of the event loop. An error there does not keep the caller from its other streams."""
        if not self.is_due:
            self.is_due = True
            self.hub.loop.call_soon(self.send_due)

    def send_due(self) -> None:
        self.is_due = False
        self.send_all()

    @abstractmethod
    def send_all(self) -> None:
        """Sends all frames that the client takes now."""

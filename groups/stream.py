"""The stream of a member over HTTP: sends the frames of a session as server-sent events."""

from __future__ import annotations

from typing import Any

from groups import frames
from groups.joining import Joined
from groups.membership import Membership
from groups.roster import roster
from groups.share import SessionShare
from watch.frames import event
from watch.hub import Hub
from watch.outflow import Outflow
from watch.pump import Pump
from wire.access.keys import Key


class MemberStream(Membership, Pump):
    """An event stream of a session. The frames of the session wait in `outbox`, and heartbeats in `frames`."""

    wake = Pump.wake

    def __init__(self, hub: Hub, joined: Joined, key: Key, outflow: Outflow) -> None:
        Pump.__init__(self, hub.loop, outflow.send)
        Membership.__init__(self, hub, joined, key)
        self.outflow = outflow

    async def begin(self) -> None:
        self.announce("joined", **self.joined.shown)
        await super().begin()
        roster().add(self)

    def event(self, name: str, **data: Any) -> bytes:
        return event(name, topic=self.topic, **data)

    def record(self, share: SessionShare, records: list[bytes], from_seq: int, to_seq: int, head_seq: int) -> bytes:
        return frames.record(self.topic, share.number, share.generation, records, from_seq, to_seq, head_seq)

    def refusal(self, code: str | int, message: str) -> bytes:
        return event("error", code=code, error=message)

    async def explain_end(self) -> None:
        await super().explain_end()
        if self.is_sending:
            self.outflow.cut()  # a frozen client would keep the connection open

    def next_frame(self) -> bytes | None:
        return b"".join(self.next_frames()) or Pump.next_frame(self)

    def close(self) -> None:
        Pump.close(self)
        Membership.close(self)
        roster().remove(self)

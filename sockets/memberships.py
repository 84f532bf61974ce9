"""The consumer groups that a socket is a member of. A membership has the session and shares of a stream (groups/membership.py).

A socket holds no task for its memberships. They send after a reading, a commit or a move of shares, and after the client has
taken earlier frames.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from base.clock import now_ms
from base.errors import InvalidRequest
from groups.joining import Joined, JoinOptions, join
from groups.membership import Membership
from groups.roster import roster
from groups.share import SessionShare
from sockets.frames import RequestId, answer, event, shared_record
from sockets.sender import Sender
from watch.hub import Hub
from wire.access.keys import Key

MOST_GROUPS = 256


class SocketMember(Membership):
    """A membership with frames of a socket. `send_soon` makes the socket take the frames."""

    def __init__(self, hub: Hub, joined: Joined, key: Key, send_soon: Callable[[], None]) -> None:
        super().__init__(hub, joined, key)
        self.send_soon = send_soon

    def wake(self) -> None:
        self.send_soon()

    def event(self, name: str, **data: Any) -> bytes:
        return event(name, topic=self.topic, **{"group": self.joined.group, **data})

    def record(self, share: SessionShare, records: list[bytes], from_seq: int, to_seq: int, head_seq: int) -> bytes:
        numbers = share.number, share.generation, from_seq, to_seq, head_seq
        return shared_record(self.topic, self.joined.group, *numbers, records)

    def refusal(self, code: str | int, message: str) -> bytes:
        return self.event("error", session=self.joined.session, code=code, message=message)


class Memberships(Sender):
    """The memberships of a socket, in the hub's event loop. Only `join` waits."""

    def __init__(self, hub: Hub, key: Key, send: Callable[[bytes], None], may_send: Callable[[], bool]) -> None:
        super().__init__(hub, key, send, may_send)
        self.members: dict[tuple[str, ...], SocketMember] = {}  # by topic and group

    async def join(self, topic: str, group: str, wanted: JoinOptions, request_id: RequestId) -> None:
        """Starts a session. Raises TopicsError. A socket's joins do not overlap."""
        if (topic, group) in self.members:
            raise InvalidRequest(f"this socket is a member of group {group!r}: send leave first", group=group)
        if len(self.members) >= MOST_GROUPS:
            raise InvalidRequest(f"too many groups on one socket: expected at most {MOST_GROUPS}")
        joined = await self.hub.store.drive(join(topic, group, wanted, self.key, now_ms()))
        member = SocketMember(self.hub, joined, self.key, self.send_soon)
        try:
            await member.begin()
        except BaseException:
            member.close()
            raise
        if self.is_closed:
            member.close()
            return
        self.members[topic, group] = member
        self.send(answer("joined", request_id, msgspec.json.encode({"topic": topic, **joined.shown})))
        roster().add(member)
        self.send_soon()

    def leave(self, path: tuple[str, ...], session: int) -> None:
        """Sends no more frames of this session. `path`: topic and group. A session of another connection stays."""
        member = self.members.get(path)
        if member is not None and member.joined.session == session:
            self.drop(member)

    def drop(self, member: SocketMember) -> None:
        del self.members[member.topic, member.joined.group]
        member.close()
        roster().remove(member)

    def close(self) -> None:
        """The socket has ended. The sessions time out, unless the members join again under the same names."""
        self.is_closed = True
        for member in list(self.members.values()):
            self.drop(member)

    # -- Sending ------------------------------------------------------------------------------------------------------

    def send_all(self) -> None:
        """Sends the frames of each membership, until its reading is not done or the client is slow."""
        for member in list(self.members.values()):
            while self.may_send() and (frames := member.next_frames()):
                for frame in frames:
                    self.send(frame)
            if member.is_over:
                self.drop(member)

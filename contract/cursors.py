"""Where a client sets a cursor, at a server or at a gateway in front of Kafka."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from base.errors import InvalidRequest
from contract.reading import Seq

Edge = Annotated[Literal["head", "earliest"], Meta(title="Edge")]
CursorKind = Literal["named", "router", "pipeline", "subscription", "webhook"]  # the kind of its owner, if it has one


class CursorFields(msgspec.Struct):
    """The new position of a cursor: exactly one of `seq`, `from_ts` and `at`. `expected_seq` is its expected old position."""

    seq: Seq | None = None
    """The last seq that the reader has read, at most the head. Send exactly one of `seq`, `from_ts` and `at`."""
    from_ts: Seq | None = None
    """Before the first record with this `$ts` or a later one, in milliseconds since the epoch."""
    at: Edge | None = None
    """`head`: after the newest record. `earliest`: before the oldest record."""
    expected_seq: Seq | None = None
    """The seq that the cursor must have, 0 if the cursor is absent. If the seq differs, the server answers 409 `cursor_moved`."""

    def check(self) -> None:
        """Raises InvalidRequest unless exactly one of `seq`, `from_ts` and `at` is set."""
        if sum(each is not None for each in (self.seq, self.from_ts, self.at)) != 1:
            raise InvalidRequest("the position of the cursor is missing: send exactly one of seq, from_ts and at")

"""What a client asks for when it watches topics, of a server or of a gateway in front of Kafka."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from base.errors import InvalidRequest
from contract.operations import EVENT_BYTES
from contract.reading import Match, Seq

Consistency = Annotated[Literal["eventual", "strong"], Meta(title="Consistency")]


class StartFields(msgspec.Struct):
    """The position at which to start in one topic, and a filter."""

    from_seq: Seq | None = None
    """Start after this seq. null is 0: start at the beginning. Send at most one of `from_seq`, `from_ts` and `tail`."""
    from_ts: Seq | None = None
    """Start at the first record with `$ts` at or above this, in milliseconds since the epoch."""
    tail: bool = False
    """True: start after the head."""
    match: Match | None = None
    """Send only records whose tag matches, as in a diff."""

    def check(self, topic: str) -> None:
        """Raises InvalidRequest for fields that exclude each other."""
        if sum((self.from_seq is not None, self.from_ts is not None, self.tail)) > 1:
            raise InvalidRequest(f"{topic}: from_seq, from_ts and tail exclude each other: send at most one")


class SelectionFields(msgspec.Struct, kw_only=True):
    """The fields and records that a reader gets of each topic, and the size of one read."""

    node: str | list[str] | None = None
    """The node of the reader, or up to 1000 nodes. Records with one of these nodes as `$node` are left out of all topics."""
    limit: Annotated[int, Meta(ge=1, le=2**63 - 1)] = 256
    """Records per read. A value above 1000 counts as 1000."""
    max_batch_bytes: Annotated[int, Meta(ge=1, le=2**63 - 1)] = EVENT_BYTES
    """Bytes of `data` and `meta` in one event. A larger record comes alone. A value above 262144 counts as 262144."""
    include_meta: bool = True
    """Whether records show their `meta`."""
    include_tags: bool = False
    """Whether records show their `$tag`."""
    include_data: bool = True
    """Whether records show their `data`."""
    consistency: Consistency = "eventual"
    """`eventual`: a record is sent once it is committed. `strong`: a record is sent once no crash can take it back."""

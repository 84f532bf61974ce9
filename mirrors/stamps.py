"""The stamp of a mirrored record: `meta._topics_mirror` names the site of the append, and the record's seq there.

The server that gets the record writes the stamp, and a third site finds the origin there. Appends cannot write a stamp
(base/bounds.py), because a wrong origin would keep records from arriving.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from base.bounds import MIRROR_STAMP
from contract.appending import NO_META
from topics.append.copies import CopiedRecord

QUOTED = f'"{MIRROR_STAMP}"'.encode()


class MirrorStamp(msgspec.Struct):
    """`topic`: of the stamp. A router can forward a mirrored record to another topic, where the stamp says nothing."""

    topic: str
    site: str
    seq: int
    ts: int


class MirrorStamped(msgspec.Struct):
    stamp: MirrorStamp | None = msgspec.field(name=MIRROR_STAMP, default=None)


class Origin(NamedTuple):
    """The site of a record's append, with the seq and the time there."""

    site: str
    seq: int
    ts: int


def stamp_of(record: CopiedRecord, topic: str) -> MirrorStamp | None:
    """Returns the stamp of a mirrored record of this topic, or None."""
    if record.meta is NO_META or QUOTED not in bytes(record.meta):
        return None
    try:
        stamp = msgspec.json.decode(record.meta, type=MirrorStamped).stamp
    except msgspec.MsgspecError:
        return None
    return stamp if stamp is not None and stamp.topic == topic else None


def stamped(records: Sequence[CopiedRecord], topic: str, source: str) -> list[tuple[Origin, CopiedRecord]]:
    """Returns the records with their stamps, and their origins. `source`: the site that was read."""
    found = []
    for record in records:
        stamp = stamp_of(record, topic)
        if stamp is None:
            stamp = MirrorStamp(topic, source, record.seq, record.ts)
            record = msgspec.structs.replace(record, meta=with_stamp(record.meta, stamp))
        found.append((Origin(stamp.site, stamp.seq, stamp.ts), record))
    return found


def with_stamp(meta: msgspec.Raw, stamp: MirrorStamp) -> msgspec.Raw:
    """Returns the meta with the stamp at its end. The other bytes stay."""
    member = QUOTED + b":" + msgspec.json.encode(stamp) + b"}"
    before = bytes(meta).strip()
    if before == b"null":
        return msgspec.Raw(b"{" + member)
    inner = before[:-1].rstrip()
    return msgspec.Raw(inner + (b"" if inner == b"{" else b",") + member)

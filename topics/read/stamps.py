"""Hides names in the stamp of exactly_once routers, `meta._topics_router`, from a key with prefixes.

PostgreSQL writes the stamp as the last member of `meta` (sql/functions/stamped_meta.sql), without regard to keys. This module
replaces names outside the reader's prefixes by "*". Every other byte of the record stays the same. The member's name is
reserved for routers. If a client writes a member of the same name, shape and place, it is treated as a stamp.
"""

from __future__ import annotations

import msgspec

from base.errors import HIDDEN
from base.names import within

MARK = b'"_topics_router":'
META = b',"meta":'  # the text before it in a record has escaped quotes, so cannot contain this
NO_META = msgspec.Raw(b"")


class Stamped(msgspec.Struct):
    meta: msgspec.Raw = NO_META


class Stamp(msgspec.Struct):
    """The fields of sql/functions/stamped_meta.sql, in the same order."""

    router: str
    source: str
    source_topic_id: int
    source_epoch: int
    source_seq: int
    key: str


def seen(records: str, prefixes: tuple[str, ...]) -> str:
    """Returns records with the stamps as a key with these prefixes may see them. Commas join the records, as PostgreSQL
    wrote them."""
    if not prefixes or MARK.decode() not in records:
        return records
    each = msgspec.json.decode(f"[{records}]", type=list[msgspec.Raw])
    return b",".join(record_seen(bytes(record), prefixes) for record in each).decode()


def record_seen(record: bytes, prefixes: tuple[str, ...]) -> bytes:
    if MARK not in record:
        return record
    meta = bytes(msgspec.json.decode(record, type=Stamped).meta)
    if MARK not in meta:
        return record
    begin = record.index(META) + len(META)
    return record[:begin] + meta_seen(meta, prefixes) + record[begin + len(meta) :]


def meta_seen(meta: bytes, prefixes: tuple[str, ...]) -> bytes:
    """Returns `meta` with the names in its stamp hidden. If its last member is not a stamp, `meta` stays unchanged."""
    begin = meta.rindex(MARK) + len(MARK)
    try:
        stamp = msgspec.json.decode(meta[begin:-1], type=Stamp)
    except msgspec.MsgspecError:
        return meta
    router, source = within(stamp.router, prefixes), within(stamp.source, prefixes)
    if router and source:
        return meta
    if not source:
        stamp.source = HIDDEN
    if not router:
        stamp.key = HIDDEN + stamp.key.removeprefix(stamp.router)
        stamp.router = HIDDEN
    return meta[:begin] + msgspec.json.encode(stamp) + meta[-1:]

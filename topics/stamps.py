"""The stamp of exactly_once routers, `meta._topics_router`, as a key with prefixes may see it.

PostgreSQL writes the stamp as the last member of `meta` (sql/stamped_meta.sql) and knows no keys. Here the names in it
that lie outside the reader's prefixes become "*"; every other byte of the record stays as it is. The member's name is
reserved for routers: one that a client wrote itself, in the shape of a stamp and in its place, is taken for a stamp.
"""

from __future__ import annotations

import msgspec

from base.names import HIDDEN, within

MARK = b'"_topics_router":'
META = b',"meta":'  # what comes before it in a record is text with escaped quotes, and so cannot hold this
NO_META = msgspec.Raw(b"")


class Stamped(msgspec.Struct):
    meta: msgspec.Raw = NO_META


class Stamp(msgspec.Struct):
    """As sql/stamped_meta.sql writes it, field by field."""

    router: str
    source: str
    source_topic_id: int
    source_epoch: int
    source_seq: int
    key: str


def seen(records: str, prefixes: tuple[str, ...]) -> str:
    """Records, joined by commas as PostgreSQL wrote them, for a reader whose key has these prefixes."""
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
    """`meta` with the names in its stamp hidden; as it is when its last member is no stamp."""
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

"""Hides names in the stamps of servers in `meta` from a key with prefixes.

Servers write stamps without regard to keys. This module replaces names outside the reader's prefixes by "*". Every other byte of
the record stays the same. The stamps are those of exactly_once routers, `_topics_router`, of dead letters, `$dead_letter_from`,
and of mirrored records, `_topics_mirror`.

PostgreSQL writes the stamp of a router as the last member of `meta` (sql/functions/stamped_meta.sql). If a client writes a member
of the same name, shape and place, it is treated as a stamp. No client writes the others (base/bounds.py).
"""

from __future__ import annotations

import re

import msgspec

from base.bounds import LETTER_FROM, MIRROR_STAMP
from base.errors import HIDDEN
from base.names import within

MARK = b'"_topics_router":'
LETTER, MIRROR = f'"{LETTER_FROM}"'.encode(), f'"{MIRROR_STAMP}"'.encode()
MARKS = (MARK, LETTER, MIRROR)
TEXTS = tuple(mark.decode() for mark in MARKS)
QUEUE = rb'(%b\s*:\s*)"%%b"' % re.escape(LETTER)
TOPIC = rb'(%b\s*:\s*\{\s*"topic"\s*:\s*)"%%b"' % re.escape(MIRROR)
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


class Origin(msgspec.Struct):
    topic: str | None = None


class Origins(msgspec.Struct):
    """The members of `meta` that name where a record came from: the queue of a dead letter, the topic of a mirrored record."""

    queue: str | None = msgspec.field(name=LETTER_FROM, default=None)
    mirror: Origin = msgspec.field(name=MIRROR_STAMP, default_factory=Origin)


def seen(records: str, prefixes: tuple[str, ...]) -> str:
    """Returns records with the stamps as a key with these prefixes may see them. Commas join the records, as PostgreSQL
    wrote them."""
    if not prefixes or not any(text in records for text in TEXTS):
        return records
    each = msgspec.json.decode(f"[{records}]", type=list[msgspec.Raw])
    return b",".join(record_seen(bytes(record), prefixes) for record in each).decode()


def record_seen(record: bytes, prefixes: tuple[str, ...]) -> bytes:
    if not any(mark in record for mark in MARKS):
        return record
    meta = bytes(msgspec.json.decode(record, type=Stamped).meta)
    told = meta
    if MARK in meta:
        told = router_seen(told, prefixes)
    if LETTER in meta or MIRROR in meta:
        told = origins_seen(told, prefixes)
    if told is meta:
        return record
    begin = record.index(META) + len(META)
    return record[:begin] + told + record[begin + len(meta) :]


def origins_seen(meta: bytes, prefixes: tuple[str, ...]) -> bytes:
    """Returns `meta` with the names of the record's origin hidden. If they are not as servers write them, `meta` stays."""
    try:
        found = msgspec.json.decode(meta, type=Origins)
    except msgspec.MsgspecError:
        return meta
    for pattern, name in ((QUEUE, found.queue), (TOPIC, found.mirror.topic)):
        if name is not None and not within(name, prefixes):
            meta = re.sub(pattern % re.escape(name.encode()), rb'\1"%b"' % HIDDEN.encode(), meta)
    return meta


def router_seen(meta: bytes, prefixes: tuple[str, ...]) -> bytes:
    """Returns `meta` with the names in the stamp of a router hidden. If its last member is not one, `meta` stays unchanged."""
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

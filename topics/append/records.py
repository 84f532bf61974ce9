"""Records as a client sends them: the body of an append, the checks, and the columns (docs/wire.md)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from hashlib import blake2b
from itertools import repeat
from typing import Annotated, NamedTuple, Protocol

import msgspec
from django.conf import settings
from msgspec import Meta

from base.bounds import STAMP_BYTES, check_meta
from base.depth import MOST_DEPTH, SHALLOW_BYTES, check_depth
from base.errors import BatchTooLarge, InvalidRequest, RecordTooLarge
from base.labels import check_node, check_tag
from store import disk
from topics.append.keys import check_keys
from topics.config import Config
from topics.read.diff import Seq
from wire.keys import Key
from wire.parse import Request

NO_META = msgspec.Raw(b"null")
no_meta = repeat(NO_META).__next__  # always NO_META; a Python function would take longer than reading a record
# Read once: looking up a setting takes longer than checking a record by it.
MAX_RECORDS, MAX_RECORD_BYTES = settings.TOPICS_MAX_RECORDS_PER_APPEND, settings.TOPICS_MAX_RECORD_BYTES
STAMPED = re.compile(rb'\{"traceparent":"[0-9a-f-]{55}"([,}])')  # the begin of `meta` with a trace (traced.py)
OBJECT = Meta(extra_json_schema={"anyOf": [{"type": "object"}, {"type": "null"}]})


class NewRecord(Request):
    """A record as a client sends it. `data` and `meta` keep exactly the bytes that were sent."""

    data: msgspec.Raw
    """Any JSON value, also null, with at most 128 levels. Reads return it byte for byte. With `meta` at most 1 MiB. Half of a
    surrogate pair (half) is 400."""
    tag: str | None = None
    """A label for deletes, filters and routers: 1 to 256 bytes."""
    node: str | None = None
    """Name of the writer: 1 to 128 bytes. Null: the `node` of the append."""
    meta: Annotated[msgspec.Raw, OBJECT] = msgspec.field(default_factory=no_meta)
    """A small object beside the data: at most 16 KiB, 64 keys and 128 levels. Routers use the key `_topics_router`. A key of
    servers is 400."""


class Append(Request):
    """The body of an append."""

    records: list[NewRecord]
    """1 to 10000 records. The server appends all of them, in this order and next to each other, or none."""
    node: str | None = None
    """Name of the writer of records without a `node`: 1 to 128 bytes."""
    idempotency_key: str | None = None
    """Name of this append: 1 to 256 characters. If you send it again within the topic's `idempotency_window_ms`, the server
    appends nothing and answers the seqs of the first append. You can also send the header `Idempotency-Key`. If both are
    sent, this field wins."""
    idempotency_keys: list[str | None] | None = None
    """A key for each of `records`: 1 to 256 characters, or null for a record without a key. If the topic knows a key within
    `idempotency_window_ms`, the server does not append the record again, and the answer has the record's seq. Not together with
    `idempotency_key`. With the header `Idempotency-Key`, records without a key get one."""
    create: bool = True
    """True: the append creates an absent topic. False: if the topic is absent, the answer is 404."""
    config: Config | None = None
    """The config of a topic that the append creates. Needs the scope `admin`."""
    disable_backpressure: bool = False
    """Accepted, without an effect."""
    expected_head: Seq | None = None
    """The head that the topic must have. If the head differs, the server answers 409 `head_mismatch` and appends nothing. A
    new topic has the last head of its name, which is 0 unless a topic of the name was deleted."""
    return_seqs: bool = True
    """False leaves `seqs` out of the answer, like `return_seqs` of the query."""
    copy: bool = False
    """True: the records come from another server and keep their seqs. The body is then the body of a copy."""

    @property
    def plain(self) -> bool:
        """Whether the append can share a transaction, because no check comes before the write."""
        return not self.keyed and self.expected_head is None

    @property
    def keyed(self) -> bool:
        return self.idempotency_key is not None or self.idempotency_keys is not None

    def check_key(self, key: Key) -> None:
        """Raises Forbidden if the key may not send this `config`."""
        if self.config is not None:
            self.config.check_key(key)


class Rows(NamedTuple):
    """Checked records, column by column. Sizes are in bytes; `bytes` is their sum."""

    data: list[msgspec.Raw]
    tags: list[str | None]
    nodes: list[str | None]
    metas: list[msgspec.Raw]
    sizes: list[int]
    bytes: int

    def behind(self, count: int) -> Rows:
        """Returns these rows without the first `count`."""
        data, tags, nodes, metas, sizes, _ = self
        left = sizes[count:]
        return Rows(data[count:], tags[count:], nodes[count:], metas[count:], left, sum(left))

    def digest(self) -> str:
        """Returns a digest of the records, byte for byte, in PostgreSQL's format of a bytea.

        The digest must not change, because kept keys have it. During an upgrade, processes of two versions compare digests.
        """
        return digest((self.data, self.tags, self.nodes, list(map(unstamped, self.metas))))

    def digests(self) -> list[str]:
        """Returns the digest of each record: the digest() of an append that has only this record."""
        columns = zip(self.data, self.tags, self.nodes, map(unstamped, self.metas), strict=True)
        return [digest([[value] for value in record]) for record in columns]


def digest(columns: Sequence[Sequence[object]]) -> str:
    return f"\\x{blake2b(msgspec.json.encode(columns), digest_size=16).hexdigest()}"


def unstamped(meta: msgspec.Raw) -> msgspec.Raw:
    """Returns the `meta` without the trace in front (traced.py)."""
    if meta is NO_META or (found := STAMPED.match(meta)) is None:
        return meta
    return NO_META if found[1] == b"}" else msgspec.Raw(b"{" + bytes(meta)[found.end() :])


def check_rows(wanted: Append) -> Rows:
    """Returns the records as rows. Raises InvalidRequest, BatchTooLarge, RecordTooLarge or StorageFull if they must not be
    written."""
    disk.check()
    records = wanted.records
    if not records:
        raise InvalidRequest("records is empty: expected at least 1 record")
    if len(records) > MAX_RECORDS:
        message = f"{len(records)} records in one append: expected at most {MAX_RECORDS}"
        raise BatchTooLarge(message, max=MAX_RECORDS)
    check_keys(wanted)
    return columns(wanted.records, wanted.node)


class SentRecord(Protocol):
    """A record as a client sends it."""

    data: msgspec.Raw
    tag: str | None
    node: str | None
    meta: msgspec.Raw


def columns(
    records: Sequence[SentRecord], node: str | None, *, is_copy: bool = False, most_depth: int = MOST_DEPTH
) -> Rows:
    """Checks records and returns them as rows. `node`: the writer of records without a node.

    `is_copy`: another server had the records, so `meta` can have stamps. Raises InvalidRequest or RecordTooLarge.
    """
    if node is not None:
        check_node(node)
    data, tags, nodes, metas, sizes = [], [], [], [], []
    tag = None
    try:
        for record in records:
            if record.tag is not None and record.tag != tag:  # records of one append often have one tag
                check_tag(record.tag)
            tag, meta, size = record.tag, record.meta, len(record.data)
            if record.node is not None and record.node != node:
                check_node(record.node)
            if meta is not NO_META:
                size += meta_size(bytes(meta), is_copy, most_depth)
            data.append(record.data)
            tags.append(tag)
            nodes.append(node if record.node is None else record.node)
            metas.append(meta)
            sizes.append(size)
    except InvalidRequest as error:
        error.detail["index"] = len(data)
        raise
    most = MAX_RECORD_BYTES + (STAMP_BYTES if is_copy else 0)
    largest = max(sizes)
    if largest > most:
        place = next(place for place, size in enumerate(sizes) if size > most)
        message = f"records[{place}] has {sizes[place]} bytes: expected at most {most}"
        raise RecordTooLarge(message, index=place, max=most)
    if largest > SHALLOW_BYTES:
        for place, (each, size) in enumerate(zip(data, sizes, strict=True)):
            if size > SHALLOW_BYTES:
                try:
                    check_depth("the data of a record", bytes(each), most_depth)
                except InvalidRequest as error:
                    error.detail["index"] = place
                    raise
    return Rows(data, tags, nodes, metas, sizes, sum(sizes))


def meta_size(meta: bytes, is_copy: bool, most_depth: int) -> int:
    """Returns the size of a record's meta in bytes, 0 for null. Raises InvalidRequest if it is not a small object."""
    if meta == b"null":
        return 0
    most_bytes, most_keys = settings.TOPICS_MAX_META_BYTES, settings.TOPICS_MAX_META_KEYS
    return check_meta(meta, most_bytes, most_keys, is_copy=is_copy, most_depth=most_depth)

"""Records as a client sends them: the body of an append, the checks, and the columns (docs/wire.md)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from hashlib import blake2b
from typing import NamedTuple, Protocol

import msgspec
from django.conf import settings

from base.bounds import STAMP_BYTES, check_meta
from base.depth import MOST_DEPTH, SHALLOW_BYTES, check_depth
from base.errors import BatchTooLarge, InvalidRequest, RecordTooLarge
from base.labels import check_node, check_tag
from contract.appending import NO_META, AppendFields, NewRecordFields
from store import disk
from topics.append.keys import check_keys
from topics.config import Config
from wire.access.keys import Key
from wire.request.parse import Request

# Read once: looking up a setting takes longer than checking a record by it.
MAX_RECORDS, MAX_RECORD_BYTES = settings.TOPICS_MAX_RECORDS_PER_APPEND, settings.TOPICS_MAX_RECORD_BYTES
STAMPED = re.compile(rb'\{"traceparent":"[0-9a-f-]{55}"([,}])')  # the begin of `meta` with a trace (traced.py)


class NewRecord(NewRecordFields, Request):
    """A record as a client sends it. `data` and `meta` keep exactly the bytes that were sent."""


class Append(AppendFields, Request):
    """The body of an append."""

    records: list[NewRecord]
    config: Config | None = None

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

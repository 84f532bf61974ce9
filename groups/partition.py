"""The share of each record: the CRC-32 of the record's key, modulo the number of shares.

The key of a record is its tag, the part of its tag before a separator, its node, or a value in its `data` (docs/groups.md). A
record without the key has the empty key. PostgreSQL can store `data` that this process cannot decode. Such a record has the empty
key, too, because it must not stop the stream.
"""

from __future__ import annotations

import json
import re
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple

import msgspec

from base.errors import InvalidRequest
from contract.sse import of_lines
from watch.batch import Batch

MAX_CHARACTERS = 256
PREFIX = "tag_prefix:"
STEP = re.compile(r"\.([^.\[\]]+)|\[(\d{1,9})\]")
PATH = re.compile(rf"\$(?:{STEP.pattern})+")
KEPT = 4  # batches whose division is kept for the other members of this process


class KeyFields(msgspec.Struct):
    """The fields of a record that can be its key."""

    seq: int = msgspec.field(name="$seq")
    tag: str | None = msgspec.field(name="$tag", default=None)
    node: str | None = msgspec.field(name="$node", default=None)
    data: msgspec.Raw = msgspec.Raw(b"null")


class Piece(NamedTuple):
    """A record of a batch: its seq and its JSON."""

    seq: int
    text: bytes


Key = Callable[[KeyFields], bytes]
Divided = dict[int, list[Piece]]  # the records of a batch by share, in order


def key_of(partition_by: str) -> Key:
    """Returns the function that computes a record's key. Raises InvalidRequest."""
    if partition_by == "tag":
        return lambda row: (row.tag or "").encode()
    if partition_by == "node":
        return lambda row: (row.node or "").encode()
    if len(partition_by) <= MAX_CHARACTERS:
        if (separator := partition_by.removeprefix(PREFIX)) and separator != partition_by:
            return lambda row: (row.tag or "").partition(separator)[0].encode()
        if PATH.fullmatch(partition_by):
            steps = [int(index) if index else name for name, index in STEP.findall(partition_by)]
            return lambda row: value_at(row.data, steps)
    raise InvalidRequest(
        f"invalid partition_by {partition_by[:80]!r}: expected tag, tag_prefix: and a separator, node, or a path like $.user.id"
    )


def value_at(data: msgspec.Raw, steps: list[int | str]) -> bytes:
    """Returns the value at a path: the text of a string, and the JSON of any other value. Empty if there is no such value."""
    value = data
    try:
        for step in steps:
            if isinstance(step, str):
                value = msgspec.json.decode(value, type=dict[str, msgspec.Raw])[step]
            else:
                value = msgspec.json.decode(value, type=list[msgspec.Raw])[step]
        text = bytes(value).strip()
        if text.startswith(b'"'):
            return msgspec.json.decode(text, type=str).encode()
    except (KeyError, IndexError, ValueError, RecursionError):
        return b""
    return b"" if text == b"null" else text


def rows_of(records: bytes) -> Iterable[tuple[KeyFields, bytes | msgspec.Raw]]:
    """Returns each record with its JSON. `records`: the JSON of several records, joined by commas."""
    text = b"[%b]" % records
    try:
        return zip(
            msgspec.json.decode(text, type=list[KeyFields]),
            msgspec.json.decode(text, type=list[msgspec.Raw]),
            strict=True,
        )
    except msgspec.MsgspecError:
        return undecodable_rows(records.decode())


def undecodable_rows(records: str) -> Iterator[tuple[KeyFields, bytes]]:
    """Yields the same for records with lone surrogates in their `data`, which SQL can write. Their `data` has no key."""
    decoder, at = json.JSONDecoder(parse_int=str, parse_float=str), 0
    while at < len(records):
        record, end = decoder.raw_decode(records, at)
        yield KeyFields(int(record["$seq"]), record.get("$tag"), record.get("$node")), records[at:end].encode()
        at = end + 1


@lru_cache(maxsize=1000)
def partition_of(partition_by: str, partitions: int) -> Partition:
    """Returns the division that all groups with these options share. Raises InvalidRequest."""
    return Partition(partition_by, partitions)


class Partition:
    """How a group divides the records of its topic into shares."""

    def __init__(self, partition_by: str, partitions: int) -> None:
        """Raises InvalidRequest."""
        self.partition_by, self.partitions, self.key = partition_by, partitions, key_of(partition_by)
        self.kept: OrderedDict[int, tuple[Batch, Divided]] = OrderedDict()

    def divide(self, batch: Batch) -> Divided:
        """Returns the records of a batch by share. The members of a group in this process share the result."""
        kept = self.kept.get(id(batch))
        if kept is None:
            # The batch itself is kept, so that no other batch can get its id.
            kept = self.kept[id(batch)] = batch, self.divided(of_lines(b",".join(batch.runs)))
            if len(self.kept) > KEPT:
                self.kept.popitem(last=False)
        return kept[1]

    def divided(self, records: bytes) -> Divided:
        shares: Divided = {}
        for row, piece in rows_of(records):
            shares.setdefault(self.share_of(row), []).append(Piece(row.seq, bytes(piece)))
        return shares

    def share_of(self, row: KeyFields) -> int:
        return zlib.crc32(self.key(row)) % self.partitions

"""Rows of the outbox: emitted records as the relay reads them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from contract.appending import NO_META
from topics.append.records import NewRecord
from topics.append.statements import MOST_RECORDS, array, texts

MOST_BYTES = 16 * 1024 * 1024  # in a transaction of the relay: the relay holds them in memory
MOST_ROWS = MOST_RECORDS  # in a transaction of the relay, as of appends over HTTP
SPACE = " \t\n\r"  # of JSON
CAPTURED = ""  # the key of rows that come from a captured table: packs, and losses. No emitted record can have it


class CaptureLoss(msgspec.Struct):
    """The data of a row for changes that could not be captured: their number, and the reason."""

    lost: int
    reason: str


class Row(NamedTuple):
    """An emitted record. `place`: its id in outbox_emitted, or its place in outbox_waiting."""

    place: int
    ts: int
    size: int
    tag: str | None
    node: str | None
    key: str | None
    data: str
    meta: str | None

    def loss(self, lost: int, reason: str) -> Row:
        """Returns a row for a loss at the place of this row."""
        data = msgspec.json.encode(CaptureLoss(lost, reason)).decode()
        return self._replace(tag=None, key=CAPTURED, data=data, size=len(data), meta=None)

    @property
    def lost(self) -> int:
        """The number of changes that could not be captured. Above 0, the row is no record."""
        return msgspec.json.decode(self.data, type=CaptureLoss).lost if self.key == CAPTURED else 0

    @property
    def reason(self) -> str:
        """Why they could not be captured."""
        return msgspec.json.decode(self.data, type=CaptureLoss).reason

    def record(self) -> NewRecord:
        """Returns the record as over HTTP: without the space around its values, which a json column keeps."""
        meta = NO_META if self.meta is None else msgspec.Raw(self.meta.strip(SPACE).encode())
        return NewRecord(data=msgspec.Raw(self.data.strip(SPACE).encode()), tag=self.tag, node=self.node, meta=meta)


def as_arguments(rows: Sequence[Row]) -> dict[str, str]:
    """Returns the rows as arguments of a statement: JSON arrays, and arrays of PostgreSQL."""
    return {
        "ts": array([row.ts for row in rows]),
        "sizes": array([row.size for row in rows]),
        "tags": texts([row.tag for row in rows]),
        "nodes": texts([row.node for row in rows]),
        "keys": texts([row.key for row in rows]),
        "data": f"[{','.join(row.data for row in rows)}]",
        "metas": f"[{','.join(row.meta or 'null' for row in rows)}]",
    }


def first_of(sizes: Iterable[int]) -> int:
    """Returns how many of the rows with these sizes fit into one transaction, at least one."""
    count = total = 0
    for size in sizes:
        total += size
        if count == MOST_ROWS or (count and total > MOST_BYTES):
            break
        count += 1
    return count

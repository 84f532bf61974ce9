"""Records that this process has just committed, for its readers: they need not ask PostgreSQL for them (docs/concurrency.md)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from contract.appending import NO_META
from topics.append.records import Rows
from topics.cache import CachedTopic


class Written(NamedTuple):
    """Committed records with contiguous seqs after `base`, up to what was the topic's head then.

    `topic`: as it was at the commit, because the statement compares the version. `ts`: the `$ts` of all these records. `started`:
    a moment of the monotonic clock before the commit.
    """

    topic: CachedTopic
    base: int
    rows: list[Rows]
    ts: int
    started: float

    @property
    def records(self) -> int:
        return sum(len(rows.data) for rows in self.rows)

    @property
    def bytes(self) -> int:
        return sum(rows.bytes for rows in self.rows)

    def shown(self, with_tags: bool, with_meta: bool) -> Iterator[str]:
        """Yields each record as JSON, byte for byte as PostgreSQL writes it (sql/functions/record_json.sql)."""
        seq = self.base
        for rows in self.rows:
            for data, tag, node, meta in zip(rows.data, rows.tags, rows.nodes, rows.metas, strict=True):
                seq += 1
                text = f'{{"$seq":{seq},"$ts":{self.ts}'
                if node is not None:
                    text += f',"$node":{quoted(node)}'
                if with_tags and tag is not None:
                    text += f',"$tag":{quoted(tag)}'
                if with_meta and meta != NO_META:
                    text += f',"meta":{bytes(meta).decode()}'
                yield f'{text},"data":{bytes(data).decode()}}}'


def quoted(text: str) -> str:
    return msgspec.json.encode(text).decode()

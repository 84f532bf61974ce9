"""What Spark wrote to a topic, as state that a move takes to another server (topics/state.py).

Without it, a query that continues at the new server would append the records of its last batch again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from store.script import Script, Statement
from topics.audit import as_json
from topics.cache import CachedTopic
from topics.state import Number, StateKind


class WrittenBatch(msgspec.Struct, forbid_unknown_fields=True):
    """The last batch that a writer appended from a partition (pipeline/models.py)."""

    writer: Annotated[str, Meta(max_length=255)]
    partition: Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
    batch: Number
    records: Number
    ts: Number


# A range of the unique index. The order of a row is its writer and its partition, which can be negative.
PAGE = """
SELECT writer || ' ' || partition, json_build_object('writer', writer, 'partition', partition, 'batch', batch, 'records', records,
                                                     'ts', ts)::text
  FROM pipeline_written
 WHERE topic_id = %(topic_id)s
   AND (%(after)s = '' OR (writer, partition) > (regexp_replace(%(after)s, ' [^ ]*$', ''),
                                                 substring(%(after)s from '[^ ]*$')::integer))
 ORDER BY writer, partition LIMIT %(limit)s
"""
SAVE = """
INSERT INTO pipeline_written (topic_id, writer, partition, batch, records, ts)
SELECT %s, writer, partition, batch, records, ts
  FROM json_to_recordset(%s::json) AS new (writer text, partition integer, batch bigint, records bigint, ts bigint)
ON CONFLICT (topic_id, writer, partition) DO UPDATE
   SET batch = excluded.batch, records = excluded.records, ts = excluded.ts
"""


def check(row: WrittenBatch, head_seq: int) -> None:
    """Accepts each row: batches and partitions are of Spark, and not of the topic."""


def save(topic: CachedTopic, rows: Sequence[WrittenBatch]) -> Script[None]:
    yield Statement(SAVE, (topic.id, as_json(rows)))


KIND = StateKind(WrittenBatch, PAGE, check, save, most=10_000, identity=2)

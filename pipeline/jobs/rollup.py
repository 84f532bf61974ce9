"""rollup: counts records by minute, node and tag prefix, and measures the delays of routers, in tables that only grow.

A step aggregates a range of seqs on the executors, and stores the result in Staged. The end of the step adds the staged rows to
the tables and advances the cursor in one transaction. So each record counts once, and a late record is added to its minute.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from base.units import amount
from pipeline.delays import bucket_column
from pipeline.read.extent import Extent, Part, divide
from pipeline.reader import read_parts
from pipeline.runs import reading
from pipeline.runs.work import JobOutcome, Work
from store.script import Script, Statement, run
from topics.read.ranges import SPAN_RECORDS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

STEP = 1_000_000  # seqs
MINUTE_MS = 60_000
STAGED = "pipeline_staged"

TRAFFIC = """
SELECT part.n AS part, log.seq, log.ts, log.node, log.tag,
       (octet_length(log.data::text) + coalesce(octet_length(log.meta::text), 0))::bigint AS bytes
  FROM {parts}
 CROSS JOIN LATERAL topic_log_range({topic}, part.first, part.last) log
"""
# Reads spans by their index. The last router of the path forwarded the record to this topic.
DELAYS = f"""
SELECT part.n AS part, span.path[cardinality(span.path)] AS router, span.ts, span.ts - home.ts AS delay_ms
  FROM {{parts}}
 CROSS JOIN LATERAL topic_spans({{id}}, part.first, part.last) span
 CROSS JOIN LATERAL ({SPAN_RECORDS}) home
 WHERE span.shown
"""
CLEAR = "DELETE FROM pipeline_staged WHERE reading_id = %s"
# If Spark runs a task twice, the same rows are staged twice. DISTINCT removes the copies, because keys are unique within a
# step.
ADD_TRAFFIC = """
INSERT INTO pipeline_rollup AS r (topic_id, minute_ts, node, tag_prefix, records, bytes, first_seq, last_seq)
SELECT DISTINCT %s::bigint, minute_ts, node, tag_prefix, records, bytes, first_seq, last_seq
  FROM pipeline_staged WHERE reading_id = %s AND router IS NULL
ON CONFLICT (topic_id, minute_ts, node, tag_prefix) DO UPDATE
   SET records = r.records + excluded.records, bytes = r.bytes + excluded.bytes,
       first_seq = least(r.first_seq, excluded.first_seq), last_seq = greatest(r.last_seq, excluded.last_seq)
"""
ADD_DELAYS = """
INSERT INTO pipeline_delay AS d (topic_id, router, minute_ts, bucket, records)
SELECT DISTINCT %s::bigint, router, minute_ts, bucket, records
  FROM pipeline_staged WHERE reading_id = %s AND router IS NOT NULL
ON CONFLICT (router, topic_id, minute_ts, bucket) DO UPDATE SET records = d.records + excluded.records
"""


class Rollup(msgspec.Struct, forbid_unknown_fields=True):
    """Options of a run. By default all topics are rolled up."""

    topic: list[str] | str = "*"


def rollup(work: Work, options: Rollup) -> JobOutcome:
    """Rolls up the records since the last run. Raises TopicNotFound or NotReady."""
    topics = work.topics([options.topic] if isinstance(options.topic, str) else options.topic)
    places = zip(topics, run(reading.positions(topics, "rollup")), strict=True)
    due = [(topic, topic.head - max(seq, topic.floor)) for topic, seq in places if topic.head > seq]
    work.begin(sum(new for _, new in due))
    for topic, _ in due:
        roll_up(work, topic)
    return JobOutcome(f"{amount(work.run.read)} records of {amount(sum(new > 0 for _, new in due))} topics rolled up")


def roll_up(work: Work, topic: Extent) -> None:
    with work.turn(f"the rollup of topic {topic.name}") as turn:
        place = run(reading.find(topic.id, "rollup", "rollup"))
        while place.upto is not None or place.seq < topic.head:
            if place.upto is None:
                place = run(reading.plan(place, min(place.seq + STEP, topic.head)))
            run(clear(place.id))
            records, parts = stage(work, topic, place)
            turn.check()
            first, place = place.seq + 1, run(reading.end(place, add(place)))
            work.did(f"{topic.name} {first}..{place.seq} rolled up", records, parts)


def clear(reading_id: int) -> Script[None]:
    """Deletes the staged rows of a killed step."""
    yield Statement(CLEAR, (reading_id,))


def add(place: reading.Place) -> Script[None]:
    yield Statement(ADD_TRAFFIC, (place.topic_id, place.id))
    yield Statement(ADD_DELAYS, (place.topic_id, place.id))
    yield Statement(CLEAR, (place.id,))


def stage(work: Work, topic: Extent, place: reading.Place) -> tuple[int, int]:
    """Aggregates the step's range. Returns (number of records, number of partitions)."""
    assert place.upto is not None
    parts = divide(work.session, topic, place.seq + 1, place.upto, work.parallelism)
    if not parts:
        return 0, 0
    put_aside(work, place, traffic(work, topic, parts))
    if parts[0].first <= topic.holes:
        put_aside(work, place, forwarded(work, topic, parts))
    return sum(part.records for part in parts), len(parts)


def traffic(work: Work, topic: Extent, parts: list[Part]) -> DataFrame:
    from pyspark.sql import functions as f

    read = read_parts(work.spark, work.database, topic, parts, TRAFFIC, fail_on_data_loss=False)
    keys = [
        (f.col("ts") - f.col("ts") % MINUTE_MS).alias("minute_ts"),
        f.coalesce("node", f.lit("")).alias("node"),
        f.coalesce(f.substring_index("tag", ":", 1), f.lit("")).alias("tag_prefix"),
    ]
    sums = [f.count("*").alias("records"), f.sum("bytes").alias("bytes")]
    return read.groupBy(*keys).agg(*sums, f.min("seq").alias("first_seq"), f.max("seq").alias("last_seq"))


def forwarded(work: Work, topic: Extent, parts: list[Part]) -> DataFrame:
    from pyspark.sql import functions as f

    read = read_parts(work.spark, work.database, topic, parts, DELAYS, fail_on_data_loss=False)
    minute = (f.col("ts") - f.col("ts") % MINUTE_MS).alias("minute_ts")
    return read.groupBy("router", minute, bucket_column("delay_ms").alias("bucket")).agg(f.count("*").alias("records"))


def put_aside(work: Work, place: reading.Place, found: DataFrame) -> None:
    from pyspark.sql import functions as f

    options = dict(work.database.jdbc)
    url = options.pop("url")
    found.withColumn("reading_id", f.lit(place.id)).write.jdbc(url, STAGED, mode="append", properties=options)

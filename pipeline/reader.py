"""A topic as a DataFrame, over JDBC: `read_topic(spark, "orders")`.

A read is a clean prefix: its upper bound is looked up once, and all seqs up to it are committed. Each partition is a range of
seqs that PostgreSQL finds by index (topic_log_range), and looks in its own snapshot whether what was planned is still there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from psycopg import sql

from base.errors import InvalidRequest
from pipeline.database import Database, database
from pipeline.extent import Extent, Part, divide, extent, seq_at

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

SAMPLE = 10_000  # records, the last ones, by which a schema is inferred

# What a topic shows, own and forwarded records. json comes as the text that was sent.
LOG = """
SELECT part.n AS part, log.topic::text AS topic, log.seq, log.ts, log.node, log.tag,
       log.meta::text AS meta, log.data::text AS data,
       log.home_topic::text AS home_topic, log.home_topic_id, log.home_seq, cardinality(log.path) AS hops
  FROM {parts}
 CROSS JOIN LATERAL topic_log_range({topic}, part.first, part.last) log
"""
# The ranges of all partitions. The look whether they are still there comes after the choice of one of them, being dearer.
PARTS = """
(SELECT n, first, last FROM (VALUES {rows}) planned (n, first, last) WHERE {check}) part
"""
CHECK = "pipeline_check({topic}, {id}, {floor}, first)"


def read_topic(
    spark: SparkSession,
    topic: str,
    *,
    from_seq: int = 0,
    to_seq: int | None = None,
    from_ts: int | None = None,
    to_ts: int | None = None,
    schema: StructType | str | None = None,
    partitions: int | None = None,
    fetch_size: int | None = None,
    fail_on_data_loss: bool = True,
    dsn: str | None = None,
) -> DataFrame:
    """The records of a topic: above `from_seq` and up to `to_seq`, from `from_ts` and before `to_ts` (ms); up to its head
    as it is now where nothing is said.

    `schema` parses `data`, by a schema of Spark's, its DDL, or "infer", which looks at the last records; without one it is
    the text that was sent. `partitions` (one for each core) hold equally many records, and are
    fetched by the `fetch_size`, which follows the size of the records where it is not given. What goes from the topic between
    now and the read fails it, unless `fail_on_data_loss` is False. `dsn` is DATABASE_URL if not given.
    Raises TopicNotFound, InvalidRequest, or Refusal.
    """
    if partitions is not None and partitions < 1:
        raise InvalidRequest(f"partitions={partitions} is not at least 1")
    where = database(dsn)
    with where.connect() as connection:
        found = extent(connection, topic)
        first, last = from_seq + 1, found.head if to_seq is None else min(to_seq, found.head)
        if from_ts is not None:
            first = max(first, seq_at(connection, found, from_ts))
        if to_ts is not None:
            last = min(last, seq_at(connection, found, to_ts) - 1)
        parts = divide(connection, found, first, last, partitions or spark.sparkContext.defaultParallelism)
    read = read_parts(spark, where, found, parts, LOG, fetch_size=fetch_size, fail_on_data_loss=fail_on_data_loss)
    return read if schema is None else parsed(spark, read, schema, found)


def read_parts(
    spark: SparkSession,
    where: Database,
    topic: Extent,
    parts: Sequence[Part],
    query: str,
    *,
    fetch_size: int | None = None,
    fail_on_data_loss: bool = True,
) -> DataFrame:
    """What a query finds in ranges of a topic, each a partition. It has `{topic}`, `{id}` and `{parts}`, and selects `part`."""
    rows = [(n, part.first, part.last) for n, part in enumerate(parts)] or [(0, 1, 0)]
    values = sql.SQL(", ").join(sql.SQL("({}, {}::bigint, {}::bigint)").format(*map(sql.Literal, row)) for row in rows)
    names = {"topic": sql.Literal(topic.name), "id": sql.Literal(topic.id), "floor": sql.Literal(topic.floor)}
    check = sql.SQL(CHECK).format(**names) if fail_on_data_loss else sql.SQL("true")
    planned = sql.SQL(PARTS).format(rows=values, check=check)
    statement = sql.SQL(query).format(**names, parts=planned).as_string()
    options = {**where.jdbc, "fetchsize": str(fetch_size or min((part.fetch for part in parts), default=1))}
    url = options.pop("url")
    predicates = [f"part = {n}" for n, _, _ in rows]
    return spark.read.jdbc(url, f"({statement}) topic", predicates=predicates, properties=options).drop("part")


def parsed(spark: SparkSession, read: DataFrame, schema: StructType | str, topic: Extent) -> DataFrame:
    """With `data` as what its JSON holds; null where it does not fit the schema."""
    from pyspark.sql import functions as f

    if schema == "infer":
        last = read.where(f.col("seq") > topic.head - SAMPLE).select("data")
        schema = spark.read.json(last.rdd.map(lambda row: row[0])).schema
    return read.withColumn("data", f.from_json("data", schema))

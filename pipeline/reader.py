"""A topic as a DataFrame, over JDBC: `read_topic(spark, "orders")`.

A read is a prefix of the log without gaps: the upper bound is looked up once, and all seqs up to the bound are committed. Each
partition is a range of seqs, which PostgreSQL finds by index (topic_log_range). Each partition checks in its own snapshot that
the planned records still exist.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from psycopg import sql

from base.errors import InvalidRequest
from pipeline.database import Database, database
from pipeline.read.extent import Extent, Part, divide, extent, seq_at
from pipeline.spark.classic import parallelism
from topics.read.ranges import OWN_RECORDS, WHOLE_RECORDS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

SAMPLE = 10_000  # number of last records from which a schema is inferred

# Selects the records that a topic shows, own and forwarded. JSON columns are the text that was sent.
LOG = """
SELECT part.n AS part, log.topic::text AS topic, log.seq, log.ts, log.node, log.tag,
       log.meta::text AS meta, log.data::text AS data,
       log.home_topic::text AS home_topic, log.home_topic_id, log.home_seq, cardinality(log.path) AS hops
  FROM {parts}
 CROSS JOIN LATERAL topic_log_range({topic}, part.first, part.last) log
"""
# The same columns of a topic's own records (topics/read/ranges.py), without a look at spans.
OWN_COLUMNS = """
       {topic}::text AS topic, seq, ts, node, tag, meta::text AS meta, data::text AS data,
       {topic}::text AS home_topic, {id}::bigint AS home_topic_id, seq AS home_seq, 0 AS hops"""
# The own records of one partition. A CASE in the bound of the index costs less than a condition beside it, which each record
# would pass.
OWN_PART = "seq BETWEEN CASE WHEN (SELECT {check}) THEN {first}::bigint END AND {last}"
# The ranges of all partitions. The check for lost records costs more, and so runs after the choice of a partition.
PARTS = """
(SELECT n, first, last FROM (VALUES {rows}) planned (n, first, last) WHERE {check}) part
"""
CHECK = "pipeline_check({topic}, {id}, {floor}, {first})"


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
    """Returns the records of a topic above `from_seq` up to `to_seq`, and from `from_ts` to before `to_ts` (ms).

    By default the read ends at the current head.

    `schema` parses `data`: a Spark schema, its DDL, or "infer", which samples the last 10,000 records. Without `schema`, `data`
    is text. `partitions` (default: the number of cores) have equal numbers of records. `fetch_size` is the number of records
    per fetch; the default depends on the size of the records. If records are lost between this call and the read, the read
    fails, unless `fail_on_data_loss` is False. `dsn` defaults to DATABASE_URL.

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
        parts = divide(connection, found, first, last, partitions or parallelism(spark))
    read = read_log(spark, where, found, parts, fetch_size=fetch_size, fail_on_data_loss=fail_on_data_loss)
    return read if schema is None else parsed(spark, read, schema, found)


def read_log(
    spark: SparkSession,
    where: Database,
    topic: Extent,
    parts: Sequence[Part],
    *,
    fetch_size: int | None = None,
    fail_on_data_loss: bool = True,
) -> DataFrame:
    """Returns the records that a topic shows in these ranges, with a partition for each range."""
    if any(part.first <= topic.holes for part in parts):  # routers write only at or below `holes`
        return read_parts(spark, where, topic, parts, LOG, fetch_size=fetch_size, fail_on_data_loss=fail_on_data_loss)
    query, conditions = own_log(topic, parts, fail_on_data_loss)
    return jdbc(spark, where, query, conditions, parts, fetch_size)


def own_log(topic: Extent, parts: Sequence[Part], fail_on_data_loss: bool) -> tuple[str, list[str]]:
    """Returns the query of a topic's own records, and for each range the condition that selects its records."""
    names = {"topic": sql.Literal(topic.name), "id": sql.Literal(topic.id), "floor": sql.Literal(topic.floor)}
    if not parts:
        parts = [Part(1, 0, 0)]
    records = sql.SQL(OWN_RECORDS if topic.expires else WHOLE_RECORDS).format(
        **names,
        columns=sql.SQL(OWN_COLUMNS).format(**names),
        first=sql.Literal(parts[0].first),
        last=sql.Literal(parts[-1].last),
        conditions=sql.SQL("true"),
    )
    conditions = []
    for part in parts:
        first, last = sql.Literal(part.first), sql.Literal(part.last)
        check = sql.SQL(CHECK).format(**names, first=first) if fail_on_data_loss else sql.SQL("true")
        conditions.append(sql.SQL(OWN_PART).format(check=check, first=first, last=last).as_string())
    return records.as_string(), conditions


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
    """Returns the result of a query, with a partition for each range of a topic.

    The query contains `{topic}`, `{id}` and `{parts}`, and selects `part`.
    """
    conditions = [f"part = {n}" for n in range(max(len(parts), 1))]
    query = statement(topic, parts, query, fail_on_data_loss)
    return jdbc(spark, where, query, conditions, parts, fetch_size).drop("part")


def statement(topic: Extent, parts: Sequence[Part], query: str, fail_on_data_loss: bool) -> str:
    """Returns a query of `read_parts` for these ranges. All values are literals."""
    rows = [(n, part.first, part.last) for n, part in enumerate(parts)] or [(0, 1, 0)]
    values = sql.SQL(", ").join(sql.SQL("({}, {}::bigint, {}::bigint)").format(*map(sql.Literal, row)) for row in rows)
    names = {"topic": sql.Literal(topic.name), "id": sql.Literal(topic.id), "floor": sql.Literal(topic.floor)}
    check = sql.SQL(CHECK).format(**names, first=sql.SQL("first")) if fail_on_data_loss else sql.SQL("true")
    planned = sql.SQL(PARTS).format(rows=values, check=check)
    return sql.SQL(query).format(**names, parts=planned).as_string()


def jdbc(
    spark: SparkSession,
    where: Database,
    query: str,
    conditions: list[str],
    parts: Sequence[Part],
    fetch_size: int | None,
) -> DataFrame:
    """Returns the result of a query, with a partition for each of the conditions."""
    options = {**where.jdbc, "fetchsize": str(fetch_size or min((part.fetch for part in parts), default=1))}
    url = options.pop("url")
    return spark.read.jdbc(url, f"({query}) topic", predicates=conditions, properties=options)


def parsed(spark: SparkSession, read: DataFrame, schema: StructType | str, topic: Extent) -> DataFrame:
    """Parses the JSON in `data`. `data` becomes null if the JSON does not match the schema."""
    from pyspark.sql import functions as f

    if schema == "infer":
        last = read.where(f.col("seq") > topic.head - SAMPLE).select("data")
        schema = spark.read.json(last).schema
    return read.withColumn("data", f.from_json("data", schema))

"""audit: compares the source and the dest of each router, over the records that both still hold.

Both sides are read as readers see them, and are matched by home topic and seq. The check starts at the first source record
that the dest still holds, and ends at the router's cursor. The audit log has the time of the last change of the router's
options. Records after that change are checked against the current options. Older records are checked only by number and order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from django.conf import settings
from django.db.models import Max

from base.errors import RouterNotFound
from base.units import amount
from pipeline.read.extent import Extent, Part, divide
from pipeline.reader import read_parts
from pipeline.runs.work import JobOutcome, Work
from routers.models import Router
from topics.models import AuditEntry
from topics.read.ranges import SPAN_RECORDS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

EXAMPLES = 20  # seqs per kind of problem in a report
BIN = 100_000  # dest seqs in which one task checks the order
KINDS = ("missing", "duplicated", "out_of_order", "altered", "wrong_filter", "miscounted")

# Selects the records that a source shows. A hash replaces data, so that Spark need not transfer the data.
SOURCE = """
SELECT part.n AS part, log.seq AS source_seq, log.node, log.tag, log.meta::text AS meta, cardinality(log.path) AS hops,
       hashtextextended(log.data::text, 0) AS data, log.home_topic_id AS home_id, log.home_seq
  FROM {parts}
 CROSS JOIN LATERAL topic_log_range({topic}, part.first, part.last) log
"""
# Selects the records that routers brought into a dest, including hidden records that are kept as evidence. A row whose length
# changed after the append was altered.
DEST = f"""
SELECT part.n AS part, record.seq AS dest_seq, span.shown, span.ts AS dest_ts, span.path[cardinality(span.path)] AS router,
       record.node AS dest_node, record.tag AS dest_tag, record.meta AS dest_meta,
       hashtextextended(home.data::text, 0) AS dest_data,
       home.size = octet_length(home.data::text) + coalesce(octet_length(home.meta::text), 0) AS whole,
       span.home_id, home.seq AS home_seq
  FROM {{parts}}
 CROSS JOIN LATERAL topic_spans({{id}}, part.first, part.last) span
 CROSS JOIN LATERAL ({SPAN_RECORDS}) home
 CROSS JOIN LATERAL span_record(span, home.seq, home.node, home.tag, home.meta) record
"""
# Selects the difference between the head's count and the number of shown records, in one snapshot.
MISCOUNTED = """
SELECT h.count - e.records
  FROM topic_heads h CROSS JOIN LATERAL topic_extent(h.topic_id, h.floor_seq + 1, h.head_seq, h.holes_seq) e
 WHERE h.topic_id = %s
"""


class Audit(msgspec.Struct, forbid_unknown_fields=True):
    """Options of a run. Without `router`, all routers are audited."""

    router: str | None = None


def audit(work: Work, options: Audit) -> JobOutcome:
    """Audits the routers.

    The outcome is wrong if any router has a problem. Raises RouterNotFound, or NotReady if a topic is deleted during the audit.
    """
    routers = Router.objects.select_related("source", "dest", "cursor").order_by("name")
    chosen = list(routers if options.router is None else routers.filter(name=options.router))
    if options.router is not None and not chosen:
        raise RouterNotFound(f"there is no router {options.router!r}", router=options.router)
    work.begin(sum(router.cursor.seq for router in chosen))
    reports = []
    for router in chosen:
        found = Comparison(work, router).report()
        reports.append(found)
        work.did(f"router {router.name}: {found}", found["compared"])
    wrong = [each["router"] for each in reports if any(each[kind]["count"] for kind in KINDS)]
    told = f"wrong: {', '.join(wrong)}" if wrong else "all as it should be"
    return JobOutcome(f"{amount(len(chosen))} routers audited: {told}", {"routers": reports}, bool(wrong))


class Comparison:
    """One router at one moment. The cursor is read first, so the dest contains all records up to the cursor."""

    def __init__(self, work: Work, router: Router) -> None:
        self.work, self.router = work, router
        router.cursor.refresh_from_db()
        self.source, self.dest = work.topic(router.source.name), work.topic(router.dest.name)
        changed = AuditEntry.objects.filter(kind="router", name=router.name).aggregate(ts=Max("ts"))["ts"]
        self.since_ts = max(router.created_ts, changed or 0)

    def report(self) -> dict[str, Any]:
        from pyspark import StorageLevel
        from pyspark.sql import functions as f

        source = self.read(self.source, SOURCE, self.router.cursor.seq)
        dest = self.read(self.dest, DEST, self.dest.head).persist(StorageLevel.DISK_ONLY)
        brought = dest.where("shown").where(dest.router == self.router.name).where(dest.dest_ts >= self.since_ts)
        matched = brought.join(source, ["home_id", "home_seq"]).persist(StorageLevel.DISK_ONLY)
        try:
            look = {"altered": self.is_altered(), "wrong_filter": ~self.passes("tag")}
            sums = [f.count_if(condition).alias(kind) for kind, condition in look.items()]
            seen: Any = matched.agg(f.count("*").alias("compared"), f.min("source_seq").alias("first"), *sums).first()
            missing, deleted = self.missing(source, dest, matched, seen.first)
            found = {kind: examples(matched.where(look[kind]), "dest_seq", seen[kind]) for kind in look}
            return {
                "router": self.router.name,
                "source": self.router.source.name,
                "dest": self.router.dest.name,
                "compared": seen.compared,
                "deleted_in_dest": deleted,
                "missing": missing,
                "duplicated": examples(duplicated(brought), "dest_seq"),
                "out_of_order": examples(out_of_order(matched), "dest_seq"),
                **found,
                "miscounted": self.miscounted(),
            }
        finally:
            matched.unpersist()
            dest.unpersist()

    def read(self, topic: Extent, query: str, upto: int) -> DataFrame:
        parallel = self.work.parallelism
        with self.work.database.connect() as session:
            parts = divide(session, topic, topic.floor + 1, upto, parallel)
        # A range without shown records can still have hidden records.
        parts = parts or [Part(topic.floor + 1, min(upto, topic.head), 0)]
        return read_parts(self.work.spark, self.work.database, topic, parts, query)

    def passes(self, column: str) -> Column:
        """Returns whether a tag passes the router's filter. A record without a tag passes no filter."""
        from pyspark.sql import functions as f

        if self.router.filter_op is None:
            return f.lit(True)
        tag, wanted = f.coalesce(f.col(column), f.lit("")), f.lit(self.router.filter_tag)
        fits = tag == wanted if self.router.filter_op == "Eq" else tag.startswith(wanted)
        return f.col(column).isNotNull() & fits

    def is_altered(self) -> Column:
        """Returns whether a dest record differs from the record that the router would make from the source record."""
        from pyspark.sql import functions as f

        node = f.col("node") if self.router.preserve_node else f.lit(None)
        tag = f.col("tag") if self.router.preserve_tag else f.lit(None)
        if self.router.guarantee == Router.Guarantee.EXACTLY_ONCE:
            stamped = f.get_json_object("dest_meta", "$._topics_router.source_seq").cast("long")
            meta = stamped.eqNullSafe(f.col("source_seq"))
        else:
            meta = f.col("meta").eqNullSafe(f.col("dest_meta"))
        same = node.eqNullSafe(f.col("dest_node")) & tag.eqNullSafe(f.col("dest_tag")) & meta
        return ~(same & (f.col("data") == f.col("dest_data")) & f.col("whole"))

    def missing(
        self, source: DataFrame, dest: DataFrame, matched: DataFrame, first: int | None
    ) -> tuple[dict[str, Any], int]:
        """Returns (missing records from seq `first` on, number of records that were deleted in the dest).

        A deleted record left evidence, or an empty seq between its neighbours in the dest. The dest's count no longer includes
        the record.
        """
        from pyspark.sql import functions as f

        if first is None:
            return {"count": 0, "examples": []}, 0
        held = dest if self.router.cyclic else dest.where(dest.router == self.router.name)
        due = source.where((f.col("source_seq") >= first) & (f.col("home_id") != self.dest.id)).where(
            self.passes("tag")
        )
        if self.router.cyclic:
            due = due.where(f.col("hops") < settings.TOPICS_MAX_ROUTER_HOPS)
        places = held.groupBy("home_id", "home_seq").agg(f.bool_or("shown").alias("shown"))
        # true: shown; false: deleted in the dest, with evidence; null: the dest has no trace of the record.
        absent = (
            due.join(places, ["home_id", "home_seq"], "left").where("shown IS NOT TRUE").select("source_seq", "shown")
        )
        counted: Any = absent.agg(f.count("*").alias("all"), f.count_if(f.isnull("shown")).alias("unknown")).first()
        left, unknown = absent.where("shown IS NULL").select("source_seq"), counted.unknown
        if unknown and not self.miscounted()["count"]:
            left = self.without_a_hole(left, matched)
            unknown = None
        found = examples(left, "source_seq", unknown)
        return found, counted.all - found["count"]

    def without_a_hole(self, absent: DataFrame, matched: DataFrame) -> DataFrame:
        """Returns the absent records without an empty seq between their neighbours in the dest."""
        from pyspark.sql import Window
        from pyspark.sql import functions as f

        both = matched.select("source_seq", "dest_seq").unionByName(absent, allowMissingColumns=True)
        both = both.withColumn("bin", f.floor(f.col("source_seq") / BIN))
        # Within a bin, a window finds the neighbours. Beyond its ends, the nearest bins with a dest_seq have them.
        order = Window.partitionBy("bin").orderBy("source_seq")
        before = f.last("dest_seq", True).over(order.rowsBetween(Window.unboundedPreceding, 0))
        after = f.first("dest_seq", True).over(order.rowsBetween(0, Window.unboundedFollowing))
        bins = both.where("dest_seq IS NOT NULL").groupBy("bin")
        ends = bins.agg(
            f.min_by("dest_seq", "source_seq").alias("first"), f.max_by("dest_seq", "source_seq").alias("last")
        )
        ends = both.select("bin").distinct().join(ends, "bin", "left")
        by_bin = Window.orderBy("bin")
        ends = ends.select(
            "bin",
            f.last("last", True).over(by_bin.rowsBetween(Window.unboundedPreceding, -1)).alias("earlier"),
            f.first("first", True).over(by_bin.rowsBetween(1, Window.unboundedFollowing)).alias("later"),
        )
        places = both.select("bin", "source_seq", "dest_seq", before.alias("before"), after.alias("after")).where(
            "dest_seq IS NULL"
        )
        places = places.join(f.broadcast(ends), "bin").select(
            "source_seq",
            f.coalesce("before", "earlier", f.lit(self.dest.floor)).alias("before"),
            f.coalesce("after", "later", f.lit(self.dest.head + 1)).alias("after"),
        )
        runs = places.groupBy("before", "after").agg(
            f.count("*").alias("length"), f.collect_list("source_seq").alias("seqs")
        )
        return runs.where("length > after - before - 1").select(f.explode("seqs").alias("source_seq"))

    def miscounted(self) -> dict[str, Any]:
        """Returns by how many records the dest's count differs from its shown records.

        A difference means that records appeared or vanished without the log.
        """
        with self.work.database.connect() as session:
            row = session.execute(MISCOUNTED, [self.dest.id]).fetchone()
        return {"count": abs(int(row[0])) if row else 0, "examples": []}


def duplicated(brought: DataFrame) -> DataFrame:
    """Returns the records that the dest has more than once."""
    from pyspark.sql import functions as f

    again = brought.groupBy("home_id", "home_seq").agg(f.count("*").alias("times"), f.max("dest_seq").alias("dest_seq"))
    return again.where("times > 1")


def out_of_order(matched: DataFrame) -> DataFrame:
    """Returns the records that follow a record with a higher source seq.

    The check runs within bins of the dest, and between bins.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    binned = matched.select("dest_seq", "source_seq", f.floor(f.col("dest_seq") / BIN).alias("bin"))
    before = f.lag("source_seq").over(Window.partitionBy("bin").orderBy("dest_seq"))
    within = binned.withColumn("before", before).where("before > source_seq").select("dest_seq")
    bins = binned.groupBy("bin").agg(
        f.min("source_seq").alias("least"), f.max("source_seq").alias("most"), f.min("dest_seq").alias("dest_seq")
    )
    earlier = f.max("most").over(Window.orderBy("bin").rowsBetween(Window.unboundedPreceding, -1))
    return within.unionByName(bins.withColumn("earlier", earlier).where("earlier > least").select("dest_seq"))


def examples(found: DataFrame, column: str, count: int | None = None) -> dict[str, Any]:
    """Returns the count of `found` and its first values. Counts the rows if `count` is None."""
    count = found.count() if count is None else count
    first = found.select(column).orderBy(column).limit(EXAMPLES).collect() if count else []
    return {"count": count, "examples": [row[0] for row in first]}

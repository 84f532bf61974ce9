"""audit: whether each router brought what it should: compares its source with its dest, over what both still hold.

Both sides are read as their readers see them, and matched by the record they show (its home topic and seq). What a router should
have brought begins with the first record of it that the dest still holds, and ends at its cursor. Since a change of the router's
options, which the audit log knows, its records are judged by what it is now; older ones only by their number and order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from django.conf import settings
from django.db.models import Max

from base.errors import RouterNotFound
from base.units import amount
from pipeline.extent import Extent, Part, divide
from pipeline.reader import read_parts
from pipeline.work import Outcome, Work
from routers.models import Router
from topics.models import AuditEntry

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

EXAMPLES = 20  # seqs that a report names for each kind
BIN = 100_000  # dest seqs whose order is looked at by one task
KINDS = ("missing", "duplicated", "out_of_order", "altered", "wrong_filter", "miscounted")

# What a source shows. The hash stands for data: what is compared need not be sent.
SOURCE = """
SELECT part.n AS part, log.seq AS source_seq, log.node, log.tag, log.meta::text AS meta, cardinality(log.path) AS hops,
       hashtextextended(log.data::text, 0) AS data, log.home_topic_id AS home_id, log.home_seq
  FROM {parts}
 CROSS JOIN LATERAL topic_log_range({topic}, part.first, part.last) log
"""
# What routers brought into a dest, also what is hidden there and kept as evidence. A row that is not as long as when it was
# appended is not what was appended.
DEST = """
SELECT part.n AS part, record.seq AS dest_seq, span.shown, span.ts AS dest_ts, span.path[cardinality(span.path)] AS router,
       record.node AS dest_node, record.tag AS dest_tag, record.meta AS dest_meta,
       hashtextextended(home.data::text, 0) AS dest_data,
       home.size = octet_length(home.data::text) + coalesce(octet_length(home.meta::text), 0) AS whole,
       span.home_id, home.seq AS home_seq
  FROM {parts}
 CROSS JOIN LATERAL topic_spans({id}, part.first, part.last) span
 CROSS JOIN LATERAL (
       SELECT seq, node, tag, meta, data, size FROM topics_record
        WHERE topic_id = span.home_id
          AND seq >= span.home_first_seq + greatest(part.first - span.first_seq, 0)
          AND seq <= span.home_last_seq - greatest(span.last_seq - part.last, 0)
       OFFSET 0) home
 CROSS JOIN LATERAL span_record(span, home.seq, home.node, home.tag, home.meta) record
"""
# What the head says it shows, against what it shows: both of one moment.
MISCOUNTED = """
SELECT h.count - e.records
  FROM topics_topichead h CROSS JOIN LATERAL topic_extent(h.topic_id, h.floor_seq + 1, h.head_seq, h.ragged_seq) e
 WHERE h.topic_id = %s
"""


class Audit(msgspec.Struct, forbid_unknown_fields=True):
    """The options of a run: all routers where none is named."""

    router: str | None = None


def audit(work: Work, options: Audit) -> Outcome:
    """Compare. The outcome is wrong where any router is. Raises RouterNotFound, or NotReady when a topic goes meanwhile."""
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
    return Outcome(f"{amount(len(chosen))} routers audited: {told}", {"routers": reports}, bool(wrong))


class Comparison:
    """One router, as of one moment: its cursor is looked at first, so the dest has everything up to it."""

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
        parallel = self.work.spark.sparkContext.defaultParallelism
        with self.work.database.connect() as session:
            parts = divide(session, topic, topic.floor + 1, upto, parallel)
        # Where nothing is shown something may be hidden.
        parts = parts or [Part(topic.floor + 1, min(upto, topic.head), 0)]
        return read_parts(self.work.spark, self.work.database, topic, parts, query)

    def passes(self, column: str) -> Column:
        """Whether a tag passes the router's filter. A record without a tag passes none."""
        from pyspark.sql import functions as f

        if self.router.filter_op is None:
            return f.lit(True)
        tag, wanted = f.coalesce(f.col(column), f.lit("")), f.lit(self.router.filter_tag)
        fits = tag == wanted if self.router.filter_op == "Eq" else tag.startswith(wanted)
        return f.col(column).isNotNull() & fits

    def is_altered(self) -> Column:
        """Whether a record in the dest differs from what the router makes of the source's."""
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
        """What the router should have brought from seq `first` on and the dest does not hold; and how much was deleted there.

        A deleted record has left evidence, or its seq between its neighbours in the dest, and is no longer in the dest's count.
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
        # true: shown; false: deleted there, with evidence; null: nothing is known of it there.
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
        """Of what is absent that for which there is no empty seq between its neighbours in the dest."""
        from pyspark.sql import Window
        from pyspark.sql import functions as f

        both = matched.select("source_seq", "dest_seq").unionByName(absent, allowMissingColumns=True)
        order = Window.orderBy("source_seq")
        before = f.last("dest_seq", True).over(order.rowsBetween(Window.unboundedPreceding, 0))
        after = f.first("dest_seq", True).over(order.rowsBetween(0, Window.unboundedFollowing))
        places = both.select(
            "source_seq",
            "dest_seq",
            f.coalesce(before, f.lit(self.dest.floor)).alias("before"),
            f.coalesce(after, f.lit(self.dest.head + 1)).alias("after"),
        ).where("dest_seq IS NULL")
        runs = places.groupBy("before", "after").agg(
            f.count("*").alias("length"), f.collect_list("source_seq").alias("seqs")
        )
        return runs.where("length > after - before - 1").select(f.explode("seqs").alias("source_seq"))

    def miscounted(self) -> dict[str, Any]:
        """How far the dest's count is from what it shows: records that vanished, or came, behind the log's back."""
        with self.work.database.connect() as session:
            row = session.execute(MISCOUNTED, [self.dest.id]).fetchone()
        return {"count": abs(int(row[0])) if row else 0, "examples": []}


def duplicated(brought: DataFrame) -> DataFrame:
    """Every record that came again."""
    from pyspark.sql import functions as f

    again = brought.groupBy("home_id", "home_seq").agg(f.count("*").alias("times"), f.max("dest_seq").alias("dest_seq"))
    return again.where("times > 1")


def out_of_order(matched: DataFrame) -> DataFrame:
    """Records that come after one that their source has later: within bins of the dest, and between these."""
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
    """How many, counted unless that is known, and the first of them."""
    count = found.count() if count is None else count
    first = found.select(column).orderBy(column).limit(EXAMPLES).collect() if count else []
    return {"count": count, "examples": [row[0] for row in first]}

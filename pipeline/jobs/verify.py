"""verify: compares an archive with its topic by count and checksum, and, if these differ, record by record.

Records that the topic dropped since the archiving (cap, ttl, trim, deletes) count as deleted, not as wrong. All other
differences are wrong: records that are missing or altered in the archive, and files that differ from their checksum.
"""

from __future__ import annotations

from functools import reduce
from operator import xor
from typing import TYPE_CHECKING, Any

import msgspec

from base.errors import NotFound, NotReady
from base.units import amount
from pipeline.archive.files import Files
from pipeline.archive.segments import Segment, archived, fingerprint, gaps, groups, reads_back, segments, sums
from pipeline.read.extent import Extent, divide
from pipeline.reader import read_log
from pipeline.runs import reading
from pipeline.runs.trouble import spark_trouble
from pipeline.runs.work import JobOutcome, Work
from store.script import run
from topics.models import Topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

EXAMPLES = 20  # seqs that a report lists


class Verify(msgspec.Struct, forbid_unknown_fields=True):
    """Options of a run."""

    topic: str
    archive: str


def verify(work: Work, options: Verify) -> JobOutcome:
    """Compares an archive with its topic. Raises TopicNotFound, NotFound or Refusal."""
    topic = work.topic(options.topic)
    files = work.files(options.archive)
    (reached,) = run(
        reading.positions([topic], reading.reading_name("archive", files.root))
    )  # before a look at the files
    known = [each for each in segments(files, topic.name) if each.topic_id == topic.id]
    if not known:
        raise NotFound(f"{files.root} holds nothing of topic {topic.name!r} as it is now", topic=topic.name)
    found: dict[str, Any] = {"records": 0, "deleted_since": 0, "damaged": [], "missing": [], "altered": []}
    found["missing"] += gaps(known, min(topic.floor, known[0].first - 1), reached)
    work.begin(known[-1].last - known[0].first + 1)
    for group in groups(files, known, found["damaged"]):
        compare(work, files, topic, group, found)
        work.did(f"{topic.name} {group[0].first}..{group[-1].last} compared", sum(each.records for each in group))
    if not Topic.objects.filter(pk=topic.id).exists():
        raise NotReady(f"topic {topic.name!r} was deleted while it was read")
    wrong = any(found[kind] for kind in ("damaged", "missing", "altered"))
    verdict = "differs from" if wrong else "agrees with"
    told = f"{files.root} {verdict} {topic.name}: {amount(found['records'])} records up to seq {known[-1].last}"
    return JobOutcome(told, found, wrong)


def compare(work: Work, files: Files, topic: Extent, group: list[Segment], found: dict[str, Any]) -> None:
    """Adds the differences in these segments to `found`. Segments whose files Spark cannot read are compared with nothing."""
    try:
        compare_once(work, files, topic, group, found)
    except Exception as error:
        if spark_trouble(error) is None:
            raise
        damaged = [each for each in group if not reads_back(work.spark, files, each)]
        if not damaged:
            raise
        found["damaged"] += [each.stem for each in damaged]
        for each in group:
            if each not in damaged:
                compare_once(work, files, topic, [each], found)


def compare_once(work: Work, files: Files, topic: Extent, group: list[Segment], found: dict[str, Any]) -> None:
    """Adds the differences in these segments to `found`. One pass reads both sides, so the database and Spark work at once."""
    from pyspark.sql import functions as f

    held, shown = archived(work.spark, files, group), read(work, topic, group[0].first, group[-1].last)
    both = shown.select("seq", fingerprint().alias("print"), f.lit(False).alias("is_held"))
    both = both.union(held.select("seq", fingerprint().alias("print"), f.lit(True)))
    # Records that a cap, a ttl or an `archive --trim` deletes during the read count as deleted since the archiving.
    is_kept = f.col("is_held") & (f.col("seq") > topic.floor)
    sides = {"held": f.col("is_held"), "kept": is_kept, "shown": ~f.col("is_held")}
    row: Any = both.agg(*(f.struct(*sums(f.col("print"), side)).alias(name) for name, side in sides.items())).first()
    checksum = reduce(xor, (segment.checksum for segment in group), 0)
    if tuple(row.held) != (sum(each.records for each in group), checksum):
        found["damaged"] += [each.stem for each in group if not reads_back(work.spark, files, each)]
    found["records"] += sum(each.records for each in group)
    if row.shown == row.kept:
        return
    ours, theirs = both.where(is_kept).withColumnRenamed("print", "ours"), both.where("NOT is_held")
    pairs = ours.select("seq", "ours").join(theirs.select("seq", f.col("print").alias("theirs")), "seq", "full")
    found["deleted_since"] += pairs.where("theirs IS NULL").count()
    for kind, condition in (("missing", "ours IS NULL"), ("altered", "ours <> theirs")):
        seqs = pairs.where(condition).select("seq").orderBy("seq").limit(EXAMPLES).collect()
        found[kind] += [row.seq for row in seqs]


def read(work: Work, topic: Extent, first: int, last: int) -> DataFrame:
    """Returns the records that the topic shows in first..last."""
    with work.database.connect() as session:
        parts = divide(session, topic, first, last, work.parallelism)
    return read_log(work.spark, work.database, topic, parts, fail_on_data_loss=False)

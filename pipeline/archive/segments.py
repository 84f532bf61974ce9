"""The format of an archive: each segment is a range of a topic's seqs in Parquet files, with a JSON file of its contents.

    topic=orders/day=2026-11-22/17-0000000000000000001-…-0.zstd.parquet      17 is the topic's id; a recreated topic has a new id
    _segments/orders/17-0000000000000000001-0000000000001000000.json         written last: this file makes the segment valid
    _staging/…                                                              files of the current step

Spark and similar tools ignore names that begin with _. So a read of the archive's folder returns only the records.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from base.refusal import Refusal
from pipeline.archive.files import Files
from pipeline.runs.trouble import spark_trouble

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

COLUMNS = "topic_id LONG, seq LONG, ts LONG, node STRING, tag STRING, meta STRING, data STRING"
COLUMNS += ", home_topic STRING, home_topic_id LONG, home_seq LONG, hops INT"
TOGETHER = 1_000_000  # records of small segments that are read together


class Segment(NamedTuple):
    """Seqs first..last of a topic: the records that the topic showed at archiving, with their count and checksum (`sums`)."""

    topic: str
    topic_id: int
    first: int
    last: int
    records: int = 0
    checksum: int = 0
    files: tuple[str, ...] = ()

    @property
    def stem(self) -> str:
        return f"{self.topic_id}-{self.first:019}-{self.last:019}"

    @property
    def path(self) -> str:
        return f"{folder(self.topic)}/{self.stem}.json"


def folder(topic: str) -> str:
    return f"_segments/{topic.replace(':', '%3A')}"


def segments(files: Files, topic: str) -> list[Segment]:
    """Returns a topic's segments, ordered by topic id and seq.

    The method reads only the names of the files, not their content.
    """
    found = []
    for name in files.names(folder(topic)):
        stem, dot, kind = name.partition(".")
        if dot and kind == "json":
            topic_id, first, last = (int(part) for part in stem.split("-"))
            found.append(Segment(topic, topic_id, first, last))
    return sorted(found)


def gaps(known: Iterable[Segment], after: int, upto: int) -> list[str]:
    """Returns the ranges of seqs above `after` up to `upto` that no segment covers. `known`: segments of a topic id, in order.

    A step without records is a segment, too. So a range that no segment covers was never archived here, or its file was lost.
    """
    found = []
    for segment in known:
        if segment.first > after + 1:
            found.append(f"{after + 1}..{segment.first - 1}")
        after = max(after, segment.last)
    return [*found, f"{after + 1}..{upto}"] if after < upto else found


def load(files: Files, segment: Segment) -> Segment:
    """Returns the segment with its count, checksum and files. Raises Refusal if its file is damaged."""
    try:
        kept = files.read_json(segment.path)
        return segment._replace(records=kept["records"], checksum=kept["checksum"], files=tuple(kept["files"]))
    except (ValueError, KeyError, TypeError) as error:
        raise Refusal(
            f"{files.url(segment.path)} cannot be read: the file was changed after the archive run"
        ) from error


def groups(files: Files, wanted: Iterable[Segment], damaged: list[str] | None = None) -> Iterator[list[Segment]]:
    """Yields loaded segments. Small segments that follow each other are grouped.

    Raises Refusal for a damaged file, or adds the stem of its segment to `damaged`.
    """
    group: list[Segment] = []
    for segment in wanted:
        try:
            loaded = load(files, segment)
        except Refusal:
            if damaged is None:
                raise
            damaged.append(segment.stem)
            if group:
                yield group
            group = []
            continue
        group.append(loaded)
        if sum(each.records for each in group) >= TOGETHER:
            yield group
            group = []
    if group:
        yield group


def archived(spark: SparkSession, files: Files, group: list[Segment]) -> DataFrame:
    """Returns the records of some segments."""
    paths = [files.literal(path) for segment in group for path in segment.files]
    return spark.read.schema(COLUMNS).parquet(*paths) if paths else spark.createDataFrame([], COLUMNS)


def fingerprint() -> Column:
    """Returns a hash of a record as sent. Different records hardly ever have equal hashes."""
    from pyspark.sql import functions as f

    # A hash ignores nulls. Without these flags, a tag could be mistaken for a node.
    absent = [f.isnull(name) for name in ("node", "tag", "meta")]
    return f.xxhash64("seq", "ts", *absent, "node", "tag", "meta", "data")


def sums(fingerprints: Column, side: Column | None = None) -> tuple[Column, Column]:
    """Returns columns for the number of records and the XOR of their fingerprints. `side`: a condition on the records.

    The XOR ignores the order. Equal fingerprints would cancel out, but each fingerprint includes the record's own seq.
    """
    from pyspark.sql import functions as f

    side = f.lit(True) if side is None else side
    checksum = f.coalesce(f.bit_xor(f.when(side, fingerprints)), f.lit(0))
    return f.count_if(side).alias("records"), checksum.alias("checksum")


def measured(frame: DataFrame) -> tuple[int, int]:
    """Returns (records, checksum) of a frame."""
    row: Any = frame.agg(*sums(fingerprint())).first()
    return int(row.records), int(row.checksum)


def reads_back(spark: SparkSession, files: Files, segment: Segment) -> bool:
    """Returns whether the files of a segment have the records that were archived. False if Spark cannot read them."""
    try:
        return measured(archived(spark, files, [segment])) == (segment.records, segment.checksum)
    except Exception as error:
        if spark_trouble(error) is None:
            raise
        return False

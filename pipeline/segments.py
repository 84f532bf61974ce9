"""What an archive is made of: segments, each a range of a topic's seqs in Parquet files, with a file that says what is in it.

    topic=orders/day=2026-11-22/17-0000000000000000001-…-0.zstd.parquet      17 is the topic's id: a recreated topic has another
    _segments/orders/17-0000000000000000001-0000000000001000000.json         written last, so a segment is there when this is
    _staging/…                                                              what a step is writing

Names that begin with _ are nothing to Spark and its like: who reads the archive's folder reads the records.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from pipeline.files import Files

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

COLUMNS = "topic_id LONG, seq LONG, ts LONG, node STRING, tag STRING, meta STRING, data STRING"
COLUMNS += ", home_topic STRING, home_topic_id LONG, home_seq LONG, hops INT"
TOGETHER = 1_000_000  # records of small segments that are read in one go


class Segment(NamedTuple):
    """Seqs first..last of a topic, as far as it showed them when they were archived, with their sum (`fingerprint`)."""

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
    """The segments of a topic, by its id and by seq, as their names tell: what is in them is not looked at."""
    found = []
    for name in files.names(folder(topic)):
        stem, dot, kind = name.partition(".")
        if dot and kind == "json":
            topic_id, first, last = (int(part) for part in stem.split("-"))
            found.append(Segment(topic, topic_id, first, last))
    return sorted(found)


def load(files: Files, segment: Segment) -> Segment:
    """A segment with what is in it."""
    kept = files.read_json(segment.path)
    return segment._replace(records=kept["records"], checksum=kept["checksum"], files=tuple(kept["files"]))


def groups(files: Files, wanted: Iterable[Segment]) -> Iterator[list[Segment]]:
    """Loaded segments, small ones together."""
    group: list[Segment] = []
    for segment in wanted:
        group.append(load(files, segment))
        if sum(each.records for each in group) >= TOGETHER:
            yield group
            group = []
    if group:
        yield group


def archived(files: Files, group: list[Segment]) -> DataFrame:
    """The records of some segments."""
    paths = [files.literal(path) for segment in group for path in segment.files]
    reader = files.spark.read.schema(COLUMNS)
    return reader.parquet(*paths) if paths else files.spark.createDataFrame([], COLUMNS)


def fingerprint() -> Column:
    """A number for a record as it was sent: of equal ones the same, and else hardly ever."""
    from pyspark.sql import functions as f

    # A hash passes over nulls: without their places a tag could be taken for a node.
    absent = [f.isnull(name) for name in ("node", "tag", "meta")]
    return f.xxhash64("seq", "ts", *absent, "node", "tag", "meta", "data")


def sums() -> tuple[Column, Column]:
    """How many records, and their fingerprints put together in any order. No record comes twice: its seq is in it."""
    from pyspark.sql import functions as f

    return f.count("*").alias("records"), f.coalesce(f.bit_xor(fingerprint()), f.lit(0)).alias("checksum")


def measured(frame: DataFrame) -> tuple[int, int]:
    """Records and checksum of a frame."""
    row: Any = frame.agg(*sums()).first()
    return int(row.records), int(row.checksum)

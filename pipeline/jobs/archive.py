"""archive: writes new records of topics to Parquet, each record once, and can then trim the topics.

The job can be killed at any time. A step has at most `step` seqs. The database stores the plan of the step. Then the job writes
the files to a staging folder, and moves the files to names that contain the range. A file with the list of the files ends the
step (pipeline/archive/segments.py). Only then the cursor advances.

If a run finds an unfinished step with a list, the run uses the list. Otherwise the run deletes the step's files and repeats the
step.

Why plain Parquet with lists, and no table format (November 2026)? Delta (`deltalake` 1.6) and Iceberg (`pyiceberg` 0.12) took
the same time for a million records, 2.9 to 3.1 s. Plain readers of their folders read records twice after Delta's `optimize`,
or replaced files after an overwrite of Iceberg. This job never replaces a record, so a folder of plain files is right for every
reader. A repeated step is safe because it is planned in the database, which a library would need, too: Delta stores an
application's transaction number, but accepts it again. Iceberg needs a catalog to back up. If archives have to be compacted one
day, Iceberg is the candidate.
"""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec

from base.clock import now_ms
from base.errors import NotReady
from base.refusal import Refusal
from base.units import amount, counted
from pipeline.archive.files import Files, root_of
from pipeline.archive.segments import Segment, fingerprint, gaps, load, reads_back, segments, sums
from pipeline.read.extent import Extent, divide
from pipeline.reader import read_log
from pipeline.runs import reading
from pipeline.runs.work import JobOutcome, Work
from store.script import run
from topics.delete.records import delete_records
from topics.models import Topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

STEP = 1_000_000  # seqs: the most work that a kill repeats, and the range of one PostgreSQL snapshot
# Selects the times of a segment's first and last record. ts never decreases with seq, so all other times are in between.
ENDS = "SELECT topic_next_ts(%s, %s), (SELECT ts FROM topic_log_range(%s, %s, %s))"


class Archive(msgspec.Struct, forbid_unknown_fields=True):
    """Options of a run. A topic that ends in * is a prefix."""

    topic: list[str] | str
    out: str
    trim: bool = False
    step: int = STEP


def archive(work: Work, options: Archive) -> JobOutcome:
    """Archives each topic up to its current head. Raises TopicNotFound, Refusal or NotReady."""
    if options.step < 1:
        raise Refusal(f"step={options.step} is not at least 1.")
    topics = work.topics([options.topic] if isinstance(options.topic, str) else options.topic)
    # If the path tells the archive's name, the cursors tell without Spark and without a look into the folder what is due.
    root = root_of(options.out) or work.files(options.out).root
    positions = run(reading.positions(topics, reading.reading_name("archive", root)))
    due = [
        (topic, seq)
        for topic, seq in zip(topics, positions, strict=True)
        if topic.head > seq or (options.trim and seq > topic.floor)
    ]
    if not due:
        return JobOutcome(f"{counted(len(topics), 'topic')} had nothing new for {options.out}", {"topics": []})
    files = work.files(options.out)
    with work.turn(files.place, shared=True):
        work.begin(sum(max(topic.head - max(seq, topic.floor), 0) for topic, seq in due))
        told = []
        for topic, _ in due:
            job = TopicArchive(work, files, topic, options.step)
            job.write()
            if options.trim:
                job.trim()
            told.append(job.told())
    records = sum(each["records"] for each in told)
    return JobOutcome(
        f"{amount(records)} records of {amount(len(due))} topics archived in {files.root}", {"topics": told}
    )


class TopicArchive:
    """The archiving of one topic."""

    place: reading.Place

    def __init__(self, work: Work, files: Files, topic: Extent, step: int) -> None:
        self.work, self.files, self.topic, self.step = work, files, topic, step
        self.records = self.missed = self.trimmed = 0

    def told(self) -> dict[str, Any]:
        found = {"topic": self.topic.name, "records": self.records, "upto_seq": self.place.seq}
        return found | {"missed": self.missed, "trimmed": self.trimmed}

    def write(self) -> None:
        """Archives step by step, up to the head."""
        with self.work.turn(f"the archive of topic {self.topic.name} in {self.files.place}") as turn:
            # Look up the position now, because the previous holder of the turn may have advanced the cursor.
            root = self.files.root
            self.place = run(reading.find(self.topic.id, reading.reading_name("archive", root), root))
            self.check_before()
            while self.place.upto is not None or self.place.seq < self.topic.head:
                if self.place.upto is None:
                    self.place = run(reading.plan(self.place, min(self.place.seq + self.step, self.topic.head)))
                segment = self.write_step()
                turn.check()
                self.place = run(reading.end(self.place))
                self.records += segment.records
                where = f"{self.topic.name} {segment.first}..{segment.last}"
                self.work.did(f"{where}: {segment.records} records archived", segment.records, segment.records)

    def check_before(self) -> None:
        """Raises Refusal if the archive is ahead of this database: the database is an older copy, or another database."""
        known = [each for each in segments(self.files, self.topic.name) if each.topic_id == self.topic.id]
        reached = max((each.last for each in known), default=0)
        if reached > max(self.place.seq, self.place.upto or 0):
            raise Refusal(
                f"{self.files.root} holds {self.topic.name} up to seq {reached}, and this database knows of {self.place.seq}: "
                "it is not the one that was archived, or an older copy of it. Choose another path."
            )

    def write_step(self) -> Segment:
        """Writes the planned step, or loads the segment if a previous run finished the step."""
        assert self.place.upto is not None
        segment = Segment(self.topic.name, self.topic.id, self.place.seq + 1, self.place.upto)
        if self.files.exists(segment.path):
            return load(self.files, segment)
        left = [f"_staging/{segment.stem}-*", f"topic={self.hive_name}/day=*/{segment.stem}-*"]
        for path in [path for pattern in left for path in self.files.matching(pattern)]:
            self.files.delete(path)
        # Use a unique folder, because the JVM of a killed driver may still write into the old folder.
        staging = f"_staging/{segment.stem}-{uuid.uuid4()}"
        planned, frame, day = self.frame(segment)
        records, checksum = self.write_parquet(frame, day, staging)
        if not Topic.objects.filter(pk=self.topic.id).exists():
            self.files.delete(staging)  # without the topic, missing records cannot be identified
            raise NotReady(f"topic {self.topic.name!r} was deleted while it was read")
        self.missed += planned - records
        segment = segment._replace(records=records, checksum=checksum, files=tuple(self.publish(segment, staging)))
        self.files.write_json(segment.path, segment._asdict() | {"written_ts": now_ms()})
        return segment

    @property
    def hive_name(self) -> str:
        return self.topic.name.replace(":", "%3A")

    def frame(self, segment: Segment) -> tuple[int, DataFrame, str | None]:
        """Returns (number of records in the segment, the records, the day).

        The day is None if the records are of several days. Records can still be evicted before Spark reads them; the report
        counts these records as missed.
        """
        from pyspark.sql import functions as f

        session = self.work.session
        parts = divide(session, self.topic, segment.first, segment.last, self.work.parallelism)
        ends: Any = session.execute(
            ENDS, [self.topic.id, segment.first - 1, self.topic.name, segment.last, segment.last]
        ).fetchone()
        read = read_log(self.work.spark, self.work.database, self.topic, parts, fail_on_data_loss=False)
        names = ["seq", "ts", "node", "tag", "meta", "data", "home_topic", "home_topic_id", "home_seq", "hops"]
        columns = [f.lit(self.topic.id).cast("long").alias("topic_id"), *(f.col(name) for name in names)]
        days = {day_of(ts) for ts in ends}
        return sum(part.records for part in parts), read.select(*columns), days.pop() if len(days) == 1 else None

    def write_parquet(self, frame: DataFrame, day: str | None, path: str) -> tuple[int, int]:
        """Writes files that are each sorted by seq. Returns (records, checksum), computed during the write."""
        from pyspark.sql import Observation
        from pyspark.sql import functions as f

        seen = Observation()
        seen_frame = frame.observe(seen, *sums(fingerprint()))
        if day is not None:
            # One day needs no partitioning by day, which would take 50 % longer.
            one = self.files.url(f"{path}/topic={self.hive_name}/day={day}")
            seen_frame.sortWithinPartitions("seq").write.mode("overwrite").parquet(one)
        else:
            dated = seen_frame.withColumn("day", f.to_date(f.timestamp_millis("ts")))
            dated = dated.withColumn("topic", f.lit(self.topic.name)).sortWithinPartitions("topic", "day", "seq")
            dated.write.mode("overwrite").partitionBy("topic", "day").parquet(self.files.url(path))
        return int(seen.get["records"] or 0), int(seen.get["checksum"] or 0)

    def publish(self, segment: Segment, staging: str) -> list[str]:
        """Moves the staged files to their final paths and returns these paths."""
        placed = []
        for n, path in enumerate(self.files.matching(f"{staging}/topic=*/day=*/*.parquet")):
            folders = path.removeprefix(f"{staging}/").rpartition("/")[0]
            placed.append(f"{folders}/{segment.stem}-{n:04}.zstd.parquet")
            self.files.move(path, placed[-1])
        self.files.delete(staging)
        return placed

    def trim(self) -> None:
        """Deletes archived records from the topic, up to the cursor.

        First, the method reads the archive's files again and compares checksums. Raises Refusal if a file is damaged or gone.
        """
        known = [each for each in segments(self.files, self.topic.name) if each.topic_id == self.topic.id]
        if missing := gaps(known, self.topic.floor, self.place.seq):
            raise Refusal(
                f"{self.files.root} lacks {self.topic.name} {', '.join(missing)}, which was archived there: not trimmed. "
                "Is it mounted? Bring the files back, or archive to another path."
            )
        for segment in known:
            if self.topic.floor < segment.last <= self.place.seq:
                segment = load(self.files, segment)
                if not reads_back(self.work.spark, self.files, segment):
                    raise Refusal(
                        f"{segment.stem} of {self.topic.name} does not read back as it was written: not trimmed."
                    )
        if self.place.seq > self.topic.floor:
            self.trimmed = run(delete_records(self.topic.name, self.place.seq + 1, None, now_ms())).deleted


def day_of(ts: int | None) -> str | None:
    """Returns the UTC day of a time in ms, or None for None."""
    return None if ts is None else f"{datetime.fromtimestamp(ts / 1000, UTC):%Y-%m-%d}"

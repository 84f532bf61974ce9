"""latest: writes the last record of each tag to Parquet, or into a topic, like a table that the log describes.

A run with `out` replaces the previous Parquet folder. A run with `into` appends the tags that changed since the last run, or all
of them if the target was deleted since. A reader of the whole target topic gets the last record of each tag.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import msgspec

from base.clock import now_ms
from base.errors import InvalidRequest
from base.names import check_topic_name
from base.refusal import Refusal
from base.units import amount
from pipeline.archive.files import Files
from pipeline.models import Written
from pipeline.read.extent import Extent
from pipeline.reader import read_topic
from pipeline.runs import reading
from pipeline.runs.turns import Turn
from pipeline.runs.work import JobOutcome, Work
from pipeline.write.repeats import OF_WRITE
from store.script import run
from topics.models import Topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

OURS = "_latest.json"  # marks a folder as written by this job
WRITTEN = (OURS, "_SUCCESS", "part-")  # prefixes of the names in the job's folder
# The number of tasks is constant, so a tag has the same task in each run of a step. A repeated step leaves out the tasks that the
# topic has, also if a cap, a TTL or a delete has taken records since. Another number would need another writeId.
TASKS = 16


class Latest(msgspec.Struct, forbid_unknown_fields=True):
    """Options of a run: exactly one of `out` and `into`."""

    topic: str
    out: str | None = None
    into: str | None = None


def latest(work: Work, options: Latest) -> JobOutcome:
    """Runs the job. Raises TopicNotFound, InvalidRequest or Refusal."""
    if (options.out is None) == (options.into is None):
        raise InvalidRequest("say out, a path, or into, a topic")
    topic = work.topic(options.topic)
    return (
        to_parquet(work, topic, options.out) if options.out is not None else to_topic(work, topic, options.into or "")
    )


def last_of_each(work: Work, topic: Extent, from_seq: int, to_seq: int) -> DataFrame:
    """Returns the last record of each tag in from_seq..to_seq, without records that are deleted during the read."""
    from pyspark.sql import functions as f

    read = read_topic(
        work.spark, topic.name, from_seq=from_seq, to_seq=to_seq, fail_on_data_loss=False, dsn=work.database.dsn
    ).where("tag IS NOT NULL")
    whole = f.struct(*(name for name in read.columns if name != "tag"))
    return read.groupBy("tag").agg(f.max_by(whole, "seq").alias("record")).select("tag", "record.*")


def to_parquet(work: Work, topic: Extent, out: str) -> JobOutcome:
    target = work.files(out)
    with work.turn(target.place) as turn:
        return replace(work, topic, target.root, turn)


def replace(work: Work, topic: Extent, root: str, turn: Turn) -> JobOutcome:
    """Writes a new folder beside the existing folder, then exchanges the two, and deletes the old one."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as f

    parent, _, name = root.rpartition("/")
    files = work.files(parent)
    # The names are unique, because the JVM of a killed driver may still write into its folder.
    new, old = (f"_{name}.{kind}-{uuid.uuid4()}" for kind in ("new", "old"))
    check_ours(files, name)
    work.begin(topic.head - topic.floor)
    tidy(files, name)
    frame = last_of_each(work, topic, topic.floor, topic.head)
    seen = Observation()  # after the session: it is of the session's kind, classic or Connect
    frame.observe(seen, f.count("*").alias("tags")).write.parquet(files.url(new))
    tags = int(seen.get["tags"] or 0)
    files.write_json(f"{new}/{OURS}", {"topic": topic.name, "topic_id": topic.id, "upto_seq": topic.head, "tags": tags})
    turn.check()
    check_ours(files, name)
    if files.exists(name):
        files.move(name, old)
    files.move(new, name)
    files.delete(old)
    work.did(f"{topic.name} up to seq {topic.head} compacted", topic.head - topic.floor, tags)
    return JobOutcome(f"{amount(tags)} tags of {topic.name} in {root}", {"tags": tags, "upto_seq": topic.head})


def tidy(files: Files, name: str) -> None:
    """Deletes the folders of killed runs. If a run was killed between its two moves, the folder gets its name back."""
    for left in files.names(""):
        if left.startswith(f"_{name}.old-") and not files.exists(name):
            files.move(left, name)
        elif left.startswith((f"_{name}.new-", f"_{name}.old-")):
            files.delete(left)


def check_ours(files: Files, name: str) -> None:
    """Raises Refusal if the folder contains other files, because the job will delete the folder."""
    names = files.names(name)
    if names and (OURS not in names or any(not each.startswith(WRITTEN) for each in names)):
        raise Refusal(
            f"{files.url(name)} holds something else: choose a path that is not there yet, or one that this job made."
        )


def to_topic(work: Work, topic: Extent, into: str) -> JobOutcome:
    check_topic_name(into)
    if into == topic.name:
        raise InvalidRequest("a topic is not compacted into itself")
    name = reading.reading_name("latest", into)
    place = run(reading.find(topic.id, name, into))
    work.begin(topic.head - place.seq)
    with work.turn(f"the latest records of {topic.name} in topic {into}") as turn:
        place = run(reading.find(topic.id, name, into))
        is_again = topic.floor < topic.head and is_gone(into, f"latest:{place.id}")
        while is_again or place.upto is not None or place.seq < topic.head:
            if place.upto is None:
                place = run(reading.plan(place, topic.head))
            assert place.upto is not None
            begin = topic.recreated if is_again else place.seq
            frame = last_of_each(work, topic, begin, place.upto).repartition(TASKS, "tag")
            sink = frame.select("data", "tag", "node", "meta").write.format("topics").mode("append")
            sink = sink.option("dsn", work.database.dsn).option("topic", into)
            sink = sink.option("writeId", f"latest:{place.id}").option("stablePartitions", "true")
            sink.option("batch", str(place.upto)).save()
            turn.check()
            wrote = appended(into, f"latest:{place.id}", place.upto)
            read, place, is_again = place.upto - begin, run(reading.end(place)), False
            work.did(f"{topic.name} up to seq {place.seq} compacted into {into}", read, wrote)
    return JobOutcome(f"{topic.name} up to seq {place.seq} is in {into}", {"upto_seq": place.seq, "ts": now_ms()})


def is_gone(into: str, write_id: str) -> bool:
    """Returns whether the topic with the earlier steps was deleted, and no step has ended in a topic of its name since."""
    topics = Topic.objects.filter(name=into).values("id")
    steps = Written.objects.filter(writer=f"write:{write_id}")
    return (
        steps.exclude(topic_id__in=topics).exists()
        and not steps.filter(topic_id__in=topics, partition=OF_WRITE).exists()
    )


def appended(into: str, write_id: str, batch: int) -> int:
    """Returns how many records of a batch the topic has. A batch without records creates no topic."""
    topics = Topic.objects.filter(name=into).values("id")
    kept = Written.objects.filter(topic_id__in=topics, writer=f"write:{write_id}", batch=batch, partition__gte=0)
    return sum(kept.values_list("records", flat=True))

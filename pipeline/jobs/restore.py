"""restore: appends an archived range to a topic, byte for byte and in order. A second run continues after a kill.

Records get new seqs and times. Each chunk is stored together with the progress of the restore (Written), so no record is
appended twice. An archive can be restored into a topic only once.

Releases up to 0.3.0 took records of more levels than an append takes now (base/depth.py). The restore leaves them out, and tells
their seqs.

Appends have one order, so one process reads and appends. Spark is needed only for a file system that this machine lacks.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Sequence

import msgspec

from base.clock import now_ms
from base.depth import MOST_DEPTH
from base.errors import NotFound
from base.names import check_topic_name
from base.refusal import Refusal
from base.units import amount, counted, first
from pipeline.archive.files import Files
from pipeline.archive.segments import Segment, gaps, groups, segments
from pipeline.models import Written
from pipeline.runs.work import JobOutcome, Work
from store.script import run
from topics.cache import topic_called
from topics.config import Config, put_topic

log = logging.getLogger(__name__)
EXAMPLES = 20  # seqs that the line at the end names. The report has all


class Restore(msgspec.Struct, forbid_unknown_fields=True):
    """Options of a run.

    `source` is the topic's name in the archive, by default `topic`. `epoch` is the topic's id in the archive, required if
    several topics had the name.
    """

    archive: str
    topic: str
    source: str | None = None
    epoch: int | None = None
    from_seq: int = 0
    to_seq: int | None = None


def restore(work: Work, options: Restore) -> JobOutcome:
    """Appends the archived records above `from_seq` up to `to_seq`. Raises NotFound, InvalidRequest or Refusal."""
    check_topic_name(options.topic)
    files = work.files(options.archive)
    source = options.source or options.topic
    known = segments(files, source)
    epoch = chosen(files, source, known, options)
    held = [each for each in known if each.topic_id == epoch and each.last > options.from_seq]
    wanted = [each for each in held if options.to_seq is None or each.first <= options.to_seq]
    missing = gaps(wanted, wanted[0].first - 1, wanted[-1].last) if wanted else []
    if missing:
        log.warning("%s: %s", work.run, lacking(files, missing))
    work.begin(
        sum(min(each.last, options.to_seq or each.last) - max(each.first - 1, options.from_seq) for each in wanted)
    )
    written, left_out = 0, list[int]()
    # Two restores at once would mix their records, and break the order of both archives.
    with work.turn(f"the restore into topic {options.topic}"):
        run(put_topic(options.topic, Config(), now_ms()))
        topic_id = run(topic_called(options.topic)).id
        writer = writer_of(topic_id, files, source, epoch, options, is_first=epoch == known[0].topic_id)
        for group in groups(files, wanted):
            if not is_done(topic_id, writer, group, options):
                written += append(work, files, group, options, writer, left_out)
    summary = f"{amount(written)} records of {files.root} restored into {options.topic}"
    if left_out:
        summary += f", and {counted(len(left_out), 'record')} left out, {because(left_out, EXAMPLES)}"
    if missing:
        summary += f". {lacking(files, missing)}"
    return JobOutcome(summary, {"records": written, "left_out": left_out, "missing": missing})


def lacking(files: Files, missing: Sequence[str]) -> str:
    """Returns a sentence about seqs that no segment has, between others."""
    return f"{files.root} lacks the seqs {', '.join(missing)}: they were never archived there, or their files are lost"


def because(left_out: Sequence[int], most: int) -> str:
    """Returns the reason why records are left out, with the first of their seqs."""
    return f"because of more than {MOST_DEPTH} levels: seq {first(left_out, most)}"


def chosen(files: Files, source: str, known: list[Segment], options: Restore) -> int:
    """Returns the topic's id in the archive. `known`: the segments of the archive with the name.

    Raises NotFound, or Refusal if several topics had the name and no epoch is given.
    """
    epochs = sorted({each.topic_id for each in known})
    if not known or (options.epoch is not None and options.epoch not in epochs):
        raise NotFound(f"{files.root} holds nothing of such a topic {source!r}", topic=source)
    if options.epoch is None and len(epochs) > 1:
        ids = ", ".join(map(str, epochs))
        raise Refusal(
            f"{source} was deleted and created again, and the archive has both: choose one with --epoch, from {ids}."
        )
    return epochs[0] if options.epoch is None else options.epoch


def writer_of(topic_id: int, files: Files, source: str, epoch: int, options: Restore, *, is_first: bool) -> str:
    """Returns the writer of this restore, whatever names the path has, and whether the epoch was given.

    Releases up to 0.3.0 took the path and the epoch as they were given. A restore that has begun keeps such a name. One without
    an epoch was of the only topic that the archive had, and later topics have higher ids. `is_first`: the epoch is the lowest id.
    """
    told = [(files.place, epoch), (files.root, epoch), *([(files.root, None)] if is_first else [])]
    names = [f"write:restore:{digest(root, source, given, options)}" for root, given in told]
    begun = set(Written.objects.filter(topic_id=topic_id, writer__in=names).values_list("writer", flat=True))
    return next((name for name in names if name in begun), names[0])


def digest(root: str, source: str, epoch: int | None, options: Restore) -> str:
    """Returns a name that distinguishes this restore from other restores into the same topic."""
    told = repr((root, source, epoch, options.from_seq, options.to_seq))
    return hashlib.sha256(told.encode()).hexdigest()[:16]


def append(work: Work, files: Files, group: list[Segment], options: Restore, writer: str, left_out: list[int]) -> int:
    """Appends the group's selected records. Returns the number of new records, and adds the seqs of others to `left_out`."""
    # The server runs without Arrow.
    from pipeline.archive.archived import records
    from pipeline.write.chunks import Bounds
    from pipeline.write.written import LIMITS, Claim, append_in_order

    def tell(seqs: tuple[int, ...]) -> None:
        work.progress.clear()
        log.warning("%s: left out of %s, %s", work.run, options.topic, because(seqs, len(seqs)))
        left_out.extend(seqs)

    # The batch numbers of a writer must increase. The first seqs of the groups do.
    claim = Claim(options.topic, writer, 0, group[0].first)
    found = records(files, group, options.from_seq, options.to_seq)
    bounds = Bounds.of_environment(is_copy=True)
    with work.database.connect() as connection:
        connection.execute(LIMITS)
        appended = append_in_order(connection, claim, found, bounds, tell)
    work.did(f"{group[0].topic} {group[0].first}..{group[-1].last} restored", sum(s.records for s in group), appended)
    return appended


def is_done(topic_id: int, writer: str, group: list[Segment], options: Restore) -> bool:
    """Whether an earlier run appended all records of the group. Groups are appended in the order of their first seqs."""
    kept = Written.objects.filter(topic_id=topic_id, writer=writer).first()
    if kept is None or kept.batch < group[0].first:
        return False
    whole = options.from_seq < group[0].first and (options.to_seq is None or options.to_seq >= group[-1].last)
    # The archive may have grown since, and with it the last group.
    return kept.batch > group[0].first or (whole and kept.records == sum(each.records for each in group))

"""Appends of emitted records: many topics in one transaction, by the steps of an append over HTTP (topics/append/).

A record that its topic refuses stops its own topic alone. All records before it are appended, the others wait behind it.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from base.errors import NotReady, Outdated, TopicsError
from outbox.losses import Lose
from outbox.rows import Row
from store.codec import Rows as Answer
from store.database import is_locked_out
from store.held import limited
from store.script import Done, Script, Statement, atomically
from topics import sealed
from topics.append.appending import known_topic
from topics.append.doubles import check_numbers
from topics.append.judged import Judged, outcome_of, prepare, verdicts
from topics.append.plain import Write
from topics.append.records import Append, columns
from topics.append.statements import MOST_RECORDS
from topics.cache import CachedTopic, forget_known
from topics.config import insert_topic
from topics.heads import LOCK_FREE_VERSIONS, LOCK_VERSIONS
from topics.hooks import hooks

HELD = "another transaction holds the topic: the relay tries again"
CREATE_MS = 10  # for a topic that another transaction creates. Several such topics are waited for one after the other

Topics = dict[str, CachedTopic | TopicsError]


class RefusedRecords(NamedTuple):
    """Records that wait: the topic refused the first of them with this error."""

    rows: list[Row]
    error: TopicsError


class AppendGroup(NamedTuple):
    """Appends that were written by one statement, and the answers."""

    steps: Sequence[Write]
    answers: list[Answer]
    wrote: float


class Appends(NamedTuple):
    """The outcome of a transaction: the refused records by topic, and the appends."""

    refused: dict[str, RefusedRecords]
    groups: list[AppendGroup]

    def committed(self, started: float) -> None:
        """Wakes the readers of the topics. Called after the commit."""
        now = time.perf_counter()
        for group in self.groups:
            type(group.steps[0]).outcomes(group.steps, Done(group.answers, group.wrote, now), started)


def find(names: Sequence[str], now: int) -> Script[Topics]:
    """Returns the topics with these names, or the error of a topic that is absent and cannot be created now.

    Called before the transaction. Raises NotReady if PostgreSQL is away.
    """
    found: Topics = {}
    for name in names:
        try:
            topic = yield from known_topic(name)
            if topic is None:
                yield from atomically(create(name, now))
                topic = yield from known_topic(name)
            found[name] = topic or NotReady(HELD)  # deleted at this moment
        except NotReady as error:
            if not is_locked_out(error):
                raise
            found[name] = NotReady(HELD)  # another transaction creates it, and its commit may take any time
        except TopicsError as error:
            found[name] = error
    return found


def create(name: str, now: int) -> Script[None]:
    """Creates an absent topic, in the transaction of the caller."""
    yield limited(CREATE_MS)
    yield from insert_topic(name, {}, now)


def append_all(rows: Mapping[str, list[Row]], topics: Topics, now: int, *, waits: bool) -> Script[Appends]:
    """Appends the rows of each topic in their order, in the transaction of the caller.

    `waits`: whether to wait for a head that another transaction holds. Otherwise the rows of its topic are refused. Raises
    NotReady after a wait, and Outdated if a topic has another version. The caller then rolls back, and tries again.
    """
    done = Appends({}, [])
    there = {name: topic for name in rows if isinstance(topic := topics[name], CachedTopic)}
    ids = [topic.id for topic in there.values()]
    held = dict((yield Statement(LOCK_VERSIONS if waits else LOCK_FREE_VERSIONS, (ids,))))
    for topic in there.values():
        if topic.id in held and held[topic.id] != topic.version:
            forget_known(topic)
            raise Outdated("a topic was reconfigured")
    left: dict[str, deque[list[Row]]] = {}
    for name, waiting in rows.items():
        topic = topics[name]
        if isinstance(topic, TopicsError):
            done.refused[name] = RefusedRecords(waiting, topic)
        elif topic.id not in held:
            forget_known(topic)  # perhaps it was deleted
            done.refused[name] = RefusedRecords(waiting, NotReady(HELD))
        else:
            left[name] = deque(runs(waiting, topic))
    while left:
        yield from append_next(left, there, done, now)
    return done


def append_next(
    left: dict[str, deque[list[Row]]], topics: Mapping[str, CachedTopic], done: Appends, now: int
) -> Script[None]:
    """Appends the next run of each topic. A refused run of several records is halved, so the next calls find the refused one."""

    def refuse(name: str, error: TopicsError) -> None:
        run = left[name].popleft()
        if len(run) > 1:
            middle = len(run) // 2
            left[name].extendleft((run[middle:], run[:middle]))
        else:
            done.refused[name] = RefusedRecords([row for other in (run, *left.pop(name)) for row in other], error)

    lanes: dict[tuple[type[Write], str], list[Write]] = {}
    for name in list(left):
        try:
            step = step_of(topics[name], left[name][0], now)
        except TopicsError as error:
            refuse(name, error)
        else:
            lanes.setdefault((type(step), step.lane), []).append(step)
    for (kind, _), steps in lanes.items():
        answers = []
        for statement in kind.transaction(steps).statements:
            answers.append((yield statement))
        group = AppendGroup(steps, answers, time.perf_counter())
        written = []
        for step, outcome in outcomes(group):
            if isinstance(outcome, TopicsError):
                refuse(step.topic.name, outcome)
            elif outcome:  # otherwise the topic has expired records left, and the next call removes more of them
                written.append(step)
                left[step.topic.name].popleft()
                if not left[step.topic.name]:
                    del left[step.topic.name]
        if written:
            done.groups.append(group)


def runs(rows: list[Row], topic: CachedTopic) -> Iterator[list[Row]]:
    """Yields the rows in runs that one append can take. A loss is a run of its own.

    A run has no repeated key, and for a queue with `unique_tags` no repeated tag.
    """
    run: list[Row] = []
    taken: set[tuple[str, str]] = set()
    for row in rows:
        names = {("key", row.key)} if row.key is not None else set()
        if topic.unique_tags and row.tag is not None:
            names.add(("tag", row.tag))
        is_last = run and (row.lost or run[-1].lost or len(run) == MOST_RECORDS)
        if is_last or not taken.isdisjoint(names):
            yield run
            run, taken = [], set()
        run.append(row)
        taken |= names
    yield run


def step_of(topic: CachedTopic, run: list[Row], now: int) -> Write:
    """Returns the append of these records, or the loss. Raises TopicSealed, InvalidRequest or RecordTooLarge, as over HTTP."""
    if run[0].lost:
        if topic.sealed:
            raise sealed.refused(topic.name)
        return Lose(topic, run[0].lost, now)
    records = [row.record() for row in run]
    rows = columns(records, None)
    hooks.value.check_records(topic.name, rows.data)
    if topic.takes_doubles:
        check_numbers(rows)
    keyed = any(row.key is not None for row in run)
    if not keyed and not topic.judges:
        return Write(topic, rows, now)
    wanted = Append(records=records, idempotency_keys=[row.key for row in run] if keyed else None)
    prepare(topic, wanted, rows)
    return Judged(topic, wanted, rows, now)


def outcomes(group: AppendGroup) -> Iterator[tuple[Write, TopicsError | bool]]:
    """Yields each append with the error that refuses it, or with whether it was done."""
    answer = group.answers[group.steps[0].lane == "fsync"]
    if not isinstance(group.steps[0], Judged):
        moved = {topic_id for topic_id, *_ in answer}
        yield from ((step, step.topic.id in moved) for step in group.steps)
        return
    found = {verdict.n: (verdict, records) for verdict, records in verdicts(answer)}
    for n, step in enumerate(group.steps, 1):
        assert isinstance(step, Judged)
        outcome = n in found and outcome_of(*found[n], step.topic, step.wanted, step.rows)
        yield step, outcome if isinstance(outcome, TopicsError) else bool(outcome)

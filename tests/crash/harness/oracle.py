"""The rules that the evidence of a run must obey (docs/guarantees.md). Each check is a function that yields the broken rules.

A topic is `whole` where nobody deletes, evicts or expires: there every seq is shown, or told.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import cached_property
from sys import maxsize
from typing import NamedTuple

import pytest

from tests.crash.harness import (
    bus_oracle,
    captures,
    emit_oracle,
    forwarding,
    queue_oracle,
    site_oracle,
    webhook_oracle,
    webhooks,
)
from tests.crash.harness.evidence import AT_THE_END, Delivered, Evidence, History, Opened, Reached, Seen, Told, short
from tests.crash.harness.topology import BY_TAG, DROP, Topic, written


class Violation(NamedTuple):
    rule: str
    topic: str
    text: str


class Case:
    """The evidence, with the figures that several checks need."""

    def __init__(self, evidence: Evidence) -> None:
        self.evidence, self.topology = evidence, evidence.topology
        self.conflicts: dict[str, list[tuple[int, Seen, Seen]]] = defaultdict(list)

    @cached_property
    def contents(self) -> dict[str, dict[int, Seen]]:
        """The data of each seq of each topic, with its first receiver. Each thing that contradicts it goes to `conflicts`."""
        found: dict[str, dict[int, Seen]] = {name: {} for name in self.topology.topics}
        others = set[tuple[str, int, str]]()
        for topic, seq, data, who, at in self.sayings():
            first = found[topic].get(seq)
            if first is None:
                found[topic][seq] = Seen(data, who, at)
            elif first.data != data and (topic, seq, data) not in others:
                others.add((topic, seq, data))
                self.conflicts[topic].append((seq, first, Seen(data, who, at)))
        return found

    def sayings(self) -> Iterator[tuple[str, int, str, str, float]]:
        """Topic, seq and data of all that anybody was told, with who was told it and when."""
        for ack in self.evidence.acks:
            for seq, data in enumerate(ack.data, ack.first_seq):
                yield ack.topic, seq, data, ack.who, ack.at
        for history in self.evidence.histories:
            for event in history.events:
                if isinstance(event, Delivered):
                    yield history.topic, event.seq, event.data, history.who, event.at
        for log in self.evidence.logs.values():
            for who, records in (("the log", log.records), ("the log by SQL", log.sql_records)):
                for entry in records:
                    yield log.topic, entry.seq, entry.data, who, AT_THE_END

    @cached_property
    def there(self) -> dict[str, dict[int, str]]:
        """The records of each topic's log at the end, by seq."""
        return {name: {entry.seq: entry.data for entry in log.records} for name, log in self.evidence.logs.items()}

    @cached_property
    def trims(self) -> dict[str, list[tuple[float, int]]]:
        """Of each topic, when it was asked for a higher before_seq than ever, and for which."""
        found: dict[str, list[tuple[float, int]]] = defaultdict(list)
        for delete in sorted(self.evidence.deletes):
            asked = found[delete.topic]
            if delete.before_seq is not None and (not asked or delete.before_seq > asked[-1][1]):
                asked.append((delete.at, delete.before_seq))
        return found

    def deleted(self, topic: Topic, seq: int, at: float) -> bool:
        """Whether somebody may have asked by then for this seq to go: what nobody has seen may have had any tag."""
        if not topic.deleted:
            return False
        asked = self.trims[topic.name]
        before = bisect_right(asked, (at, maxsize))
        if before and seq < asked[before - 1][1]:
            return True
        seen = self.contents[topic.name].get(seq)
        return topic.deleted == BY_TAG and (seen is None or written(seen.data).tag == DROP)

    def left_out(self, history: History, seq: int) -> bool:
        """Whether this reader did not want the record of this seq."""
        seen = self.contents[history.topic].get(seq)
        return bool(history.nodes) and seen is not None and written(seen.data).node in history.nodes


def judge(evidence: Evidence) -> list[Violation]:
    """Everything that is broken."""
    case = Case(evidence)
    return [violation for check in CHECKS for violation in check(case)]


@pytest.mark.guarantee("S1")
def troubles(case: Case) -> Iterator[Violation]:
    """Errors that were visible at once: a request without an answer, or a forbidden answer."""
    for trouble in case.evidence.troubles:
        yield Violation("trouble", "", f"{trouble.who} at {trouble.at:.1f} s: {trouble.what}")


@pytest.mark.guarantee("W5")
def one_content(case: Case) -> Iterator[Violation]:
    """No seq is given out twice: acks, deliveries and the log agree about the data of each seq."""
    _ = case.contents
    for topic, conflicts in case.conflicts.items():
        for seq, first, second in conflicts:
            yield Violation("one content", topic, f"seq {seq} is {first}, and is {second}")


@pytest.mark.guarantee("W3")
def acks_survive(case: Case) -> Iterator[Violation]:
    """A record acked with fsync is in the log at its seq. Of other durabilities, nothing above the head was acked."""
    for ack in case.evidence.acks:
        topic, log = case.topology.topics[ack.topic], case.evidence.logs.get(ack.topic)
        if log is None:
            continue
        last_seq = ack.first_seq + len(ack.data) - 1
        if last_seq > log.head_seq:
            what = f"seqs {ack.first_seq}..{last_seq} were acked to {ack.who} at {ack.at:.1f} s, the head is {log.head_seq}"
            yield Violation("acks survive", ack.topic, what)
        if topic.durability != "fsync" or not topic.whole:
            continue
        there = case.there[ack.topic]
        for seq, data in enumerate(ack.data, ack.first_seq):
            if there.get(seq) != data:
                what = f"seq {seq}, acked to {ack.who} at {ack.at:.1f} s as {short(data)}, is {short(there.get(seq))}"
                yield Violation("acks survive", ack.topic, what)


@pytest.mark.guarantee("W6")
def nothing_twice(case: Case) -> Iterator[Violation]:
    """No record is twice in a topic: no retry with a key appends again, no router copies again."""
    for log in case.evidence.logs.values():
        for data, times in Counter(entry.data for entry in log.records).items():
            if times > 1:
                seqs = [entry.seq for entry in log.records if entry.data == data]
                yield Violation("nothing twice", log.topic, f"{short(data)} is at seqs {seqs}")


@pytest.mark.guarantee("W1")
def appends_are_atomic(case: Case) -> Iterator[Violation]:
    """The records of an append are all there, in order and next to each other, or none is."""
    for log in case.evidence.logs.values():
        topic = case.topology.topics[log.topic]
        if not topic.whole:
            continue
        appends: dict[tuple[str, int], list[tuple[int, int, int]]] = defaultdict(list)
        for entry in log.records:
            own = written(entry.data)
            if own.topic == log.topic:
                appends[own.writer, own.number].append((entry.seq, own.place, own.size))
        for (writer, number), found in appends.items():
            first_seq, _, size = found[0]
            if found != [(first_seq + place, place, size) for place in range(size)]:
                what = f"append {number} of writer {writer} is there as {found} (seq, place, size)"
                yield Violation("appends are atomic", log.topic, what)


@pytest.mark.guarantee("R1")
def gaps_are_told(case: Case) -> Iterator[Violation]:
    """A reader that passes a seq was shown it or told of it, unless it was deleted on request or was its own."""
    for history in case.evidence.histories:
        yield from untold(case, history)


def untold(case: Case, history: History) -> Iterator[Violation]:
    topic = case.topology.topics[history.topic]
    position, told = 0, list[Told]()
    for event in history.events:
        if isinstance(event, Opened):
            continue
        if isinstance(event, Told):
            told.append(event)
            position = 0 if event.reason == "recreated" else position
            continue
        missing = range(position + 1, event.seq + isinstance(event, Reached))
        silent = [
            seq
            for seq in missing
            if not any(gap.gap_from <= seq <= gap.gap_to for gap in told)
            and not case.deleted(topic, seq, event.at)
            and not case.left_out(history, seq)
        ]
        if silent:
            where = f"{history.who} went from seq {position} to {event.seq} at {event.at:.1f} s"
            known = case.contents[history.topic].get(silent[0])
            what = f"{where} and was not told of {span(silent)}; {silent[0]} is {known or 'known to nobody'}"
            yield Violation("gaps are told", history.topic, what)
        if event.seq > position:
            position, told = event.seq, []


@pytest.mark.guarantee("W2", "R2")
def order_is_kept(case: Case) -> Iterator[Violation]:
    """Seqs go up for a reader, and the head never goes back. Only who connects anew may be shown something again."""
    for history in case.evidence.histories:
        last_seq = head_seq = 0
        for event in history.events:
            if isinstance(event, Opened) or (isinstance(event, Told) and event.reason == "recreated"):
                last_seq = head_seq = 0
            elif isinstance(event, Delivered):
                if event.seq <= last_seq:
                    what = f"{history.who} was shown seq {event.seq} after {last_seq} at {event.at:.1f} s"
                    yield Violation("order is kept", history.topic, what)
                last_seq = event.seq
            elif isinstance(event, Reached) and event.head_seq is not None:
                if event.head_seq < head_seq:
                    what = f"{history.who} was told of head {event.head_seq} after {head_seq} at {event.at:.1f} s"
                    yield Violation("order is kept", history.topic, what)
                head_seq = event.head_seq


@pytest.mark.guarantee("R1")
def tombstones_are_true(case: Case) -> Iterator[Violation]:
    """A record that a tombstone reports is not in the log, and the topic can have the tombstone's reason.

    A TTL is an exception while clocks step. Records that expired by a clock ahead are live again when the clock goes back."""
    for history in case.evidence.histories:
        topic = case.topology.topics[history.topic]
        there = sorted(case.there.get(history.topic, ()))
        for event in history.events:
            if not isinstance(event, Told):
                continue
            where = f"{history.who} was told {event.reason} {event.gap_from}..{event.gap_to} at {event.at:.1f} s"
            if event.reason not in reasons(case, topic):
                yield Violation("tombstones are true", topic.name, f"{where}, which cannot be here")
            elif not topic.ttl_ms and (
                back := there[bisect_left(there, event.gap_from) : bisect_right(there, event.gap_to)]
            ):
                yield Violation("tombstones are true", topic.name, f"{where}, and the log has {span(back)}")


def reasons(case: Case, topic: Topic) -> set[str]:
    """Why records of a topic may be lost without anybody asking."""
    found = set()
    if topic.cap_records and topic.discard == "old":
        found.add("cap")
    if topic.ttl_ms:
        found.add("ttl")
    if topic.durability != "fsync" or not topic.written:
        found.add("restart")
    routers = case.topology.into(topic.name)
    if any(reasons_upstream(case, router.source, frozenset({topic.name})) for router in routers):
        found.add("source_trim")
    # A watcher that was away is told so, with the cause beside it.
    return found | ({"from_seq_too_old", "mixed"} if found else set())


def reasons_upstream(case: Case, name: str, seen: frozenset[str]) -> bool:
    topic = case.topology.topics[name]
    if topic.durability != "fsync" or not topic.written or topic.cap_records or topic.ttl_ms:
        return True
    into = [router.source for router in case.topology.into(name) if router.source not in seen]
    return any(reasons_upstream(case, source, seen | {name}) for source in into)


@pytest.mark.guarantee("F3")
def own_records_stay_away(case: Case) -> Iterator[Violation]:
    """No reader gets records of its own node."""
    for history in case.evidence.histories:
        for event in history.events:
            if isinstance(event, Delivered) and written(event.data).node in history.nodes:
                what = f"{history.who} was shown its own {short(event.data)} at {event.at:.1f} s"
                yield Violation("own records stay away", history.topic, what)


@pytest.mark.guarantee("R3")
def readers_arrive(case: Case) -> Iterator[Violation]:
    """At the end every reader has come to the head: none is stuck."""
    stuck: dict[str, list[str]] = defaultdict(list)
    for history in case.evidence.histories:
        log = case.evidence.logs.get(history.topic)
        if log is not None and history.position != log.head_seq:
            stuck[history.who].append(
                f"{history.topic}: it stands at seq {history.position}, the head is {log.head_seq}"
            )
    for who, where in stuck.items():
        yield Violation("readers arrive", "", f"{who} is not at the head of {len(where)} topics, such as {where[0]}")


@pytest.mark.guarantee("R4")
def histories_match_the_log(case: Case) -> Iterator[Violation]:
    """What somebody was shown stays in the log where no crash may take it: in `fsync` topics, and wherever a watch was `strong`
    and the records are logged. (That it is the same there is one_content's.)"""
    for history in case.evidence.histories:
        topic = case.topology.topics[history.topic]
        own = topic.written and topic.durability == "fsync"
        strong = history.strong and case.topology.logged(topic.name)
        if not topic.whole or topic.name not in case.there or not (own or strong):
            continue
        there = case.there[topic.name]
        for event in history.events:
            if isinstance(event, Delivered) and event.seq not in there:
                what = f"{history.who} was shown seq {event.seq} at {event.at:.1f} s, and the log does not have it"
                yield Violation("histories match the log", history.topic, what)


@pytest.mark.guarantee("R1")
def losses_are_undone(case: Case) -> Iterator[Violation]:
    """A reader of records that a crash took back was told the first of their seqs (`lost_from`)."""
    for history in case.evidence.histories:
        topic = case.topology.topics[history.topic]
        if not topic.whole or topic.name not in case.there or not case.topology.logged(topic.name):
            continue
        there, held = case.there[topic.name], set[int]()
        for event in history.events:
            if isinstance(event, Delivered):
                held.add(event.seq)
            elif isinstance(event, Told) and event.lost_from is not None:
                held = {seq for seq in held if seq < event.lost_from}
        if untrue := sorted(held - set(there)):
            what = f"{history.who} holds {span(untrue)}, which a crash took, and was not told"
            yield Violation("losses are undone", history.topic, what)


def held_heads_hold_up_no_other_topic(case: Case) -> Iterator[Violation]:
    """While a head is held, the writers of other topics are answered."""
    acks: dict[str, list[float]] = defaultdict(list)
    for ack in case.evidence.acks:
        if case.topology.topics[ack.topic].written in ("plain", "keyed", "fenced"):
            acks[ack.topic].append(ack.at)
    for held in case.evidence.held:
        for topic, times in acks.items():
            if topic != held.topic and not any(held.since < at < held.until for at in times):
                what = f"nothing was acked from {held.since:.1f} to {held.until:.1f} s, while the head of {held.topic} was held"
                yield Violation("held heads hold up no other topic", topic, what)


def the_bus_delivers(case: Case) -> Iterator[Violation]:
    """Each acked event arrives, in order."""
    for what in bus_oracle.faults(case.evidence.bus):
        yield Violation("the bus delivers", "", what)


@pytest.mark.guarantee("S6")
def counters_are_exact(case: Case) -> Iterator[Violation]:
    """A topic's figures match a read of the whole topic, and match SQL."""
    for log in case.evidence.logs.values():
        seqs = [entry.seq for entry in log.records]
        counted = {
            "count": (log.count, len(seqs)),
            "earliest_seq": (log.earliest_seq, min(seqs, default=log.head_seq + 1)),
            "bytes": (log.bytes, log.sql_bytes),
        }
        for name, (said, found) in counted.items():
            if said != found:
                yield Violation("counters are exact", log.topic, f"{name} is {said}, counted {found}")
        if seqs and seqs[-1] > log.head_seq:
            yield Violation("counters are exact", log.topic, f"head_seq is {log.head_seq}, and there is seq {seqs[-1]}")
        by_sql = {entry.seq for entry in log.sql_records}
        if differ := sorted(by_sql ^ set(seqs)):
            yield Violation("counters are exact", log.topic, f"a diff and topic_log differ in {span(differ)}")


def queues_are_exact(case: Case) -> Iterator[Violation]:
    """Each job is done once or still there, whoever was killed."""
    for queue, what in queue_oracle.faults(case.evidence.queues):
        yield Violation("queues are exact", queue, what)


def mirrors_are_exact(case: Case) -> Iterator[Violation]:
    """Each record is once at each site, in the order of its origin."""
    for what in site_oracle.faults(case.evidence.sites):
        yield Violation("mirrors are exact", "", what)


def the_webhook_delivers(case: Case) -> Iterator[Violation]:
    """Each record of its topic arrives, in the order of its tag, or is one dead letter."""
    log = case.there.get(webhooks.TOPIC, {})
    for what in webhook_oracle.faults(case.evidence.hook, log, case.evidence.faults_at):
        yield Violation("the webhook delivers", "", what)


def emits_are_exact(case: Case) -> Iterator[Violation]:
    """Each emitted record is there once if its transaction committed, and otherwise never."""
    logs = {name: [data for _, data in sorted(case.there[name].items())] for name in emitted(case)}
    for topic, what in emit_oracle.faults(case.evidence.emits, logs):
        yield Violation("emits are exact", topic, what)


def captures_are_exact(case: Case) -> Iterator[Violation]:
    """Each committed change of a captured table is there once. A reader who applies all of them in order has the table."""
    captured, log = case.evidence.captured, [item for _, item in case.evidence.captured.log]
    changes, missing = captured.changes, emit_oracle.missing(captured.changes, log)
    if missing and len(missing) <= captured.lost:  # a tombstone tells them, and nobody can tell the rows any more
        changes = [replace(made, emits=[each for each in made.emits if each.data not in missing]) for made in changes]
    for topic, what in emit_oracle.faults(changes, {captures.TOPIC: log}):
        yield Violation("captures are exact", topic, what)
    if not captured.lost and (applied := dict(captured.log)) != captured.rows:
        yield Violation(
            "captures are exact", captures.TOPIC, f"gives the rows {applied}, and the table has {captured.rows}"
        )


def emitted(case: Case) -> list[str]:
    return [
        topic.name for topic in case.topology.topics.values() if topic.written == "emit" and topic.name in case.there
    ]


@pytest.mark.guarantee("S7")
def nothing_is_left_over(case: Case) -> Iterator[Violation]:
    """Records that no topic shows are soon deleted from disk."""
    for leftover in case.evidence.leftovers:
        yield Violation("nothing is left over", "", leftover)


@pytest.mark.guarantee("F1")
def dests_are_exact(case: Case) -> Iterator[Violation]:
    """Each dest holds exactly the records that its routers must forward."""
    for topic, what in forwarding.faults(case.evidence, case.contents):
        yield Violation("dests are exact", topic, what)


CHECKS: list[Callable[[Case], Iterable[Violation]]] = [
    troubles,
    one_content,
    acks_survive,
    nothing_twice,
    appends_are_atomic,
    gaps_are_told,
    order_is_kept,
    tombstones_are_true,
    own_records_stay_away,
    readers_arrive,
    histories_match_the_log,
    losses_are_undone,
    held_heads_hold_up_no_other_topic,
    the_bus_delivers,
    queues_are_exact,
    mirrors_are_exact,
    the_webhook_delivers,
    emits_are_exact,
    captures_are_exact,
    counters_are_exact,
    nothing_is_left_over,
    dests_are_exact,
]


def span(seqs: list[int]) -> str:
    return f"seq {seqs[0]}" if len(seqs) == 1 else f"{len(seqs)} seqs in {seqs[0]}..{seqs[-1]}"

"""The oracle's part about emitted records: once if their transaction committed, otherwise never, and in the promised order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import pytest

from tests.crash.harness.evidence import COMMITTED, UNDONE, Emit, Transaction

NEVER = float("inf")
Logs = Mapping[str, Sequence[str]]  # the data of each topic at the end, in the order of seqs


def faults(transactions: Sequence[Transaction], logs: Logs) -> Iterator[tuple[str, str]]:
    """Everything that is broken: the topic, and a sentence."""
    for check in (each_arrives_once, transactions_are_whole, order_is_kept):
        yield from check(transactions, logs)


@pytest.mark.guarantee("W11")
def each_arrives_once(transactions: Sequence[Transaction], logs: Logs) -> Iterator[tuple[str, str]]:
    """Committed records are there once, records that were rolled back are not, and nothing is there that nobody emitted."""
    emitted = {each.data for made in transactions for each in made.emits}
    found = {topic: Counter(log) for topic, log in logs.items()}
    for topic, counts in found.items():
        for data, count in counts.items():
            if count > 1:
                yield topic, f"{data} is there {count} times"
            if data not in emitted:
                yield topic, f"{data} is there, and nobody has emitted it"
    for made in transactions:
        for each in made.emits:
            is_there = bool(found[each.topic][each.data])
            if made.outcome == COMMITTED and not is_there:
                yield each.topic, f"{each.data} was committed by {made.who} at {made.answered:.1f} s, and is not there"
            if made.outcome == UNDONE and is_there:
                yield each.topic, f"{each.data} was rolled back by {made.who}, and is there"


def missing(transactions: Sequence[Transaction], log: Sequence[str]) -> set[str]:
    """Returns what was committed and is not there."""
    return {each.data for made in transactions if made.outcome == COMMITTED for each in made.emits} - set(log)


@pytest.mark.guarantee("W11")
def transactions_are_whole(transactions: Sequence[Transaction], logs: Logs) -> Iterator[tuple[str, str]]:
    """If the answer to a COMMIT was lost, all of its records are there, or none."""
    there = {data for log in logs.values() for data in log}
    for made in transactions:
        arrived = [each for each in made.emits if each.data in there]
        if arrived and len(arrived) < len(made.emits):
            yield (
                arrived[0].topic,
                f"{len(arrived)} of {len(made.emits)} records of a transaction of {made.who} are there",
            )


@pytest.mark.guarantee("W11")
def order_is_kept(transactions: Sequence[Transaction], logs: Logs) -> Iterator[tuple[str, str]]:
    """The records of a transaction are in the order of calls. What was committed before a record was emitted is before it."""
    origins: dict[str, tuple[Emit, Transaction]] = {
        each.data: (each, made) for made in transactions for each in made.emits
    }
    for topic, log in logs.items():
        earliest, later = NEVER, ""  # of the records behind: the first COMMIT, and one of that transaction
        begun: dict[int, float] = {}  # by transaction: when the first of its records behind was emitted
        for data in reversed(log):
            if data not in origins:
                continue
            each, made = origins[data]
            if earliest < each.at:
                yield (
                    topic,
                    f"{later} is behind {data}, which was emitted at {each.at:.1f} s, after the COMMIT at {earliest:.1f} s",
                )
            if begun.get(id(made), NEVER) < each.at:
                yield topic, f"{data} is not in the order of calls"
            begun[id(made)] = each.at
            if made.answered is not None and made.answered < earliest:
                earliest, later = made.answered, data

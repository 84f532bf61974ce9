"""The oracle's part about webhooks: at least once, in the order of tags, and one dead letter each (docs/webhooks.md)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping

import pytest

from tests.crash.harness.evidence import HookCall, HookEvidence
from tests.crash.harness.webhooks import fails_always

FELT = 30.0  # seconds for which a fault can have an effect


def faults(hook: HookEvidence, log: Mapping[int, str], faults_at: list[float]) -> Iterator[str]:
    """Everything that is broken, a sentence each. `log`: the records of the topic, by seq. `faults_at`: when faults began."""
    good: dict[int, list[HookCall]] = defaultdict(list)
    for call in hook.calls:
        if call.is_good:
            good[call.seq].append(call)
    yield from unknown(hook, log)
    yield from missing(hook, log, good)
    yield from out_of_order(good)
    yield from too_often(good, faults_at)


def unknown(hook: HookEvidence, log: Mapping[int, str]) -> Iterator[str]:
    """The endpoint gets records of the log."""
    for call in hook.calls:
        if log.get(call.seq) != call.data:
            yield f"seq {call.seq} arrived as {call.data!r}, and is {log.get(call.seq)!r}"


@pytest.mark.guarantee("H1")
def missing(hook: HookEvidence, log: Mapping[int, str], good: Mapping[int, list[HookCall]]) -> Iterator[str]:
    """Each record was taken by the endpoint, or is one dead letter, because it fails always."""
    if twice := [seq for seq, count in Counter(hook.dead).items() if count > 1]:
        yield f"{len(twice)} records are several dead letters, first seq {min(twice)}"
    dead = set(hook.dead)
    if wrong := dead ^ {seq for seq in log if fails_always(seq)}:
        yield f"{len(wrong)} records are dead letters and should not be, or should be and are not, first seq {min(wrong)}"
    if lost := log.keys() - good.keys() - dead:
        yield f"{len(lost)} records were never delivered, first seq {min(lost)}"


@pytest.mark.guarantee("H2")
def out_of_order(good: Mapping[int, list[HookCall]]) -> Iterator[str]:
    """Records of a tag are first taken in their order."""
    last: dict[str, int] = {}
    for seq, calls in good.items():  # in the order of the first good call
        tag = calls[0].tag
        if seq < last.get(tag, 0):
            yield f"seq {seq} was first delivered after {last[tag]}, which has the same tag {tag!r}"
        last[tag] = max(seq, last.get(tag, 0))


def too_often(good: Mapping[int, list[HookCall]], faults_at: list[float]) -> Iterator[str]:
    """A record is taken again at most once for each fault."""
    for seq, calls in good.items():
        felt = sum(calls[0].at - FELT <= at <= calls[-1].at for at in faults_at)
        if len(calls) > 1 + felt:
            yield f"seq {seq} was delivered {len(calls)} times, and {felt} faults can be why"

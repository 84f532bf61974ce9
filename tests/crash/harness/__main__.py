"""`make crash`: prints one line per fault, then the findings of the oracle. Ends with 1 when something broke."""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
from collections import Counter, defaultdict
from pathlib import Path
from random import SystemRandom
from typing import NoReturn

from tests.crash.harness.evidence import Delivered, Evidence, Told, now
from tests.crash.harness.oracle import Violation, judge
from tests.crash.harness.run import a_run
from tests.runs import Peak, begin_run

MOST_SHOWN = 20  # violations of one rule in one topic
MOST_SILENT = 600  # seconds without a line, until the harness says where it waits, and ends


def main() -> int:
    parser = argparse.ArgumentParser(prog="make crash", description=__doc__)
    parser.add_argument("--faults", type=int, default=60)
    parser.add_argument("--seed", type=int, help="replays a run (default: another each time)")
    parser.add_argument("--within", type=float, default=20, help="seconds to heal, and a slower healing is a warning")
    arguments = parser.parse_args()
    seed = SystemRandom().randrange(10**6) if arguments.seed is None else arguments.seed
    signal.signal(signal.SIGALRM, hung)
    say(f"{arguments.faults} faults, SEED={seed}")

    logs = Path(tempfile.gettempdir()) / f"topics-crash-{seed}-logs"
    shutil.rmtree(logs, ignore_errors=True)
    peak = Peak()
    begin_run("crash")
    with a_run(seed, arguments.within, say, logs) as run:
        violations = judge(run.go(arguments.faults))
        if violations:
            run.keep_logs(logs)
    print(summary(run.evidence))
    print(f"The run had {peak}.")
    for each in run.evidence.slow:
        print(f"SLOW: {each}")
    print(report(violations))
    if violations:
        print(f"BROKEN: {len(violations)} violations. SEED={seed} FAULTS={arguments.faults} replays it; logs in {logs}")
    else:
        print(f"Nothing broke. SEED={seed}, {now():.0f} s")
    return 1 if violations else 0


def say(line: str) -> None:
    print(line, flush=True)
    signal.alarm(MOST_SILENT)


def hung(*_: object) -> NoReturn:
    raise RuntimeError(f"The harness has printed nothing for {MOST_SILENT} s. It waits where this traceback ends.")


def summary(evidence: Evidence) -> str:
    acks = Counter(evidence.topology.topics[ack.topic].durability for ack in evidence.acks)
    events = Counter(type(event) for history in evidence.histories for event in history.events)
    records = sum(len(log.records) for log in evidence.logs.values())
    appends = ", ".join(f"{count} {durability}" for durability, count in acks.items())
    read = f"{events[Delivered]} deliveries and {events[Told]} tombstones to {len(evidence.histories)} histories"
    events_acked = sum(event.acked is not None for event in evidence.bus.published)
    batches = sum(map(len, evidence.bus.batches.values()))
    pushed = f"{events_acked} acked events of the bus in {batches} batches"
    acked = sum(
        len(each.seqs)
        for queue in evidence.queues.values()
        for each in queue.asked
        if each.answered and each.name == "ack"
    )
    jobs = f"{acked} acked jobs and {sum(len(queue.dead) for queue in evidence.queues.values())} dead letters"
    mirrored = f"{sum(map(len, evidence.sites.acked.values()))} acked records of two sites"
    calls = evidence.hook.calls
    good = sum(call.is_good for call in calls)
    hooked = f"{len(calls)} calls of the webhook, {good} of them good, {len(evidence.hook.dead)} dead letters"
    through = sum(ack.who in evidence.through_gateway for ack in evidence.acks)
    appends = f"{appends} ({through} of them through the gateway)"
    ends = Counter(made.outcome for made in evidence.emits for _ in made.emits)
    emitted = f"emitted records: {', '.join(f'{count} {outcome}' for outcome, count in ends.items())}"
    changes = f"{len(evidence.captured.log)} captured changes"
    others = f"{pushed}; {hooked}; {jobs}; {mirrored}; {emitted}; {changes}"
    return f"acked appends: {appends}; {read}; {others}; {records} records in {len(evidence.logs)} topics at the end"


def report(violations: list[Violation]) -> str:
    groups: dict[tuple[str, str], list[str]] = defaultdict(list)
    for violation in violations:
        groups[violation.rule, violation.topic].append(violation.text)
    lines = []
    for (rule, topic), texts in groups.items():
        lines += [
            f"{rule}{': ' if topic else ''}{topic} ({len(texts)})",
            *(f"    {text}" for text in texts[:MOST_SHOWN]),
        ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())

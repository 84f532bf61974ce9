"""Which faults come in which order, for how long, and which of them do not wait until the last is healed.

All of it is drawn from the seed before the run begins, so that the same seed and number of faults give the same plan.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from tests.crash.harness.faults import FAULTS, Fault

OVERLAPPING = 0.75  # of all faults: the next one begins before it is healed
OVERLAP = 1.2  # seconds until then, at most
APART = 5  # faults between two of the same victim


@dataclass(frozen=True)
class Step:
    """`pick`: the seed of what chance decides inside the fault. `overlaps`: seconds until the next fault, healed or not."""

    fault: Fault
    hold: float
    pick: int
    overlaps: float | None
    calm: float  # seconds between its healing and the next fault


def plan(seed: int, count: int, left_out: set[str]) -> list[Step]:
    """`left_out`: what of `Fault.needs` this machine does not have. Every fault comes once before any comes again."""
    draw = random.Random(seed)
    faults = [fault for fault in FAULTS if fault.needs not in left_out]
    waiting = draw.sample(faults, len(faults))
    steps: list[Step] = []
    while len(steps) < count:
        recent = {step.fault.victim for step in steps[-APART:]}
        fault = next((fault for fault in waiting if fault.victim not in recent), None)
        if fault is not None:
            waiting.remove(fault)
        else:
            others = [fault for fault in faults if fault.victim not in recent]
            fault = draw.choices(others, [fault.weight for fault in others])[0]
        hold = draw.uniform(*fault.hold)
        overlaps = draw.uniform(0, OVERLAP) if draw.random() < OVERLAPPING else None
        steps.append(Step(fault, hold, draw.getrandbits(32), overlaps, draw.uniform(0.1, 0.5)))
    return steps

"""The rule by which a process of a gateway may send writes to one of two servers (docs/gateway.md, FailoverRouter).

This file has no clock, no network and no disk, so that a test can run the rule with simulated clocks. All times are seconds of
the clock of one process. No time is ever compared with another machine's clock.

Why two servers never acknowledge at once: a process uses a lease that it counts from before it asked the witness. So the lease
ends at most `lease_ms` after the witness was still without the next decision. A process that reads the next decision counts
its wait from after the answer, so from a later moment, and waits at least as long. By then the lease has ended. A process
waits as well when it has just started, and when its own lease had ended. So it sends writes only after it has seen one
live route for a whole lease.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from base.errors import NotReady

# A lease ends this much earlier, and a wait for its end is not shortened. So the clocks of two machines may run at rates that
# differ by 5 %. Real clocks differ by less than 0.1 %.
MARGIN = 0.05
NEVER = float("-inf")  # a time before all times


class Decided(msgspec.Struct):
    """The data of a record of the decision topic.

    A record without `lease_ms` is an operator's wish. A gateway repeats it with a lease, and only then does it count.
    """

    live: str
    lease_ms: int | None = None


class DecisionRecord(NamedTuple):
    """A record of the decision topic. `ts` only identifies the record, and is compared with no clock."""

    seq: int
    ts: int
    decided: Decided

    @property
    def lease(self) -> float:
        return (self.decided.lease_ms or 0) / 1000

    @classmethod
    def of(cls, shown: dict[str, Any]) -> DecisionRecord:
        """Raises NotReady if the record is no decision."""
        try:
            return cls(shown["$seq"], shown["$ts"], msgspec.convert(shown["data"], Decided))
        except msgspec.ValidationError as error:
            raise NotReady(f"record {shown['$seq']} of the decision topic is not a decision: {error}") from error


class Proposal(NamedTuple):
    """A decision that must be appended at this head of the decision topic."""

    head: int
    decided: Decided


class WriteLease:
    """What one process knows of the decision, and until when it may send writes to the live route.

    `own_ms`: the configured lease. A decision that this process writes has at least this lease.
    """

    def __init__(self, live: str, spare: str, own_ms: int) -> None:
        self.routes, self.own_ms = (live, spare), own_ms
        self.live = live
        self.known: DecisionRecord | None = (
            None  # the last decision that this process has seen, also if the witness loses it
        )
        self.writes_from = NEVER  # this process sends writes only from then on
        self.valid_until = NEVER  # and only until then

    def allows(self, now: float) -> bool:
        return self.writes_from <= now < self.valid_until

    def see(self, tail: Sequence[DecisionRecord], head: int, asked: float, answered: float) -> Proposal | None:
        """Takes the last records of the decision topic, as the witness showed them. Returns a decision to append, or None.

        `asked` and `answered`: the times before the request and after its answer. This process sends no writes until the
        proposal is appended. Raises NotReady if an operator must decide.
        """
        # Without a lease this process could have missed a decision that a restored backup of the witness does not have.
        has_lapsed, self.valid_until = answered >= self.valid_until, NEVER
        if not tail:
            if head:
                raise NotReady("the last decision was deleted: append a decision")
            return Proposal(0, Decided(self.live, self.longest(tail)))
        last = tail[-1]
        if last.decided.live not in self.routes:
            raise NotReady(f"the decision names {last.decided.live!r}: expected one of the two routes")
        if self.is_lost(tail, head) and last.decided.live != self.live:
            return Proposal(head, Decided(self.live, self.longest(tail)))
        if last.decided.lease_ms is None or last.decided.lease_ms < self.longest_standing(tail):
            return Proposal(head, Decided(last.decided.live, self.longest(tail)))
        if has_lapsed or not self.is_continued(tail):
            # The lost decision may have had a longer lease than the decision in the backup.
            self.writes_from = answered + max(last.lease, self.longest(tail) / 1000)
        self.known, self.live = last, last.decided.live
        self.valid_until = asked + last.lease * (1 - MARGIN)
        return None

    def longest_standing(self, tail: Sequence[DecisionRecord]) -> int:
        """Returns the longest lease that any process may still use, as far as this process knows."""
        known = [self.known] if self.known is not None else []
        return max((each.decided.lease_ms or 0 for each in (*tail, *known)), default=0)

    def longest(self, tail: Sequence[DecisionRecord]) -> int:
        return max(self.own_ms, self.longest_standing(tail))

    def is_lost(self, tail: Sequence[DecisionRecord], head: int) -> bool:
        """Returns whether the witness no longer has the decision that this process has seen: its head went back, or another
        record has the decision's seq. A new data folder or a restored backup does this."""
        known = self.known
        return known is not None and (head < known.seq or any(each.seq == known.seq and each != known for each in tail))

    def is_continued(self, tail: Sequence[DecisionRecord]) -> bool:
        """Returns whether all decisions since the known one name the same route, so that no other route was live in between."""
        if self.known is None or self.known not in tail:
            return False
        return all(each.decided.live == self.live for each in tail if each.seq >= self.known.seq)

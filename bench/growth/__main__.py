"""`make bench-growth`: fills a store in steps, and counts the reads of each operation at 1 %, at 10 % and at all of it.

An operation may grow with the logarithm of the store, as a look-up in an index does. If it reads more at all of the store than
the logarithm allows over 10 %, it is MISSED. `--small` is for tests: it also tells the statements that no operation executes.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Any

from bench import report
from bench.growth import plot, statements
from bench.growth.calls import ROOT, Client, Operation, operations
from bench.growth.reasons import reason_of, unknown
from bench.growth.site import Counts, Site, site
from bench.growth.store import SMALL, Size, Store
from tests.instances import ROOT as REPOSITORY
from tests.runs import begin_run

SHARES = (0.01, 0.1, 1.0)
# Calls whose least counts are taken, because the first ones after a step or an autovacuum read PostgreSQL's catalog and dead
# entries of indexes, too. An operation that seems to grow is called again, and one that takes seconds is called once.
TIMES, MOST_TIMES, LONG_SECONDS = 3, 6, 3
DOCUMENT = REPOSITORY / "bench" / "GROWTH.md"
PICTURE = REPOSITORY / "docs" / "images" / "growth.svg"
ABOUT = (
    "The reads of each operation, in a store that grows: buffers of 8 kB, and in brackets rows of sequential scans and entries "
    "of indexes. MISSED: in the last step it grew more than the logarithm of the store."
)
# Differences up to these are no growth. An index can have a page more, a vacuum can be due, and PostgreSQL reads a table of some
# pages as a whole.
SLACK = Counts(buffers=25, rows=500)
# An operation with a reason may grow as the store does, times this: an index of ten times as many rows can have a level more.
LINEAR = 1.2


@dataclass
class Grown:
    """An operation, and its counts at each of `steps` sizes. `failed`: the first error."""

    operation: str
    steps: int
    counts: list[Counts] = field(default_factory=list)
    failed: str = ""

    @property
    def whole(self) -> str:
        """Returns why it may read the whole store, or an empty string."""
        return reason_of(self.operation)

    def missed(self, size: Size) -> bool:
        """Returns whether it grew more than the logarithm of the store from the sizes before to the last size."""
        if len(self.counts) < self.steps or self.failed:
            return bool(self.failed)
        # By the number of topics, because most indexes have an entry for each topic.
        factor = math.log(size.topics) / math.log(size.topics * SHARES[-2])
        factor *= LINEAR / SHARES[-2] if self.whole else 1
        most = map(max, *self.counts[:-1]) if self.steps > 2 else self.counts[0]
        return any(b > a * factor + slack for a, b, slack in zip(most, self.counts[-1], SLACK, strict=True))

    def line(self, size: Size) -> str:
        cells = [self.operation, *(f"{each.buffers:,} ({each.rows:,})" for each in self.counts)]
        if len(self.counts) < self.steps and not self.failed:
            return "| " + " | ".join(cells)
        verdict = f"MISSED: {self.failed}" if self.failed else "MISSED" if self.missed(size) else self.whole
        return "| " + " | ".join([*cells, verdict]) + " |"


def every(of: Site, client: Client, cookie: str, size: Size, copied: bool) -> Iterator[Operation]:
    from bench.growth import parts, rest

    yield from rest.background(of)  # first, because the others leave work behind
    yield from operations(client, size)
    yield from rest.console(client, cookie)
    yield from rest.commands(client, of.data)
    yield from parts.parts(of, client, size)
    yield from rest.care(of, client)
    if copied:
        yield from rest.copies(of)


def measure(of: Site, operation: Operation, names: Iterator[str]) -> Counts:
    """Returns the counts of a call."""
    name = next(names)
    operation.before(name)
    before = of.counts()
    operation.work(name)
    return of.since(before)


def least(a: Counts, b: Counts) -> Counts:
    return Counts(*map(min, a, b))


def run(given: argparse.Namespace) -> tuple[list[Grown], list[str], set[str]]:
    """Measures, and tells its progress. Returns all operations, sentences about the store, and (small) all statements."""
    size = size_of(given)
    grown: dict[str, Grown] = {}
    names = (f"n{n}" for n in range(10**9))
    shares, executed = shares_of(given), set[str]()
    with site(ROUTEMASTER_ROOT_KEY=ROOT, PUSH_CALLBACK_LOOPBACK_HTTP="1") as of:
        from bench.growth import rest

        if given.small:
            statements.record(executed)
        store, client, cookie = Store(of.database, given.bytes), Client(of.port), rest.cookie()
        for share in shares:
            began = time.monotonic()
            store.fill(size.part(share))
            rest.settle(of)
            of.settle()
            say(f"filled to {share:.0%} in {time.monotonic() - began:.0f} s: {store.size}")
            began = time.monotonic()
            for operation in every(of, client, cookie, store.size, given.copies):
                if given.only and given.only not in operation.name:
                    continue
                row = grown.setdefault(operation.name, Grown(operation.name, len(shares)))
                at = time.monotonic()
                try:
                    row.counts.append(measure(of, operation, names))
                    for times in range(1, MOST_TIMES):
                        if time.monotonic() - at > LONG_SECONDS or (times >= TIMES and not row.missed(size)):
                            break
                        row.counts[-1] = least(row.counts[-1], measure(of, operation, names))
                except Exception as error:
                    row.failed = row.failed or f"{type(error).__name__}: {str(error)[:300]}".replace("\n", " ")
                    row.counts.append(Counts(0, 0))
                if given.verbose:
                    say(f"{row.line(size)} {time.monotonic() - at:.1f} s")
            say(f"measured in {time.monotonic() - began:.0f} s")
        where = report.machine(os.environ["DATABASE_URL"])
        notes = [f"Printed by `make bench-growth` on {date.today()}: {where}.", f"{size}: {footprint(of, store)}."]
        say(notes[-1])
    return list(grown.values()), notes, executed


def shares_of(given: argparse.Namespace) -> tuple[float, ...]:
    return SHARES[1:] if given.small else SHARES


def size_of(given: argparse.Namespace) -> Size:
    if given.small:
        return SMALL
    return replace(Size(), records=given.records, jobs=max(SMALL.jobs, given.records // 50))


def footprint(of: Site, store: Store) -> str:
    """Returns the bytes on disk of the records."""
    total, indexes = of.one(
        "SELECT pg_total_relation_size('topics_record_logged'), pg_indexes_size('topics_record_logged')"
    )
    (records,) = of.one("SELECT count(*) FROM topics_record_logged")
    each = f"{total / records:.0f} bytes on disk each, {indexes / records:.0f} of them in indexes"
    return f"records of {len(store.data)} bytes: {each}"


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.growth", description=__doc__)
    parser.add_argument("--records", type=int, default=Size().records, help="records of the whole store (25,000,000)")
    parser.add_argument(
        "--small", action="store_true", help=f"a store of {SMALL.records:,} records and {SMALL.topics:,} topics"
    )
    parser.add_argument("--bytes", type=int, default=90, choices=(90, 450), help="bytes of a record (90)")
    parser.add_argument("--only", default="", help="only operations with this text in their name")
    parser.add_argument("--copies", action="store_true", help="also measure backup and restore")
    parser.add_argument("--verbose", action="store_true", help="print each operation at each size")
    return parser.parse_args()


def table(rows: list[Grown], size: Size, shares: tuple[float, ...]) -> str:
    heads = " | ".join(f"{share:.0%}" for share in shares)
    lines = [f"| operation: buffers (rows) | {heads} | |", f"|---|{'---|' * len(shares)}---|"]
    missed = [row.operation for row in rows if row.missed(size)]
    told = f"{len(rows)} operations, {len(missed)} of them missed{': ' if missed else ''}{', '.join(missed)}."
    return "\n".join([*lines, *(row.line(size) for row in rows), "", told])


def picture(rows: list[Grown], given: argparse.Namespace) -> str:
    size, shares = size_of(given), shares_of(given)
    whole = [row for row in rows if len(row.counts) == len(shares) and not row.failed]
    lines = [plot.Line(row.operation, [each.buffers for each in row.counts], row.missed(size)) for row in whole]
    return plot.draw(lines, [size.part(share).records for share in shares])


def main() -> None:
    given: Any = arguments()
    rows, notes, executed = run(given)
    text = table(rows, size_of(given), shares_of(given))
    print(text)
    if not (given.small or given.only):
        DOCUMENT.write_text("\n\n".join(["# Growth", ABOUT, *notes, text]) + "\n")
        PICTURE.write_text(picture(rows, given))
    wrong = []
    if given.small and not given.only:
        wrong = [*statements.unseen(executed), *unknown({row.operation for row in rows})]
    print("\n".join(wrong))
    raise SystemExit(bool(wrong) or any(row.missed(size_of(given)) for row in rows))


if __name__ == "__main__":
    begin_run("bench")
    main()

"""The oracle's part about mirrors: each record once at each site, in the order of its origin (docs/guides/mirror.md)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tests.crash.harness.evidence import SiteEvidence


def faults(sites: SiteEvidence) -> Iterator[str]:
    """Everything that is broken, a sentence each."""
    for origin, acked in sites.acked.items():
        at_home = of(origin, sites.logs[origin])
        if lost := set(acked) - set(at_home):
            yield f"{len(lost)} acked records of {origin} are not there, for example {min(lost)}"
        for site, log in sites.logs.items():
            found = of(origin, log)
            if twice := [data for data, count in Counter(found).items() if count > 1]:
                yield f"{site} has {len(twice)} records of {origin} twice, first {twice[0]}"
            elif differing := set(at_home) ^ set(found):
                yield f"{site} and {origin} differ in {len(differing)} records of {origin}, for example {min(differing)}"
            elif found != at_home:
                yield f"{site} has the records of {origin} in another order"


def of(origin: str, log: list[str]) -> list[str]:
    """Returns the records that were appended at this site."""
    return [data for data in log if data.startswith(f"{origin}/")]

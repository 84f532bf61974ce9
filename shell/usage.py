"""Reports the local store's usage as lines. Numbers come first, to align the columns in spite of long names."""

from __future__ import annotations

from collections.abc import Iterator

from base.units import size
from store.database import translating
from topics.upkeep.usage import report


def lines() -> Iterator[str]:
    """Yields the stored and the shown records, and the reasons why the rest is kept."""
    with translating():
        found = report()
    yield f"{found.stored_records:>16,} records stored (estimated), {size(found.stored_bytes)} on disk with their indexes"
    yield f"{found.shown_records:>16,} records shown by topics, {size(found.shown_bytes)} of payload"
    yield f"{found.spans:>16,} spans (estimated) of forwarded records, {size(found.spans_bytes)} on disk"
    yield f"{found.waiting_records:>16,} records below a floor, not examined yet"
    yield f"{found.held_records:>16,} records kept, because spans still show them"
    yield f"{found.reclaimed_records:>16,} records with reused space so far"
    for pin in found.pinned:
        home = f"{pin.home} (deleted)" if pin.home_deleted else pin.home
        yield f"{pin.records:>16,} records of {home} are kept for {pin.shown_by}"

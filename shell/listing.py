"""Topics, and what the store holds, as lines: numbers first, so that columns align while names may be long."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice

from django.db.models import F

from base.units import size
from topics.models import Topic
from topics.usage import report

COLUMNS = "{:>14} {:>16} {:>14} {:>14}  {:10} {}"


def topics(prefix: str, quiet: bool) -> Iterator[str]:
    """One query, read as it comes: by the unique index, of which a prefix is a range."""
    found = Topic.objects.filter(name__startswith=prefix).order_by("name")
    if quiet:
        yield from found.values_list("name", flat=True).iterator()
        return
    head = ("head__count", "head__bytes", F("head__floor_seq") + 1, "head__head_seq")
    rows = found.values_list(*head, "durability", "name").iterator()
    first = list(islice(rows, 1))  # no heading over what cannot be read
    yield COLUMNS.format("RECORDS", "BYTES", "EARLIEST", "HEAD", "DURABILITY", "NAME")
    for row in chain(first, rows):
        yield COLUMNS.format(*row)


def usage() -> Iterator[str]:
    """What the store holds against what it shows, and what keeps the rest."""
    found = report()
    yield f"{found.stored_records:>16,} records stored (estimated), {size(found.stored_bytes)} on disk with their indexes"
    yield f"{found.shown_records:>16,} records shown by topics, {size(found.shown_bytes)} of payload"
    yield f"{found.spans:>16,} spans (estimated) show what routers forwarded, {size(found.spans_bytes)} on disk"
    yield f"{found.waiting_records:>16,} below the floors, not examined yet"
    yield f"{found.held_records:>16,} held back, since spans still show them"
    yield f"{found.reclaimed_records:>16,} given back so far"
    for pin in found.pinned:
        home = f"{pin.home} (deleted)" if pin.home_deleted else pin.home
        yield f"{pin.records:>16,} of {home} are held by {pin.shown_by}"

"""The steps of router_forward, each by itself: entries in, entries or spans out."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection

from topics.models import Span

pytestmark = pytest.mark.django_db
DEST, HOME, OTHER = 10**12 + 1, 10**12 + 2, 10**12 + 3  # of topics that no other test has
STORE = """
INSERT INTO topics_record (topic_id, seq, ts, total, size, data) SELECT %s, n, 0, 0, 10, '1' FROM generate_series(1, 5) n
"""
COLUMNS = [field.column for field in Span._meta.concrete_fields]


def entry(first: int, last: int, home: int | None = HOME, at: int | None = None, **others: Any) -> dict[str, Any]:
    """Source seqs first..last are the home's from `at` on, or the same."""
    at = first if at is None else at
    ends = {"topic_id": DEST, "first_seq": first, "last_seq": last, "home_id": home, "home_first_seq": at}
    ends["home_last_seq"] = at + last - first
    return ends | {"ts": 0, "shown": home is not None, "keep_node": True, "keep_tag": True, "path": ["r"]} | others


def run(sql: str, entries: list[dict[str, Any]], *arguments: Any) -> list[tuple[Any, ...]]:
    """`%s` first takes the entries."""
    values = [[given.get(column) for column in COLUMNS] for given in entries]
    row = f"({', '.join(['%s'] * len(COLUMNS))})::topics_span"
    array = f"ARRAY[{', '.join([row] * len(entries))}]::topics_span[]"
    with connection.cursor() as cursor:
        cursor.execute(sql.replace("%s", array, 1), [*(value for each in values for value in each), *arguments])
        return cursor.fetchall()


def joined(*entries: dict[str, Any]) -> list[tuple[Any, ...]]:
    return run("SELECT first_seq, last_seq, home_id, home_first_seq, home_last_seq FROM router_joined(%s)", [*entries])


def unheld(*entries: dict[str, Any]) -> list[int]:
    return [seq for (seq,) in run("SELECT first_seq FROM router_unheld(%s, %s)", [*entries], DEST)]


def keep(*spans: dict[str, Any]) -> None:
    Span.objects.bulk_create(Span(**span) for span in spans)


def test_entries_that_go_on_become_one_span() -> None:
    assert joined(entry(5, 5), entry(6, 6), entry(7, 9)) == [(1, 5, HOME, 5, 9)]


def test_what_is_left_out_at_the_source_leaves_no_gap_in_the_dest() -> None:
    assert joined(entry(5, 6), entry(9, 9), entry(10, 10)) == [(1, 2, HOME, 5, 6), (3, 4, HOME, 9, 10)]


def test_another_home_way_or_stamp_begins_a_span() -> None:
    assert len(joined(entry(1, 1), entry(2, 2, OTHER, 2), entry(3, 3, OTHER, 3))) == 2
    assert len(joined(entry(1, 1), entry(2, 2, path=["q", "r"]))) == 2
    assert len(joined(entry(1, 1), entry(2, 2, keep_tag=False))) == 2
    stamp = {"stamp_router": "q", "stamp_source": "s", "stamp_source_id": 7}
    assert len(joined(entry(1, 1, stamp_first_seq=4, **stamp), entry(2, 2, stamp_first_seq=5, **stamp))) == 1
    assert len(joined(entry(1, 1, stamp_first_seq=4, **stamp), entry(2, 2, stamp_first_seq=6, **stamp))) == 2


def test_a_loss_stays_by_itself() -> None:
    losses = [entry(1, 3, None, 0), entry(4, 5, None, 3)]
    assert [row[:3] for row in joined(*losses, entry(6, 6))] == [(1, 3, None), (4, 5, None), (6, 6, HOME)]


def test_nothing_becomes_nothing() -> None:
    assert joined() == []


def test_a_record_enters_a_topic_on_a_cycle_once() -> None:
    keep(entry(1, 2, at=11), entry(3, 3, at=13, shown=False))
    assert unheld(*(entry(n, n, at=10 + n) for n in range(1, 6))) == [4, 5]
    assert unheld(entry(1, 1, at=50), entry(2, 2, at=50), entry(3, 3, OTHER, 11)) == [1, 3]


def test_a_router_brings_exactly_once_what_the_dest_still_shows() -> None:
    stamp = {"stamp_router": "r", "stamp_source": "s", "stamp_source_id": HOME}
    keep(entry(1, 2, at=1, stamp_first_seq=1, **stamp), entry(3, 3, at=3, stamp_first_seq=3, **stamp, shown=False))
    router = (
        "jsonb_populate_record(NULL::routers_router, jsonb_build_object('name', 'r', 'dest_id', %s, 'source_id', %s))"
    )
    rows = run(
        f"SELECT first_seq FROM router_unsent(%s, {router}, 0, 0, 9)", [entry(n, n) for n in range(1, 6)], DEST, HOME
    )
    assert rows == [(3,), (4,), (5,)]


@pytest.mark.parametrize(
    ("records", "size", "stops"),
    [(None, None, (None, None)), (2, None, (3, 10)), (None, 25, (3, 10)), (4, 40, (None, None)), (0, 5, (1, 10))],
)
def test_a_dest_that_rejects_takes_what_fits(records: int | None, size: int | None, stops: tuple[Any, Any]) -> None:
    with connection.cursor() as cursor:
        cursor.execute(STORE, [HOME])
    entries = [entry(1, 1, None, 0), *(entry(n, n) for n in range(2, 6))]  # a loss takes no room
    assert run("SELECT upto, rejected FROM router_fitting(%s, %s, %s)", entries, records, size) == [stops]

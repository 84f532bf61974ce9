"""Named cursors that are set at the same time share a transaction: as if they had been set one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations
from typing import Any

import psycopg
import pytest
from django.db import connection
from hypothesis import given, settings
from hypothesis import strategies as st

from base.errors import CursorMoved, InvalidRequest
from store.script import run
from tests import scripts
from tests.examples import examples
from tests.log.test_batch import locker  # noqa: F401  # a fixture
from tests.log.test_delete import NOW, write
from tests.scripts import look_up, put_topic
from tests.steps import held_and_passing, together
from topics.cache import forget_all
from topics.config import Config
from topics.cursors import named as cursors
from topics.cursors.updates import CursorUpdate, CursorUpdated
from topics.models import Cursor

pytestmark = pytest.mark.django_db(transaction=True)
HEADS = {"t": 3, "other": 1}


@pytest.fixture(autouse=True)
def _topics() -> Iterator[None]:
    forget_all()
    for name, records in HEADS.items():
        put_topic(name, Config(), NOW)
        write(name, *["a"] * records)
    yield
    forget_all()


def move(topic: str, name: str, seq: int | None, expected: int | None = None, *, now: int = NOW) -> CursorUpdate:
    return CursorUpdate(topic, name, seq, expected, True, now)


def moved(*moves: CursorUpdate) -> list[Any]:
    """What comes of moves that arrive together."""
    return together(move("other", "first", 0), *moves)


def stands() -> dict[tuple[str, str], int]:
    """Every named cursor, but for the one that the others came behind."""
    named = Cursor.objects.filter(kind="named").exclude(name="first").values_list("topic__name", "name", "seq")
    return {(topic, name): seq for topic, name, seq in named}


def transactions() -> int:
    """By how many the cursors were set."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(DISTINCT xmin::text) FROM topics_cursor WHERE name <> 'first'")
        return int(cursor.fetchone()[0])


def test_each_is_set_where_it_was_asked_and_shown() -> None:
    scripts.move("t", "b", 1, None, NOW)
    done = moved(move("t", "a", 2), move("t", "b", 0, now=NOW + 5), move("other", "a", None))
    assert stands() == {("t", "a"): 2, ("t", "b"): 0, ("other", "a"): 1}
    assert transactions() == 1
    assert [(each.seq, each.head_seq, each.unread_ms, each.made) for each in done] == [
        (2, 3, 5, True),
        (0, 3, 5, False),
        (1, 1, None, True),
    ]
    shown = scripts.cursor("t", "a", done[0].updated_ts)
    assert shown == (done[0].cursor_id, "a", "named", 2, 1, 5, NOW + 5, False)


def test_the_answer_is_the_cursor_as_it_stands() -> None:
    made, cursor = run(cursors.move("t", "a", 1, None, NOW + 7))
    assert made
    assert cursor == scripts.cursor("t", "a", NOW + 7)
    assert (cursor.lag, cursor.oldest_unread_ms) == (2, 7)


def test_the_oldest_unread_is_none_that_is_over_its_time() -> None:
    put_topic("t", Config(ttl_ms=1000), NOW)
    write("t", "a", now=NOW + 900)
    (found,) = moved(move("t", "a", 0, now=NOW + 1500))
    assert found.unread_ms == 600


def test_of_many_who_set_a_new_cursor_to_the_same_one_has_made_it() -> None:
    done = moved(*[move("t", "a", 2) for _ in range(8)])
    assert [each.made for each in done] == [True] + [False] * 7
    assert {each.seq for each in done} == {2} == set(stands().values())


def test_of_many_who_expect_it_where_it_stands_one_sets_it() -> None:
    done = moved(*[move("t", "a", 1 + n % 3, 0) for n in range(6)])
    assert sorted(each.cursor_id is None for each in done) == [False] + [True] * 5
    assert stands() == {("t", "a"): next(each.seq for each in done if each.cursor_id)}


def test_one_that_cannot_be_set_is_no_others_trouble() -> None:
    topic = look_up("t").id
    Cursor.objects.create(topic_id=topic, kind="router", name="r", updated_ts=NOW)
    absent, beyond, of_router, wrong, good = moved(
        move("absent", "a", 0), move("t", "b", 4), move("t", "r", 1), move("t", "\0", 0), move("t", "a", 1)
    )
    assert absent is None
    assert (beyond.cursor_id, beyond.head_seq) == (None, 3)
    assert (of_router.cursor_id, of_router.kind) == (None, "router")
    assert isinstance(wrong, InvalidRequest)
    assert good.made
    assert stands() == {("t", "a"): 1}


def test_a_key_that_may_not_see_a_router_has_a_cursor_of_its_name() -> None:
    Cursor.objects.create(topic_id=look_up("t").id, kind="router", name="r", updated_ts=NOW)
    seeing, blind = move("t", "r", 1), CursorUpdate("t", "r", 1, None, False, NOW)
    done = moved(seeing, blind)
    assert [each.cursor_id is None for each in done] == [True, False]
    assert stands() == {("t", "r"): 1}


def test_a_locked_cursor_holds_up_no_other(locker: psycopg.Connection[Any]) -> None:  # noqa: F811
    scripts.move("t", "a", 1, None, NOW)
    locker.execute("UPDATE topics_cursor SET seq = 3 WHERE name = 'a'")
    held, passed = held_and_passing(move("t", "a", 2, 1), move("t", "b", 2), locker.commit)
    assert (held.cursor_id, passed.made) == (None, True)  # the one who held it moved it
    assert stands() == {("t", "a"): 3, ("t", "b"): 2}


def test_one_that_somebody_makes_meanwhile_is_not_where_it_is_expected(locker: psycopg.Connection[Any]) -> None:  # noqa: F811
    locker.execute(
        "INSERT INTO topics_cursor (topic_id, kind, name, seq, forwarded_total, updated_ts) VALUES (%s, 'named', 'a', 2, 0, 0)",
        [look_up("t").id],
    )
    held, passed = held_and_passing(move("t", "a", 1, 0), move("t", "b", 2), locker.commit)
    assert (held.cursor_id, passed.made) == (None, True)
    with pytest.raises(CursorMoved) as refused:
        scripts.move("t", "a", 1, 0, NOW)
    assert refused.value.detail == {"seq": 2, "expected_seq": 0}
    assert stands() == {("t", "a"): 2, ("t", "b"): 2}


MOVES = st.lists(
    st.builds(
        move,
        st.sampled_from(["t", "t", "other", "absent"]),
        st.sampled_from(["a", "b"]),
        st.sampled_from([None, 0, 1, 1, 2, 4]),
        st.sampled_from([None, None, None, 0, 1, 2]),
    ),
    min_size=1,
    max_size=8,
)


@settings(max_examples=examples(8))
@given(st.lists(MOVES, min_size=1, max_size=3))
def test_whatever_comes_together(rounds: list[list[CursorUpdate]]) -> None:
    """Of each cursor there is an order in which its moves, one after the other, come to the same."""
    Cursor.objects.all().delete()
    for moves in rounds:
        before = stands()
        done = moved(*moves)
        assert not any(isinstance(each, BaseException) for each in done)
        after = stands()
        for cursor in {each.cursor for each in moves}:
            its = [(each, found) for each, found in zip(moves, done, strict=True) if each.cursor == cursor]
            assert any(explains(order, before.get(cursor), after.get(cursor)) for order in permutations(its)), its


def explains(
    order: tuple[tuple[CursorUpdate, CursorUpdated | None], ...], stood: int | None, stands: int | None
) -> bool:
    """Whether these moves, in this order, come to what was found and leave the cursor where it stands."""
    for move, found in order:
        head = HEADS.get(move.topic)
        if found is None or head is None:
            if found is not head:
                return False
            continue
        seq = head if move.seq is None else move.seq
        fits = seq <= head and move.expected in (None, stood or 0)
        if fits is not (found.cursor_id is not None):
            return False
        if fits:
            if (found.seq, found.made) != (seq, stood is None):
                return False
            stood = seq
    return stood == stands

"""The cursors that do not advance: each look judges a part of them."""

from __future__ import annotations

from base.clock import now_ms
from console.health.cursors import STUCK_MS, Stuck
from tests.admin.pages import put
from tests.scripts import move
from topics.models import Cursor


def test_each_cursor_is_judged_within_a_round(db: None) -> None:
    put("t", "1", "2", "3")
    for place in range(5):
        move("t", f"c{place}", 3, None, now_ms())
    Cursor.objects.filter(name__in=("c0", "c4")).update(seq=0)
    Cursor.objects.update(updated_ts=now_ms() - 2 * STUCK_MS)
    judge = Stuck(part=2, most=8)

    def look() -> list[str]:
        return [each.name for each in judge.look(now_ms())]

    assert [(look(), judge.is_whole) for _ in range(3)] == [(["c0"], False), (["c0"], False), (["c0", "c4"], True)]
    assert look() == ["c0", "c4"]
    move("t", "c0", 3, None, now_ms())
    assert look() == ["c4"]
    assert [each.name for each in Stuck().look(now_ms())] == ["c4"]

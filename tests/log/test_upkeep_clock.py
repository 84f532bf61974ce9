"""A clock that jumps ahead does not empty the tables: the upkeep believes it after a minute, and not if it goes back before."""

from __future__ import annotations

import pytest

from base import clock
from base.clock import now_ms
from topics import audit
from topics.models import AuditEntry, UpkeepTime
from topics.upkeep import past
from topics.upkeep.past import JUMP_MS, UpkeepClock

YEARS_MS = 5 * 365 * JUMP_MS
pytestmark = pytest.mark.django_db


@pytest.fixture
def jump(monkeypatch: pytest.MonkeyPatch):
    """`jump(ms)` sets the clock that the processes follow ahead by so much, from now on."""
    own = clock.process.ahead_ms
    return lambda ms: monkeypatch.setattr(clock.process, "ahead_ms", own - ms)


@pytest.fixture
def minute(monkeypatch: pytest.MonkeyPatch):
    """`minute()` ends the wait of a process at its next look."""
    return lambda: monkeypatch.setattr(past, "WAIT_SECONDS", 0.0)


def test_a_jump_counts_after_a_minute(jump, minute) -> None:
    one, other = UpkeepClock(), UpkeepClock()
    before = one.now_ms()
    jump(YEARS_MS)
    for upkeep in (one, other, one, other):
        assert upkeep.now_ms() == before
    assert UpkeepTime.objects.get().ts == before
    minute()
    assert one.now_ms() >= before + YEARS_MS
    assert UpkeepTime.objects.get().ts >= before + YEARS_MS
    assert UpkeepClock().now_ms() >= before + YEARS_MS


def test_a_clock_that_goes_back_within_the_minute_deletes_nothing(jump) -> None:
    AuditEntry.objects.create(ts=now_ms(), actor="key", actor_name="key", origin="::1", action="create", kind="topic")
    upkeep = UpkeepClock()
    assert audit.drop_old(upkeep.now_ms()) == 0
    for ahead in (YEARS_MS, 0, YEARS_MS, 0):
        jump(ahead)
        assert audit.drop_old(upkeep.now_ms()) == 0
    assert upkeep.now_ms() <= now_ms()


def test_the_minute_begins_again_after_the_clock_was_right(jump, minute) -> None:
    """The process saw the first jump long ago, and another process saw the clock go back."""
    upkeep, other = UpkeepClock(), UpkeepClock()
    upkeep.now_ms()
    jump(YEARS_MS)
    first = upkeep.now_ms()
    jump(1_000)
    right = other.now_ms()
    jump(2 * YEARS_MS)
    assert upkeep.jump is not None
    seen = upkeep.jump[1]
    assert upkeep.now_ms() == right > first
    assert upkeep.jump is not None
    assert upkeep.jump[1] > seen
    minute()
    assert upkeep.now_ms() > right


def test_less_than_a_day_and_a_clock_that_went_back_need_no_minute(jump) -> None:
    upkeep = UpkeepClock()
    before = upkeep.now_ms()
    jump(JUMP_MS // 2)
    assert upkeep.now_ms() >= before + JUMP_MS // 2
    jump(-YEARS_MS)
    assert UpkeepClock().now_ms() <= before
    assert upkeep.now_ms() <= before
    assert UpkeepTime.objects.get().ts <= before

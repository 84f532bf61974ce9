"""Clocks that step: ahead and set right, behind and set right (docs/deploy.md, Clocks).

Times are real, because PostgreSQL's clock is asked.
"""

from __future__ import annotations

import json

import pytest

from base.clock import now_ms
from routers.routers import RouterConfig
from store.script import run
from tests import scripts
from tests.log.test_delete import head, read, write
from tests.scripts import diff, look_up, put_router, put_topic
from topics.config import Config
from topics.heads import MOST_LEAD_MS
from topics.models import ClockStep
from topics.read.diff import Diff, seq_before
from topics.upkeep import retention

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("no_memory")]
NOW = now_ms()
SECOND, HOUR = 1000, 3_600_000
YEAR = 365 * 24 * HOUR


def times(name: str, now: int = NOW) -> list[int]:
    return [record["$ts"] - NOW for record in json.loads(f"[{diff(name, Diff(limit=1000), now).records or ''}]")]


def many(name: str, now: int) -> None:
    for _ in range(20):
        write(name, "x", now=now)


def ahead(name: str, lead: int) -> None:
    """Seqs 1 to 20 of before, 21 to 40 while the clock is ahead, 41 to 60 once it is set right."""
    many(name, NOW - HOUR)
    many(name, NOW + lead)
    assert retention.set_clocks(NOW) >= 1
    many(name, NOW)


def behind(name: str) -> None:
    """Seqs 1 to 20 of an hour ago, 21 to 40 right before the clock falls, 41 to 60 then, 61 to 80 once it is right."""
    many(name, NOW - HOUR)
    many(name, NOW - SECOND)
    assert retention.set_clocks(NOW - HOUR) >= 1
    many(name, NOW - HOUR)
    many(name, NOW)


def test_a_clock_that_is_off_by_less_makes_no_time_fall() -> None:
    write("t", "a", now=NOW + MOST_LEAD_MS)
    assert retention.set_clocks(NOW) == 0
    write("t", "b", now=NOW)
    assert times("t") == [MOST_LEAD_MS] * 2


@pytest.mark.guarantee("W2")
@pytest.mark.parametrize("lead", [HOUR, YEAR])
def test_times_fall_once_when_a_clock_that_was_ahead_is_set_right(lead: int) -> None:
    ahead("t", lead)
    assert times("t") == [-HOUR] * 20 + [lead] * 20 + [0] * 20
    assert retention.set_clocks(NOW) == 0
    assert head("t").last_ts == NOW


def test_times_fall_once_when_a_clock_goes_behind_and_rise_when_it_is_right() -> None:
    behind("t")
    assert times("t") == [-HOUR] * 20 + [-SECOND] * 20 + [-HOUR] * 20 + [0] * 20


@pytest.mark.guarantee("R1")
@pytest.mark.parametrize("lead", [HOUR, YEAR])
def test_a_ttl_takes_what_a_clock_that_was_ahead_wrote_in_its_time(lead: int) -> None:
    put_topic("t", Config(ttl_ms=2 * HOUR), NOW)
    ahead("t", lead)
    topic = head("t").pk
    assert read("t", now=NOW + HOUR)[0] == list(range(1, 61))
    assert read("t", now=NOW + HOUR + 1)[0] == list(range(21, 61))
    write("t", "x", now=NOW + 2 * HOUR)
    assert read("t", now=NOW + 2 * HOUR + 1)[0] == [61]
    assert retention.expired_topics(NOW + 2 * HOUR + 1) == [topic]
    assert retention.expire(topic, NOW + 2 * HOUR + 1) == 60


@pytest.mark.guarantee("W2")
def test_a_ttl_takes_nothing_early_after_a_clock_that_was_behind() -> None:
    """What was written right before it fell is a second old, and what was written while it was behind is no older."""
    put_topic("t", Config(ttl_ms=HOUR // 2), NOW - HOUR)
    behind("t")
    assert read("t", now=NOW)[0] == list(range(21, 81))
    assert retention.expire(head("t").pk, NOW) == 20
    retention.set_clocks(NOW)
    assert read("t", now=NOW)[0] == list(range(21, 81))
    assert read("t", now=NOW + HOUR // 2)[0] == list(range(61, 81))


def test_from_ts_after_a_clock_that_was_ahead_counts_its_records_as_written_when_it_was_set_right() -> None:
    ahead("t", YEAR)
    for ts, before in ((NOW - HOUR, 0), (NOW - 1, 20), (NOW, 20), (NOW + 1, 60), (NOW + YEAR, 60)):
        assert run(seq_before("t", ts, NOW)) == before


def test_from_ts_after_a_clock_that_was_behind_misses_nothing() -> None:
    behind("t")
    for ts, before in ((NOW - HOUR, 0), (NOW - HOUR + 1, 20), (NOW - SECOND, 20), (NOW, 60), (NOW + 1, 80)):
        assert run(seq_before("t", ts, NOW)) == before


def test_copies_have_times_of_their_own_that_fall_and_expire_alike() -> None:
    put_topic("dest", Config(ttl_ms=2 * HOUR), NOW)
    write("t", "a", now=NOW - HOUR)
    put_router("r", RouterConfig(source="t", dest="dest", start="earliest"), NOW)
    dest = look_up("dest").id
    scripts.catch_up(dest, NOW + YEAR)
    write("t", "b", now=NOW)
    assert retention.set_clocks(NOW) == 1
    scripts.catch_up(dest, NOW)
    assert times("dest") == [YEAR, 0]
    assert run(seq_before("dest", NOW + 1, NOW)) == 2
    assert read("dest", now=NOW + 2 * HOUR)[0] == [1, 2]
    assert read("dest", now=NOW + 2 * HOUR + 1)[0] == []


def test_topics_with_a_step_take_turns() -> None:
    ids = set()
    for name in "abc":
        put_topic(name, Config(ttl_ms=HOUR // 2), NOW - HOUR)
        behind(name)
        ids.add(head(name).pk)
    assert {id for _ in ids for id in retention.expired_topics(NOW - HOUR, 1)} == ids
    for id in ids:
        retention.expire(id, NOW + HOUR)
    for _ in ids:
        retention.set_clocks(NOW + HOUR, 1)
    assert not ClockStep.objects.exists()


def test_a_step_is_forgotten_once_no_record_needs_it() -> None:
    put_topic("t", Config(ttl_ms=HOUR // 2), NOW - HOUR)
    behind("t")
    retention.set_clocks(NOW)
    assert ClockStep.objects.exists()
    retention.expire(head("t").pk, NOW + HOUR // 2)
    retention.set_clocks(NOW + HOUR // 2)
    assert not ClockStep.objects.exists()

"""A queue whose clock, that of PostgreSQL, was ahead and is set back."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from queues.claim import claim
from queues.counts import count_jobs
from queues.settle import Extend, Nack, Settle, holding, settle
from store.script import run
from tests.scripts import append, look_up, put_topic
from topics.append.records import Append, NewRecord, check_rows
from topics.cache import forget_all
from topics.config import Config

NOW, SECOND, HOUR = 1_748_470_000_000, 1_000, 3_600_000
AHEAD = NOW + HOUR


@pytest.fixture(autouse=True)
def _queue(db: None) -> None:
    forget_all()
    put_topic("q", Config(type="queue"), NOW)
    wanted = Append(records=[NewRecord(data=msgspec.Raw(b"%d" % n)) for n in range(1, 5)])
    append("q", wanted, check_rows(wanted), NOW)


def claimed(most: int, lease_ms: int, at: int) -> list[int]:
    return run(claim("q", "w", most, lease_ms, NOW, at)).seqs


def change(kind: type[Settle[Any]], seq: int, at: int, *values: Any) -> None:
    assert run(settle(kind, "q", holding("w", [seq], None), values, NOW, at)).skipped == []


def counts(at: int) -> tuple[int, int, int]:
    """The jobs that are ready, in flight and delayed."""
    found = run(count_jobs(look_up("q"), NOW, at))
    assert found is not None
    return found.ready, found.in_flight, found.delayed


def test_no_job_waits_for_a_time_that_a_clock_ahead_has_given_it() -> None:
    assert claimed(3, 3 * HOUR, NOW) == [1, 2, 3]
    assert claimed(1, SECOND, AHEAD) == [4]
    change(Nack, 1, AHEAD, 0, None)
    change(Nack, 2, AHEAD, 2 * SECOND, None)
    # A lease of the time before the lead stays as it is.
    for at, found, now in (
        (NOW + 1, [1], (0, 3, 1)),
        (NOW + 1 + SECOND, [4], (0, 3, 1)),
        (NOW + 1 + 2 * SECOND, [2], (0, 4, 0)),
        (NOW + 3 * HOUR - 1, [], (0, 4, 0)),
        (NOW + 3 * HOUR, [3], (0, 4, 0)),
    ):
        assert claimed(4, 9 * HOUR, at) == found
        assert counts(at) == now


def test_a_lease_of_a_clock_ahead_has_its_length_after_each_step_back() -> None:
    assert claimed(1, SECOND, AHEAD) == [1]
    change(Extend, 1, AHEAD + SECOND // 2, SECOND)
    for at, found in ((NOW + HOUR // 2, [2, 3, 4]), (NOW, [])):
        assert claimed(3, HOUR, at) == found
        assert counts(at) == (0, 4, 0)
    assert claimed(4, HOUR, NOW + 2 * SECOND) == [1]

"""Appends that make room in capped topics, beside the log in memory (tests/reference.py).

An append evicts up to hundreds of records here, from topics that are whole, or have holes and spans. test_model.py compares
all calls, with a few records each.
"""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from hypothesis import given, settings
from hypothesis import strategies as st

from store.script import run
from tests.examples import examples
from tests.log.test_model import TOPICS, Beside, call
from tests.scripts import diff
from topics.read import describe
from topics.read.diff import Diff

RECORDS = st.tuples(st.integers(1, 40) | st.integers(1, 250), st.integers(0, 7)).map(
    lambda drawn: [(n * drawn[1] % 40, None, None) for n in range(drawn[0])]
)
PAUSES = st.sampled_from([0, 0, 100, 600])  # ms before a call
CONFIGS = st.fixed_dictionaries(
    {
        "durability": st.sampled_from(["disk", "memory", "ephemeral"]),
        "ttl_ms": st.sampled_from([0, 500, 1500]),
        "cap_records": st.sampled_from([0, 1, 40, 100, 240]),
        "cap_bytes": st.sampled_from([0, 30, 500, 3000]),
    }
)
CALLS = st.one_of(
    *[call("append", topic=TOPICS, records=RECORDS, key=st.none(), again=st.just(False))] * 8,
    call("forward", records=RECORDS),
    call("delete_seqs", topic=TOPICS, seqs=st.lists(st.integers(1, 1500), max_size=30)),
    call("delete_oldest", topic=TOPICS, length=st.integers(1, 100), pattern=st.just((None, False))),
    call("configure", topic=TOPICS, changes=CONFIGS),
    call("background", limit=st.integers(1, 100)),
)


@pytest.mark.django_db(transaction=True)
@settings(max_examples=examples(8))
@given(t=CONFIGS, dest=CONFIGS, calls=st.lists(st.tuples(PAUSES, CALLS), min_size=8, max_size=20))
def test_a_topic_holds_what_its_caps_and_ttl_allow(
    t: dict[str, Any], dest: dict[str, Any], calls: list[tuple[int, tuple[str, dict[str, Any]]]]
) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET synchronous_commit = off; DELETE FROM topics_record; DELETE FROM topics_topichead")
    both = Beside(t, dest, 120_000)
    for pause_ms, (name, arguments) in calls:
        both.now += pause_ms
        getattr(both, name)(**arguments)
        for topic in ("t", "dest"):
            check(both, topic)


@pytest.mark.parametrize("durability", ["disk", "memory"])
@pytest.mark.parametrize(
    ("fresh", "more", "told"), [(0, 2, {0: "ttl", 6: None}), (2, 2, {0: "ttl"}), (2, 6, {0: "mixed", 4: "cap"})]
)
@pytest.mark.django_db(transaction=True)
def test_evicted_records_over_their_time_are_told_as_expired(
    durability: str, fresh: int, more: int, told: dict[int, str | None]
) -> None:
    both = Beside({"durability": durability, "cap_records": 6, "ttl_ms": 500}, {}, 120_000)
    both.append("t", [(1, None, None)] * (6 - fresh), None, False)
    both.now += 501
    for length in (fresh, more):
        if length:
            both.append("t", [(1, None, None)] * length, None, False)
    for from_seq in range(both.logs["t"].head_seq + 1):
        both.read("t", from_seq, 3)
    for from_seq, reason in told.items():
        assert diff(both.name("t"), Diff(from_seq=from_seq), both.now).lost == reason


def check(both: Beside, topic: str) -> None:
    """Compares the figures of a topic, and the reads on both sides of its losses. Its head must count no more than its caps."""
    log, config = both.logs[topic], both.logs[topic].config
    state = run(describe.held(both.name(topic), both.now)).state
    with connection.cursor() as cursor:
        cursor.execute("SELECT floor_seq, count, bytes FROM topics_topichead WHERE topic_id = %s", [state.id])
        ((floor_seq, records, bytes),) = cursor.fetchall()
    assert records <= config.cap_records or not config.cap_records
    assert bytes <= config.cap_bytes or not config.cap_bytes
    for from_seq in (0, floor_seq - 1, floor_seq, state.earliest_seq - 2, state.earliest_seq - 1):
        both.read(topic, max(from_seq, 0), 3)
    shown = (state.head_seq, state.earliest_seq, state.records, state.bytes)
    assert shown == (log.head_seq, log.earliest_seq, log.count, log.bytes)

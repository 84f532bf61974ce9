"""Old versions of a queue's row and of its head, which PostgreSQL keeps while any transaction is open (queues_queue.era)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg
import pytest

from base.clock import now_ms
from queues.claim import Claim
from queues.leases import LeaseStep
from queues.settle import Ack, holding
from store.script import Statement
from tests.log.test_eras import append_one, connected, opened, pages, remembered
from tests.scripts import look_up, put_topic
from topics import cache
from topics.config import Config

__all__ = ["opened"]
JOBS = 500
MORE = 150  # pages: an ack looks at the newest eras of both rows some ten times
Cursor = psycopg.ClientCursor[Any]


@pytest.fixture
def topic(transactional_db: None) -> None:
    put_topic("t", Config(type="queue"), now_ms())
    look_up("t")


def claim() -> Statement:
    return only(Claim(remembered(), "a", 1, 60_000, None, None))


def ack(seqs: Sequence[int]) -> Statement:
    return only(Ack(remembered(), holding("a", list(seqs), None), (), None, None))


def only(step: LeaseStep[Any]) -> Statement:
    (statement,) = step.transaction([step]).statements
    return statement


def execute(cursor: Cursor, statement: Statement) -> list[tuple[Any, ...]]:
    return cursor.execute(statement.sql, statement.arguments).fetchall()


def append_and_claim(cursor: Cursor) -> list[int]:
    ((_, base, *_),) = execute(cursor, append_one(remembered()))
    cache.reached(remembered(), base + 1)
    seqs = [seq for n, seq, _ in execute(cursor, claim()) if n]
    assert seqs == [base + 1]
    return seqs


def pages_of_each(cursor: Cursor) -> dict[str, int]:
    """What a claim and an ack read when they run again. At first, a function also reads the catalog."""
    for _ in range(2):
        of_claim = pages(cursor, claim())
        seqs = append_and_claim(cursor)
        of_ack = pages(cursor, ack(seqs))
        execute(cursor, ack(seqs))
    return {"claim": of_claim, "ack": of_ack}


def test_no_call_reads_the_versions_that_a_transaction_keeps(topic: None, opened: Cursor) -> None:
    before = pages_of_each(opened)
    with connected() as other:
        other.execute("SELECT pg_current_xact_id()")
        for _ in range(JOBS):
            execute(opened, ack(append_and_claim(opened)))
        after = pages_of_each(opened)
    assert {kind: (before[kind], most) for kind, most in after.items() if most > before[kind] + MORE} == {}

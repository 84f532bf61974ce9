"""Steps that arrive together share a transaction, and no step suffers from its neighbours (store/coalesce.py)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Self

import psycopg
import pytest
from django.db import connection, transaction

from base.errors import InvalidRequest, NotReady
from store.connection import Connection
from store.loop import Loop
from store.script import Coalesced, Done, PlannedTransaction, Script, Statement, run
from tests.instances import until

pytestmark = pytest.mark.django_db(transaction=True)
SET = """
INSERT INTO topics_deletedtopic (id, name, deleted_ts) VALUES (%s, %s, 0)
ON CONFLICT (id) DO UPDATE SET name = excluded.name
"""
TRANSACTIONS = "SELECT count(DISTINCT xmin::text) FROM topics_deletedtopic"


class Note(Coalesced[str]):
    """A row with this name. Its second statement divides by `by`."""

    most = 8

    def __init__(
        self, number: int, name: str = "note", by: object = 1, *, weight: int = 1, durable: bool = True
    ) -> None:
        self.number, self.name, self.by, self.weight = number, name, by, weight
        self.lock, self.lane = number, "durable" if durable else "fast"

    @classmethod
    def groups(cls, batch: Sequence[Self]) -> Sequence[Sequence[Self]]:
        first = {each.number: each for each in reversed(batch)}
        return [sorted(first.values(), key=lambda each: each.number)]

    @classmethod
    def transaction(cls, batch: Sequence[Self]) -> PlannedTransaction:
        if any(each.by is None for each in batch):
            raise TypeError("cannot be sent")
        statements = [Statement(SET, (each.number, each.name)) for each in batch]
        return PlannedTransaction(
            [*statements, *(Statement("SELECT 1 / %s::bigint", (each.by,)) for each in batch)],
            batch[0].lane == "durable",
        )

    @classmethod
    def outcomes(cls, batch: Sequence[Self], done: Done, started: float) -> list[str]:
        assert len(done.rows) == 2 * len(batch)
        return [f"{each.number} of {len(batch)}" for each in batch]


def noted() -> list[int]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT id FROM topics_deletedtopic ORDER BY id")
        return [id for (id,) in cursor.fetchall()]


@pytest.fixture
def round_trips(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many transactions each round trip carried that had several."""
    sizes: list[int] = []
    each = Connection.each

    async def counted(self: Connection, transactions: Any) -> Any:
        sizes.append(len(transactions))
        return await each(self, transactions)

    monkeypatch.setattr(Connection, "each", counted)
    return sizes


def in_a_loop(work: Any) -> Any:
    async def main() -> Any:
        loop = Loop()
        try:
            return await asyncio.wait_for(work(loop), 60)
        finally:
            await loop.close()

    return asyncio.run(main())


async def asked(loop: Loop, *steps: Note) -> list[Any]:
    return await asyncio.gather(*map(loop.coalescer.ask, steps), return_exceptions=True)


def together(*steps: Note) -> list[Any]:
    return in_a_loop(lambda loop: asked(loop, *steps))


@contextmanager
def held(number: int) -> Iterator[psycopg.Connection[Any]]:
    """Another client holds the row of this number."""
    run(Note(number).alone())
    wanted = ("host", "port", "dbname", "user", "password")
    parameters = {name: value for name, value in connection.get_connection_params().items() if name in wanted}
    with psycopg.connect(**parameters) as holder:
        holder.execute("SELECT FROM topics_deletedtopic WHERE id = %s FOR UPDATE", [number])
        yield holder


def waits(holder: psycopg.Connection[Any]) -> bool:
    """Whether anybody waits for a lock in this database."""
    rows = holder.execute(
        "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    )
    return bool(rows.fetchall())


def test_steps_that_arrive_together_are_one_transaction_and_wait_for_the_disk_once(round_trips: list[int]) -> None:
    assert together(Note(1), Note(2), Note(3)) == ["1 of 3", "2 of 3", "3 of 3"]
    assert noted() == [1, 2, 3]
    assert round_trips == [2]  # with one more, which waits for the disk
    with connection.cursor() as cursor:
        cursor.execute(TRANSACTIONS)
        assert cursor.fetchone() == (1,)


def test_steps_that_need_no_disk_do_not_wait_for_it(round_trips: list[int]) -> None:
    assert together(Note(1, durable=False), Note(2, durable=False)) == ["1 of 2", "2 of 2"]
    assert round_trips == []


def test_a_round_trip_carries_at_most_its_weight_and_at_least_one_step() -> None:
    heavy = together(Note(1, weight=5), Note(2, weight=4), Note(3, weight=4), Note(4, weight=20), Note(5))
    assert heavy == ["1 of 1", "2 of 2", "3 of 2", "4 of 1", "5 of 1"]


def test_a_step_that_another_decides_is_answered_none() -> None:
    assert together(Note(1, "a"), Note(1, "b"), Note(2)) == ["1 of 2", None, "2 of 2"]


@pytest.mark.parametrize("durable", [True, False])
@pytest.mark.parametrize(("wrong", "error"), [(0, InvalidRequest), ("a\0b", InvalidRequest), (None, TypeError)])
def test_a_step_that_fails_is_undone_alone(wrong: object, error: type[Exception], durable: bool) -> None:
    steps = [Note(number, by=wrong if number == 3 else 1, durable=durable) for number in range(8)]
    found = together(*steps)
    assert isinstance(found.pop(3), error)
    assert all(isinstance(each, str) for each in found)
    assert noted() == [0, 1, 2, 4, 5, 6, 7]


def test_a_held_lock_delays_only_its_own_steps() -> None:
    async def work(loop: Loop) -> list[Any]:
        waiting = asyncio.ensure_future(asked(loop, Note(1, "first")))
        assert await asked(loop, Note(2), Note(3)) == ["2 of 1", "3 of 1"]  # the coalescer looked which lock is held
        later = asyncio.ensure_future(asked(loop, Note(1, "later"), Note(4)))
        await loop.coalescer.ask(Note(5))
        assert not waiting.done()
        holder.rollback()
        return await waiting + await later

    with held(1) as holder:
        found = in_a_loop(work)
    assert not any(isinstance(each, Exception) for each in found)
    assert noted() == [1, 2, 3, 4, 5]


def test_a_lock_that_stays_held_is_503_for_all_who_wait_for_it(settings: Any) -> None:
    settings.TOPICS_LOCK_TIMEOUT_MS = 300

    async def work(loop: Loop) -> None:
        found = await asked(loop, Note(1), Note(1), Note(2))
        assert [type(each) for each in found] == [NotReady, NotReady, str]
        holder.rollback()
        assert await loop.coalescer.ask(Note(1)) == "1 of 1"
        assert all(lane.lock is None for lane in loop.coalescer.lanes.values())

    with held(1) as holder:
        in_a_loop(work)


def test_a_connection_that_ends_leaves_no_step_waiting_and_does_none_twice() -> None:
    """The steps that were sent may or may not be done: their clients are told. Steps that wait get another connection."""

    async def work(loop: Loop) -> list[Any]:
        backend = await loop.coalescer.connections.execute("SELECT pg_backend_pid()::bigint", ())
        sent = asyncio.ensure_future(asked(loop, Note(1), Note(2)))
        await asyncio.to_thread(until, lambda: waits(holder), "the steps to wait for the lock")
        waiting = asyncio.ensure_future(asked(loop, Note(3)))
        await asyncio.sleep(0)
        await loop.readers.execute("SELECT pg_terminate_backend(%s)", backend[0])
        return await sent + await waiting

    with held(1) as holder:
        *told, other = in_a_loop(work)
    assert [type(each) for each in told] == [NotReady, NotReady]
    assert other == "3 of 1"


class Patient(Note):
    """A note that waits for the next batch while another decides about its row."""

    left_waits = True


def test_a_step_that_waited_for_the_next_batch_is_not_done_after_it_was_refused() -> None:
    async def work(loop: Loop) -> list[Any]:
        backend = await loop.coalescer.connections.execute("SELECT pg_backend_pid()::bigint", ())
        sent = asyncio.ensure_future(asked(loop, Patient(1, "sent"), Patient(1, "left"), Patient(2)))
        await asyncio.to_thread(until, lambda: waits(holder), "the steps to wait for the lock")
        await loop.readers.execute("SELECT pg_terminate_backend(%s)", backend[0])
        told = await sent
        holder.rollback()
        return [*told, await loop.coalescer.ask(Patient(3)), await loop.coalescer.ask(Patient(4))]

    with held(1) as holder:
        *told, third, fourth = in_a_loop(work)
    assert [type(each) for each in told] == [NotReady] * 3
    assert (third, fourth) == ("3 of 1", "4 of 1")
    with connection.cursor() as cursor:
        cursor.execute("SELECT name FROM topics_deletedtopic WHERE id = 1")
        assert cursor.fetchall() == [("note",)]


def test_a_client_that_goes_away_leaves_its_step_to_the_others() -> None:
    async def work(loop: Loop) -> list[Any]:
        gone = asyncio.ensure_future(loop.coalescer.ask(Note(1)))
        stays = asyncio.ensure_future(loop.coalescer.ask(Note(2)))
        await asyncio.sleep(0)
        gone.cancel()
        return [await stays, await loop.coalescer.ask(Note(3))]

    assert in_a_loop(work) == ["2 of 2", "3 of 1"]


def test_a_thread_does_the_same() -> None:
    def script(step: Note) -> Script[str]:
        return (yield step)

    assert run(script(Note(1))) == run(script(Note(1, durable=False))) == "1 of 1"
    with pytest.raises(InvalidRequest):
        run(script(Note(2, by=0)))
    with transaction.atomic():
        run(script(Note(3)))
        transaction.set_rollback(True)
    assert noted() == [1]

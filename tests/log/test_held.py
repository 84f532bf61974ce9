"""One head that another client holds: steps for other topics pass by, of whatever kind the steps for the held head are."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import psycopg
import pytest
from psycopg.errors import LockNotAvailable

from base.errors import NotReady
from store import loop
from store.connection import Connection
from store.held import HELD_SECONDS, PLACES
from store.script import Script
from tests.log.test_batch import lock, locker  # noqa: F401  # a fixture
from tests.log.test_delete import NOW
from tests.scripts import look_up, put_topic
from tests.steps import in_a_loop
from topics.append.appending import append
from topics.append.records import Append, NewRecord, check_rows
from topics.cache import forget_all
from topics.config import Config
from topics.cursors.named import move
from topics.delete.records import delete_records

pytestmark = [pytest.mark.deep, pytest.mark.django_db(transaction=True)]
OTHERS, HELD_STEPS, ROUNDS = 32, 40, 3
CONFIG = Config(discard="reject", cap_records=100_000)
Work = Callable[[str, int], Script[Any]]


def appended(name: str, **wanted: Any) -> Script[Any]:
    asked = Append([NewRecord(msgspec.Raw(b'"x"'), tag="a")], **wanted)
    return append(name, asked, check_rows(asked), NOW)


KINDS: dict[str, Work] = {
    "plain": lambda name, n: appended(name),
    "keyed": lambda name, n: appended(name, idempotency_key=f"{n}"),
    "expecting": lambda name, n: appended(name, expected_head=n),
    "rejecting": lambda name, n: appended(f"{name}-full"),
    "below": lambda name, n: delete_records(name, 1, None, NOW),
    "tagged": lambda name, n: delete_records(name, None, "a", NOW),
    "glob": lambda name, n: delete_records(name, None, ("tag", "Glob", "a*"), NOW),
}


@pytest.fixture(autouse=True)
def _topics() -> Iterator[None]:
    forget_all()
    for name in ("held", *others()):
        put_topic(name, Config(), NOW)
        put_topic(f"{name}-full", CONFIG, NOW)
        look_up(name)
        look_up(f"{name}-full")
    yield
    forget_all()


def others() -> list[str]:
    return [f"other{n}" for n in range(OTHERS)]


@pytest.fixture
def met(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Has an item for each lock that a shared round trip met: the steps for other topics waited for it."""
    locks: list[int] = []
    for name in ("each", "talk"):
        monkeypatch.setattr(Connection, name, counting(getattr(Connection, name), locks))
    return locks


def counting(call: Any, locks: list[int]) -> Any:
    async def counted(self: Connection, *arguments: Any, **named: Any) -> Any:
        answer = await call(self, *arguments, **named)
        for each in answer:
            if isinstance(each, LockNotAvailable):
                locks.append(1)
        return answer

    return counted


def drive(script: Script[Any]) -> asyncio.Future[Any]:
    return asyncio.ensure_future(loop.here().drive(script))


@pytest.mark.parametrize("kind", KINDS)
def test_steps_for_a_held_head_hold_up_no_other_topic(
    kind: str,
    locker: psycopg.Connection[Any],  # noqa: F811
    met: list[int],
) -> None:
    """While 40 steps arrive for the held head, 32 other topics get steps of the same kind, and every one of those is done."""
    for name in ("held", "held-full"):
        lock(locker, look_up(name))

    async def work() -> None:
        held = []
        for n in range(HELD_STEPS):
            held.append(drive(KINDS[kind]("held", n)))
            if n % (HELD_STEPS // ROUNDS) == 0:
                await asyncio.gather(*(drive(KINDS[kind](name, n // (HELD_STEPS // ROUNDS))) for name in others()))
            await asyncio.sleep(0.005)
        assert not any(each.done() for each in held)
        locker.rollback()
        await asyncio.gather(*held, return_exceptions=True)

    in_a_loop(work)
    # Once by the batch that found it, and once when that batch was divided. Two connections may do so at once.
    assert len(met) <= 4


def test_a_head_that_one_kind_has_met_is_known_to_all(
    locker: psycopg.Connection[Any],  # noqa: F811
    met: list[int],
) -> None:
    lock(locker, look_up("held"))

    async def work() -> None:
        waiting = [drive(KINDS["keyed"]("held", 0))]
        while not loop.here().held.is_held(look_up_id):
            await asyncio.sleep(0.01)
        found = len(met)
        waiting += [drive(KINDS[kind]("held", 1)) for kind in ("plain", "expecting", "below", "tagged", "glob")]
        await asyncio.gather(*(drive(KINDS["keyed"](name, 0)) for name in others()))
        assert len(met) == found
        locker.rollback()
        await asyncio.gather(*waiting, return_exceptions=True)

    look_up_id = look_up("held").id
    in_a_loop(work)


def test_a_head_that_stays_held_is_503_in_the_end_and_is_free_afterwards(
    locker: psycopg.Connection[Any],  # noqa: F811
    settings: Any,
) -> None:
    settings.TOPICS_LOCK_TIMEOUT_MS = 400
    lock(locker, look_up("held"))
    lock(locker, look_up("held-full"))

    async def work() -> None:
        refused = await asyncio.gather(
            *(drive(KINDS[kind]("held", n)) for n in range(3) for kind in KINDS), return_exceptions=True
        )
        assert {type(each) for each in refused} == {NotReady}
        locker.rollback()
        for kind in KINDS:
            if kind != "expecting":
                await drive(KINDS[kind]("held", 9))
        await asyncio.sleep(HELD_SECONDS)
        loop.here().held.note("another")
        assert list(loop.here().held.lines) == ["another"]

    in_a_loop(work)


def test_more_held_heads_than_places_leave_connections_for_other_topics(locker: psycopg.Connection[Any]) -> None:  # noqa: F811
    names = others()[: 3 * PLACES]
    for name in names:
        lock(locker, look_up(f"{name}-full"))

    async def work() -> None:
        held = [drive(KINDS["keyed"](f"{name}-full", n)) for name in names for n in range(3)]
        await asyncio.gather(*(drive(KINDS[kind](others()[-1], 0)) for kind in ("plain", "keyed", "glob")))
        assert not any(each.done() for each in held)
        locker.rollback()
        await asyncio.gather(*held)

    in_a_loop(work)


def test_a_cursor_waits_for_its_own_lock_alone(locker: psycopg.Connection[Any], met: list[int]) -> None:  # noqa: F811
    locker.execute("SELECT FROM topics_topic WHERE name = 'held' FOR UPDATE")

    async def work() -> None:
        held = [drive(move("held", "c", 0, None, NOW)) for _ in range(10)]
        for _ in range(ROUNDS):
            held.append(drive(move("held", "c", 0, None, NOW)))
            await asyncio.gather(*(drive(move(name, "c", 0, None, NOW)) for name in others()))
        assert not any(each.done() for each in held)
        locker.rollback()
        await asyncio.gather(*held)

    in_a_loop(work)
    assert len(met) <= 2

"""Two operations meet at a known moment: one waits for the lock of the other, and then continues correctly."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import connection, connections, transaction

from base.clock import now_ms
from routers import advance
from routers.models import Router
from tests import scripts
from tests.api.clients import ApiClient
from tests.deadlines import DEADLINE
from tests.instances import ROOT, until
from tests.processes import child_process
from tests.routers.conftest import read, route
from tests.routers.test_forward import id_of
from tests.scripts import delete_topic
from topics.models import Cursor, TopicHead

pytestmark = pytest.mark.django_db(transaction=True)

WAITING = "SELECT count(*) FROM pg_locks WHERE NOT granted"
HOLD = """
import sys, django
django.setup()
from django.db import transaction
from routers import advance
from base.clock import now_ms
with transaction.atomic():
    assert advance.advance(int(sys.argv[1]), now_ms())
    print("moved", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def aside() -> Iterator[Callable[[Callable[[], Any]], Callable[[], Any]]]:
    """`result = aside(work)` starts work in a thread with a connection of its own; `result()` waits for what it answers."""
    threads: list[threading.Thread] = []

    def start(work: Callable[[], Any]) -> Callable[[], Any]:
        outcome: list[Any] = []

        def run() -> None:
            try:
                outcome.append(work())
            except Exception as error:
                outcome.append(error)
            finally:
                connections.close_all()

        threads.append(thread := threading.Thread(target=run, daemon=True))
        thread.start()

        def result() -> Any:
            thread.join(DEADLINE)
            assert outcome, "it waits for ever"
            if isinstance(outcome[0], Exception):
                raise outcome[0]
            return outcome[0]

        return result

    yield start
    for thread in threads:
        thread.join(DEADLINE)


def somebody_waits() -> None:
    def waiting() -> bool:
        with connection.cursor() as cursor:
            cursor.execute(WAITING)
            return bool(cursor.fetchone()[0])

    until(waiting, "somebody to wait for a lock", 30)


def locked_cursor(router: str) -> None:
    Cursor.objects.select_for_update().get(name=router)


def test_a_step_that_waited_for_a_router_finds_it_paused(views: ApiClient, names: Iterator[str], aside: Any) -> None:
    source, dest = next(names), next(names)
    router = route(views, source, dest)
    views.append(source, 1)
    with transaction.atomic():
        scripts.set_paused(router, True)
        result = aside(lambda: scripts.catch_up(id_of(dest), now_ms()))
        somebody_waits()
    assert result() == {}
    assert Router.objects.get(name=router).cursor.seq == 0


def test_a_step_that_waited_for_a_router_finds_it_deleted(views: ApiClient, names: Iterator[str], aside: Any) -> None:
    source, dest = next(names), next(names)
    router = route(views, source, dest)
    views.append(source, 1)
    with transaction.atomic():
        scripts.delete_router(router)
        result = aside(lambda: scripts.catch_up(id_of(dest), now_ms()))
        somebody_waits()
    assert result() == {}
    assert TopicHead.objects.get(topic__name=dest).head_seq == 0


def test_a_reader_waits_for_a_router_that_somebody_moves(views: ApiClient, names: Iterator[str], aside: Any) -> None:
    source, dest = next(names), next(names)
    route(views, source, dest)
    views.append(source, 1)
    with transaction.atomic():
        advance.advance(id_of(source), now_ms())
        result = aside(lambda: read(views, dest))
        somebody_waits()
    assert result() == [1]


def test_a_worker_does_not(views: ApiClient, names: Iterator[str], aside: Any) -> None:
    source, dest, other = next(names), next(names), next(names)
    router = route(views, source, dest)
    route(views, source, other)
    views.append(source, 1)
    with transaction.atomic():
        locked_cursor(router)
        moves = aside(lambda: list(advance.drain(id_of(source), now_ms)))()
        assert [move.topic_id for move in moves] == [id_of(other)]
    assert read(views, dest) == [1]


def test_a_drain_looks_again_until_there_is_nothing_to_do(views: ApiClient, names: Iterator[str]) -> None:
    """Who was told of an append while we held its routers has left it to us."""
    source, dest = next(names), next(names)
    route(views, source, dest)
    views.append(source, 1)
    drained = advance.drain(id_of(source), now_ms)
    assert next(drained).head_seq == 1
    views.append(source, 2)
    assert next(drained).head_seq == 2
    assert list(drained) == []


@pytest.mark.parametrize("end", ["source", "dest"])
def test_a_topic_is_deleted_after_who_moves_its_routers(
    views: ApiClient, names: Iterator[str], aside: Any, end: str
) -> None:
    source, dest = next(names), next(names)
    router = route(views, source, dest)
    views.append(source, 1)
    doomed = source if end == "source" else dest
    with transaction.atomic():
        advance.advance(id_of(source), now_ms())
        result = aside(lambda: delete_topic(doomed, False, now_ms()))
        somebody_waits()
    assert result() == (True, [router])
    if end == "source":
        assert read(views, dest) == [1]
    assert not Router.objects.exists()


def test_a_graph_is_changed_while_a_router_of_it_is_about_to_be_blocked(
    views: ApiClient, names: Iterator[str], aside: Any
) -> None:
    """An advance holds a cursor and heads when it writes its router's row: who marks routers cyclic takes the cursor first."""
    a, b = next(names), next(names)
    views.put(f"/v0/topics/{b}", {"cap_records": 1, "discard": "reject"})
    there = route(views, a, b)
    back = route(views, b, a, allow_cycle=True)
    views.append(a, 1, 2)
    with transaction.atomic():
        locked_cursor(there)
        result = aside(lambda: scripts.delete_router(back))  # `there` is on no cycle any more
        somebody_waits()
        TopicHead.objects.select_for_update().get(topic__name=b)
        Router.objects.filter(name=there).update(state="blocked", last_error="as an advance would")
    assert result() is True
    row = Router.objects.get(name=there)
    assert (row.cyclic, row.state) == (False, "blocked")


@pytest.mark.guarantee("F1")
def test_a_worker_that_is_killed_in_the_middle_moved_nothing(views: ApiClient, names: Iterator[str]) -> None:
    source, dest, onward = next(names), next(names), next(names)
    route(views, source, dest, guarantee="exactly_once"), route(views, dest, onward)
    views.append(source, 1, 2, 3)
    database = connection.settings_dict
    url = f"dbname={database['NAME']} user={database['USER']} password={database['PASSWORD']}"
    url += f" host={database['HOST']} port={database['PORT']}"
    argv = [sys.executable, "-c", HOLD, str(id_of(source))]
    environment = {**os.environ, "DATABASE_URL": url}
    with child_process(
        argv, env=environment, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as worker:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "moved\n"
        assert list(advance.drain(id_of(source), now_ms)) == []  # it holds the router
        worker.kill()
    assert read(views, onward) == [1, 2, 3]
    assert advance.behind(now_ms()) == []

"""Routers that others create, change and delete at the same moment."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from base.clock import now_ms
from base.errors import RouterNotFound
from routers.api.routers import RoutersQuery, get, list_routers
from routers.routers import RouterConfig
from store.script import Script, Statement, perform
from tests.api.clients import ApiClient
from tests.scripts import delete_router, put_router
from wire.access.keys import OPEN
from wire.answer import Answer
from wire.endpoint import Call

ROUNDS = 25


def test_puts_and_deletes_at_once_are_all_answered(live: ApiClient, names: Any) -> None:
    router, source, dest = (next(names) for _ in range(3))
    config = {"source": source, "dest": dest}

    def put(paused: bool) -> int:
        return live.put(f"/v0/routers/{router}", {**config, "paused": paused}).status

    def delete() -> int:
        return live.delete(f"/v0/routers/{router}").status

    with ThreadPoolExecutor(4) as clients:
        for _ in range(ROUNDS):
            calls = [
                clients.submit(put, True),
                clients.submit(put, False),
                clients.submit(delete),
                clients.submit(put, True),
            ]
            assert {call.result() for call in calls} <= {200, 201}


def answer_of(script: Script[Answer], gone: str | None) -> Any:
    """What a handler answers, when this router is deleted after its first statement."""
    rows: Any = None
    try:
        while True:
            step = script.send(rows)
            assert isinstance(step, Statement)
            rows = perform(step, [])
            if gone is not None:
                delete_router(gone)
                gone = None
    except StopIteration as done:
        return json.loads(done.value.body)


@pytest.mark.django_db
def test_a_page_repeats_no_router_when_another_is_deleted_meanwhile() -> None:
    for name in "abcd":
        put_router(name, RouterConfig(source="s", dest=f"d{name}"), now_ms())

    def page(cursor: str, gone: str | None) -> tuple[list[str], str]:
        """A page of two; this router is deleted after the page was read, and before its lag is."""
        asked: Call[None, RoutersQuery] = Call(OPEN, {}, b"", b"", "")
        asked.query = RoutersQuery(page_size=2, cursor=cursor)
        answer = answer_of(list_routers.handler(asked), gone)
        return [router["router"] for router in answer["routers"]], answer.get("next_cursor", "")

    first, cursor = page("", gone="a")
    second, _ = page(cursor, gone=None)
    assert (first, second) == (["b"], ["c", "d"])


@pytest.mark.django_db
def test_a_router_that_is_deleted_while_it_is_looked_at_is_not_there() -> None:
    put_router("a", RouterConfig(source="s", dest="d"), now_ms())
    asked: Call[None, None] = Call(OPEN, {}, b"", b"", "")
    with pytest.raises(RouterNotFound):
        answer_of(get.handler(asked, "a"), gone="a")

"""All connections that run scripts have the same settings of the planner (store/planner.py)."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection

from store.connection import connect
from store.database import prepared
from store.planner import SESSION

NAMES = [line.split()[1] for line in SESSION.strip().splitlines()]
SETTINGS = f"SELECT {', '.join(f'current_setting({name!r})' for name in NAMES)}"
WANTED = tuple(line.rstrip(";").split()[3] for line in SESSION.strip().splitlines())


async def of_an_event_loop() -> tuple[str, ...]:
    opened = await connect()
    try:
        return tuple((await opened.execute(SETTINGS))[0])
    finally:
        await opened.close()


def of_a_thread() -> tuple[str, ...]:
    try:
        return tuple(prepared(SETTINGS, ())[0])
    finally:
        connection.close()


@pytest.mark.django_db(transaction=True)
def test_each_connection_plans_alike() -> None:
    with ThreadPoolExecutor(1) as threads:
        assert asyncio.run(of_an_event_loop()) == threads.submit(of_a_thread).result() == WANTED

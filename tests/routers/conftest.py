"""The clients of the API, short ways to make routers, and views of their effects."""

import itertools
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from tests.api.clients import ApiClient
from tests.api.conftest import api, keys, live, views

__all__ = ["api", "keys", "live", "views"]


@pytest.fixture
def names() -> Iterator[str]:
    """Topic and router names that nobody else uses."""
    prefix = f"r{uuid.uuid4().hex[:10]}"
    return (f"{prefix}.{number}" for number in itertools.count(1))


def route(live: ApiClient, source: str, dest: str, name: str | None = None, **config: Any) -> str:
    name = name or f"{source}->{dest}"
    reply = live.put(f"/v0/routers/{name}", {"source": source, "dest": dest, **config})
    assert reply.status == 201, reply.json
    return name


def read(live: ApiClient, topic: str, **body: Any) -> list[Any]:
    """The `data` of all that a topic shows."""
    found, from_seq, caught_up = [], 0, False
    while not caught_up:
        window = live.diff(topic, from_seq=from_seq, limit=1000, **body).json
        found += [record["data"] for record in window["records"]]
        from_seq, caught_up = window["next_from_seq"], window["caught_up"]
    return found

"""What a process remembers of topics is bounded, and the latest is kept."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from topics import cache
from topics.config import new_topic


@pytest.fixture(autouse=True)
def _empty() -> Iterator[None]:
    cache.forget_all()
    yield
    cache.forget_all()


def test_the_half_that_was_remembered_for_longest_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "MOST", 4)
    for id in range(1, 8):
        cache.keep(new_topic(id, f"t{id}", {}, 0))
        assert cache.cached(f"t{id}") is not None
    assert [id for id in range(1, 8) if cache.cached(f"t{id}")] == [5, 6, 7]

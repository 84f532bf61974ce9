"""The keys of `GATEWAY_KEY_FILE` while a gateway runs."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from gateway.configuration import keys

CURRENT, PREVIOUS = "c" * 32, "p" * 32


def test_the_previous_key_of_a_file_ends_after_a_day_without_a_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "keys"
    file.write_text(f"{CURRENT} {PREVIOUS}")
    monkeypatch.setenv("GATEWAY_KEY_FILE", str(file))
    watched, now = keys.watched(), time.time()
    assert watched is not None
    assert watched.accepted() == (CURRENT.encode(), PREVIOUS.encode())
    for seconds, held in ((keys.PREVIOUS_SECONDS - 600, 2), (keys.PREVIOUS_SECONDS + 600, 1)):
        assert len(watched.accepted(now + seconds)) == held
    file.write_text(f"{CURRENT[::-1]}n {CURRENT}")
    keys.WatchedKeys.look_now()
    assert len(watched.accepted(now + 600)) == 2

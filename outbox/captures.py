"""Captured tables for operators: their lost changes, and captures that ended although nobody ended them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from store.script import Script, Statement

# Few tables are captured, and one look reads them all. A table that was dropped has no triggers either.
CAPTURES = """
SELECT named, topic, lost, error, error_ts, capture_has_trigger(relid, id)
  FROM outbox_capture
 WHERE %(prefixes)s::text[] IS NULL OR topic ^@ ANY (%(prefixes)s)
 ORDER BY id LIMIT %(most)s
"""


class Captured(NamedTuple):
    """A captured table. `error`, `error_ts`: of the last loss, or of the snapshot. `is_live`: it has its triggers."""

    table: str
    topic: str
    lost: int
    error: str | None
    error_ts: int | None
    is_live: bool


def captured(prefixes: Sequence[str], most: int) -> Script[list[Captured]]:
    """Returns the captured tables, the oldest capture first. `prefixes`: of the names of their topics. Empty: all."""
    return [Captured(*row) for row in (yield Statement(CAPTURES, {"prefixes": list(prefixes) or None, "most": most}))]

"""Packs: rows of the outbox with many changes of a captured table (sql/functions/topics.capture_changes.sql).

The relay takes a pack apart as soon as it takes the row. From there on each change is a row like any emitted record. A loss is a
row, too, with its reason in place of the data: it becomes a tombstone at its place in the topic.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import msgspec

from outbox.rows import CAPTURED, Row
from store.script import Script, Statement
from topics.append.statements import array, texts

# While another transaction ends a capture, it holds the row until its commit. The records of all topics would wait with this
# statement, so the figures of such a capture are not added.
NOTE = """
UPDATE outbox_capture c
   SET changes = c.changes + found.changes, lost = c.lost + found.lost, error = coalesce(found.error, c.error),
       error_ts = CASE WHEN found.error IS NOT NULL THEN %(now)s::bigint ELSE c.error_ts END
  FROM ROWS FROM (unnest(%(ids)s::bigint[]), unnest(%(changes)s::bigint[]), unnest(%(losses)s::bigint[]),
                  json_array_elements_text(%(errors)s::json)) AS found (id, changes, lost, error)
 WHERE c.id = found.id
   AND c.id = ANY (ARRAY(SELECT id FROM outbox_capture WHERE id = ANY (%(ids)s::bigint[]) FOR NO KEY UPDATE SKIP LOCKED))
"""


class Pack(msgspec.Struct):
    """The data of a pack. An entry is `[tag, data]`, or `[null, reason]` for a change that could not be captured."""

    capture: int
    changes: list[tuple[str | None, msgspec.Raw]] = msgspec.field(default_factory=list)
    lost: int = 0
    """Number of changes that could not be captured, because the whole statement was refused for this reason."""
    reason: str = ""


def pack_of(capture: int, entries: Iterable[str]) -> Pack:
    """Returns a pack with these entries."""
    return msgspec.json.decode(f'{{"capture":{capture},"changes":[{",".join(entries)}]}}', type=Pack)


class Noted(NamedTuple):
    """The moved changes of a capture, its losses, and the reason of the last loss."""

    changes: int = 0
    lost: int = 0
    error: str | None = None


class Opened(NamedTuple):
    """Rows without packs by topic, and the figures of each capture."""

    rows: dict[str, list[Row]]
    noted: dict[int, Noted]


def opened(taken: Iterable[tuple[Any, ...]]) -> Opened:
    """Returns the rows that a relay took, by topic. Each is a tuple of the topic and a row."""
    found = Opened({}, {})
    for topic, *values in taken:
        row, rows = Row(*values), found.rows.setdefault(topic, [])
        if row.key != CAPTURED:
            rows.append(row)
            continue
        pack = msgspec.json.decode(row.data, type=Pack)
        each = list(unpacked(pack, row))
        rows += each
        before, losses = found.noted.get(pack.capture, Noted()), [other for other in each if other.lost]
        found.noted[pack.capture] = Noted(
            before.changes + len(each) - len(losses),
            before.lost + sum(other.lost for other in losses),
            losses[-1].reason if losses else before.error,
        )
    return found


def unpacked(pack: Pack, row: Row) -> Iterator[Row]:
    """Yields the changes and losses of a pack in their order."""
    around = 0 if row.meta is None else len(row.meta)
    for tag, data in pack.changes:
        text = bytes(data).decode()
        if text.startswith('"'):
            yield row.loss(1, msgspec.json.decode(data, type=str))
        else:
            yield row._replace(tag=tag, key=None, data=text, size=len(data) + around)
    if pack.lost:
        yield row.loss(pack.lost, pack.reason)


def note(noted: dict[int, Noted], now: int) -> Script[None]:
    """Adds the figures of captures to their rows, in the transaction of the caller. Waits for no other transaction."""
    if noted:
        found = noted.values()
        wanted = {
            "ids": array(list(noted)),
            "changes": array([each.changes for each in found]),
            "losses": array([each.lost for each in found]),
            "errors": texts([each.error for each in found]),
        }
        yield Statement(NOTE, {**wanted, "now": now})

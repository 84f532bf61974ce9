"""Refuses appends with a number that no double holds, to topics with `numbers: "double"` (docs/wire.md, "Numbers").

The log checks what clients append. It does not check records that the server moves from topic to topic.
"""

from __future__ import annotations

from base.doubles import beyond_double, overflow, overflows
from base.errors import InvalidRequest
from store.script import Script, Statement
from topics.append.records import Rows
from topics.cache import CachedTopic
from topics.sealed import IS_CURRENT

# How an error names a number: by the index of the record, by `data` or `meta`, and by the path within.
RECORD, ALONE = "records[{index}].{part}{path}", "{part}{path}"


def takes(topic: CachedTopic, rows: Rows, field: str = RECORD) -> Script[bool]:
    """Returns True if a topic that takes doubles alone takes these records.

    Returns False if the topic's version differs from the cached one. Raises InvalidRequest. `field`: as for check_numbers().
    """
    try:
        check_numbers(rows, field)
    except InvalidRequest:
        if (yield Statement(IS_CURRENT, (topic.id, topic.version), quick=True)):
            raise
        return False
    return True


def check_numbers(rows: Rows, field: str = RECORD) -> None:
    """Raises InvalidRequest if no topic that takes doubles alone may get these records.

    `field`: the form of a number's path in the request, such as RECORD.
    """
    if not overflows(b",".join((*rows.data, *rows.metas))):
        return
    for index, (data, meta) in enumerate(zip(rows.data, rows.metas, strict=True)):
        for part, json in (("data", bytes(data)), ("meta", bytes(meta))):
            if overflows(json):
                raise beyond_double(field.format(index=index, part=part, path=overflow(json)), index)

"""Reads the lag of a streaming query from its progress. Spark gives Python sources no way to add metrics of their own."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import StreamingQueryProgress


def lag(progress: StreamingQueryProgress) -> dict[str, int]:
    """Returns by topic how many seqs the query has yet to read. Sources other than `topics` are left out.

    `progress`: `query.lastProgress`, or the progress in an event of a StreamingQueryListener.
    """
    found: dict[str, int] = {}
    for source in progress.sources:
        end, latest = (json.loads(each or "null") for each in (source.endOffset, source.latestOffset))
        if not (isinstance(end, dict) and isinstance(latest, dict)):
            continue
        for topic, head in latest.items():
            if isinstance(head, dict) and head.keys() >= {"id", "seq"}:
                read = end.get(topic, {})
                found[topic] = head["seq"] - (read["seq"] if read.get("id") == head["id"] else 0)
    return found

"""Makes by SQL the state of a topic after a crash of PostgreSQL, if its last records were not flushed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

STEPS = (
    """
    UPDATE topics_topichead head
       SET head_seq = %(last)s, count = %(last)s - floor_seq,
           -- A topic at rest has given back its reserved seqs. A crash cannot take back what came before that in the WAL.
           reserved_seq = topic_reserve(head_seq, reserved_seq),
           bytes = (SELECT coalesce(sum(size), 0) FROM topics_record r WHERE r.topic_id = head.topic_id AND seq <= %(last)s)
      FROM topics_topic topic WHERE topic.id = head.topic_id AND name = %(name)s
    """,
    "DELETE FROM topics_record r USING topics_topic t WHERE t.id = r.topic_id AND t.name = %(name)s AND seq > %(last)s",
    "SELECT topics_skip_reserved()",
)


def take_back(execute: Callable[[str, dict[str, Any]], object], name: str, last_seq: int) -> None:
    """Take a topic of own records back to last_seq, and recover."""
    for step in STEPS:
        execute(step, {"name": name, "last": last_seq})

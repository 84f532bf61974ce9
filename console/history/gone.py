"""Deletes the samples of topics, routers and webhooks that no longer exist.

No page can show them. Otherwise, a site that makes and deletes many topics would have so many of them that they leave no room
for the samples of its other objects, and of the whole site (TOPICS_HISTORY_MAX_SAMPLES).
"""

from __future__ import annotations

from console.history.samples import STEP
from store.database import prepared

LOOKED = 10_000  # objects of a kind in one look


def look_at(table: str) -> str:
    """Returns the statement that lists the next objects with samples, each with whether the table still has it.

    Each object takes a probe of the index on samples, and one of the table's primary key.
    """
    return f"""
WITH RECURSIVE sampled (object_id) AS (
    SELECT min(object_id) FROM console_sample WHERE kind = %(kind)s AND object_id > %(after)s
     UNION ALL
    SELECT (SELECT min(object_id) FROM console_sample WHERE kind = %(kind)s AND object_id > sampled.object_id)
      FROM sampled WHERE object_id IS NOT NULL)
SELECT object_id, there IS NOT NULL
  FROM sampled LEFT JOIN LATERAL (SELECT true AS there FROM {table} WHERE id = object_id LIMIT 1) known ON true
 WHERE object_id IS NOT NULL LIMIT %(most)s
"""


OF_TOPICS = look_at("topics_topic")
OF_ROUTERS = look_at("routers_router")
OF_WEBHOOKS = look_at("push_webhook")
BY_KIND = {"topic": OF_TOPICS, "router": OF_ROUTERS, "hook": OF_WEBHOOKS}
DROP = """
WITH dropped AS (
    DELETE FROM console_sample WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM console_sample WHERE kind = %(kind)s AND object_id = ANY (%(ids)s::bigint[]) LIMIT %(step)s))
    RETURNING 1)
SELECT count(*) FROM dropped
"""


class GoneObjects:
    """The looks of a process. Each begins where the last one ended, and after the last object at the first again."""

    def __init__(self) -> None:
        self.after = dict.fromkeys(BY_KIND, 0)

    def drop(self) -> int:
        """Deletes the samples of gone objects among the next LOOKED of each kind. Returns the number of objects.

        A look that found some is followed by another, so that no site makes them faster than the looks find them.
        """
        gone = 0
        for kind in BY_KIND:
            while found := self.look(kind):
                gone += found
                if not self.after[kind]:
                    break
        return gone

    def look(self, kind: str) -> int:
        looked = prepared(BY_KIND[kind], {"kind": kind, "after": self.after[kind], "most": LOOKED})
        self.after[kind] = looked[-1][0] if len(looked) == LOOKED else 0
        ids = [id for id, is_there in looked if not is_there]
        more = bool(ids)
        while more:
            ((dropped,),) = prepared(DROP, {"kind": kind, "ids": ids, "step": STEP})
            more = dropped == STEP
        return len(ids)

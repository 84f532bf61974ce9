"""The rows of a topic about its sites (sql/tables/mirrors_site.sql)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from store.script import Script, Statement
from topics.cache import absent

CURSOR = "mirror:"  # and the name of the site that gets the records: the cursor of `topics mirror` at the source
# A topic that was never mirrored has one row, with nulls.
STATE = """
SELECT t.sealed, s.site, s.is_here, s.origin_seq, s.origin_ts, s.read_seq, s.lost, s.lost_ts, s.losses::text, s.updated_ts
  FROM topics_topic t LEFT JOIN mirrors_site s ON s.topic_id = t.id
 WHERE t.name = %s
 ORDER BY s.site
"""
SITES = """
SELECT site, is_here, origin_seq, origin_ts, read_seq, lost, lost_ts, losses::text, updated_ts
  FROM mirrors_site WHERE topic_id = %s
"""
SAVE = """
INSERT INTO mirrors_site (topic_id, site, is_here, origin_seq, origin_ts, read_seq, lost, lost_ts, losses, updated_ts)
SELECT %(topic_id)s, site, is_here, origin_seq, origin_ts, read_seq, lost, lost_ts, losses, %(now)s
  FROM jsonb_to_recordset(%(sites)s::jsonb)
       AS new (site text, is_here boolean, origin_seq bigint, origin_ts bigint, read_seq bigint, lost bigint, lost_ts bigint,
               losses jsonb)
ON CONFLICT (topic_id, site) DO UPDATE
   SET origin_seq = excluded.origin_seq, origin_ts = excluded.origin_ts, read_seq = excluded.read_seq, lost = excluded.lost,
       lost_ts = excluded.lost_ts, losses = excluded.losses, updated_ts = excluded.updated_ts
"""

MOST_LOSSES = 100  # of a site, in its row


class SiteLoss(msgspec.Struct):
    """A loss of another site."""

    lost_seq: int
    """The last lost seq at the site."""
    told_seq: int
    """The last seq of the tombstone in this topic."""


class Site(NamedTuple):
    """A row of mirrors_site (sql/tables/mirrors_site.sql)."""

    site: str
    is_here: bool = False
    origin_seq: int = 0
    origin_ts: int | None = None
    read_seq: int | None = None
    lost: int = 0
    lost_ts: int | None = None
    losses: Sequence[SiteLoss] = ()
    updated_ts: int = 0

    @classmethod
    def of(cls, row: Sequence[Any]) -> Site:
        found = cls(*row)
        return found._replace(losses=msgspec.json.decode(row[-2], type=list[SiteLoss]))

    @property
    def covered_seq(self) -> int:
        """All records of the site's topic up to this seq have arrived here, or readers here were told of their loss."""
        return max(self.origin_seq, self.read_seq or 0, *(each.lost_seq for each in self.losses[-1:]))


class TopicSites(NamedTuple):
    """`here`: the topic's own name among the sites, or None. `sites`: the other sites, by name."""

    here: str | None
    sites: list[Site]
    is_sealed: bool


def state(topic: str) -> Script[TopicSites]:
    """Returns the sites of a topic. Raises TopicNotFound."""
    rows = yield Statement(STATE, (topic,), quick=True)
    if not rows:
        raise absent(topic)
    sites = [Site.of(row[1:]) for row in rows if row[1] is not None]
    here = next((each.site for each in sites if each.is_here), None)
    return TopicSites(here, [each for each in sites if not each.is_here], rows[0][0])

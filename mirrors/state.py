"""The sites of a topic, as state that a move takes to another server (topics/state.py)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from base.clock import now_ms
from mirrors.sites import MOST_LOSSES, SAVE, SiteLoss
from store.script import Script, Statement
from topics.audit import as_json
from topics.cache import CachedTopic
from topics.state import Number, StateKind, check_seqs


class Site(msgspec.Struct, forbid_unknown_fields=True):
    """The positions of a topic at a site (sql/tables/mirrors_site.sql)."""

    site: Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,254}\Z")]
    is_here: bool
    origin_seq: Number
    origin_ts: Number | None
    read_seq: Number | None
    lost: Number
    lost_ts: Number | None
    losses: Annotated[list[SiteLoss], Meta(max_length=MOST_LOSSES)]


PAGE = """
SELECT site, json_build_object('site', site, 'is_here', is_here, 'origin_seq', origin_seq, 'origin_ts', origin_ts,
                               'read_seq', read_seq, 'lost', lost, 'lost_ts', lost_ts, 'losses', losses)::text
  FROM mirrors_site
 WHERE topic_id = %(topic_id)s AND site > %(after)s
 ORDER BY site LIMIT %(limit)s
"""


def check(row: Site, head_seq: int) -> None:
    for each in row.losses:
        check_seqs(head_seq, told_seq=each.told_seq)


def save(topic: CachedTopic, rows: Sequence[Site]) -> Script[None]:
    yield Statement(SAVE, {"topic_id": topic.id, "sites": as_json(rows), "now": now_ms()})


KIND = StateKind(Site, PAGE, check, save, most=100)

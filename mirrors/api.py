"""The calls of mirrors (docs/wire.md, "Mirrors")."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from base.clock import now_ms
from base.errors import (
    BatchTooLarge,
    CursorMoved,
    Incompatible,
    RecordTooLarge,
    TopicFull,
    TopicNotFound,
    TopicSealed,
)
from contract.operations import Operation
from mirrors import sites
from mirrors.handover import Handover, receive
from store.script import Script
from topics.api.shapes import HeadSeq, TopicName
from topics.sealed import DESCRIBED, told
from wire import metrics
from wire.answer import Answer
from wire.endpoint import Call, Endpoint
from wire.schema import Performance

TAG = "mirrors"


class SiteShown(msgspec.Struct):
    """The state of a topic about another site."""

    site: str
    """Name of the site."""
    read_seq: int | None
    """The last seq of the site's topic that a mirror has handed over. Null: no mirror reads from there."""
    origin_seq: int
    """The last record here that was appended at the site, as the seq at the site. 0: none."""
    origin_ts: int | None
    """Time of its append at the site, in milliseconds since the epoch. Null: none."""
    lost: int
    """Number of seqs that the site had lost before a handover: an upper bound for the lost records."""
    lost_ts: int | None
    """Time of the last handover with a loss, in milliseconds since the epoch. Null: none."""
    losses: Sequence[sites.SiteLoss]
    """The last 100 losses, the oldest first."""
    updated_ts: int
    """Time of the last change, in milliseconds since the epoch."""


class SitesAnswer(msgspec.Struct, kw_only=True):
    topic: TopicName
    here: str | None
    """Name of the site on this server. Null: the topic was never mirrored."""
    sites: list[SiteShown]
    """The other sites, by name."""
    performance: Performance


class HandoverAnswer(msgspec.Struct, kw_only=True):
    topic: TopicName
    here: str
    """Name of this site."""
    source: str
    """Name of the site that had the records."""
    read_seq: int
    """The `from_seq` of the next handover."""
    count: int
    """Number of appended records."""
    skipped: int
    """Number of skipped records: known records, and records of this site."""
    lost: int
    """Number of lost seqs of the source in all handovers."""
    head_seq: HeadSeq
    created: bool
    """True: this handover created the topic."""
    performance: Performance


@Endpoint(
    Operation.MIRROR,
    scope="write",
    body=Handover,
    answers={200: HandoverAnswer, 201: HandoverAnswer},
    errors=(TopicNotFound, CursorMoved, Incompatible, TopicSealed, TopicFull, BatchTooLarge, RecordTooLarge),
    tells=DESCRIBED,
    example={
        "here": "iad",
        "source": "fra",
        "from_seq": 0,
        "next_from_seq": 7,
        "records": [{"$seq": 7, "$ts": 1700000000000, "$tag": "order:7", "data": {"id": 7}}],
    },
    needs_body=True,
    tag=TAG,
)
def hand_over(call: Call[Handover, None], topic: str) -> Script[Answer]:
    """Append the next records of another site, and move the position in its topic. Also needs the scope `commit`."""
    wanted = call.body
    call.key.check("commit")
    wanted.check(call.key)
    done = yield from receive(topic, wanted, now_ms())
    metrics.appended(done.written)
    answer = HandoverAnswer(
        topic=topic,
        here=wanted.here,
        source=wanted.source,
        read_seq=done.read_seq,
        count=done.written,
        skipped=done.skipped,
        lost=done.lost,
        head_seq=done.head_seq,
        created=done.created,
        performance=call.performance(),
    )
    return call.answer(answer, status=201 if done.created else 200)


@Endpoint(
    Operation.GET_MIRROR,
    scope="read",
    answers={200: SitesAnswer},
    errors=(TopicNotFound,),
    tells=DESCRIBED,
    tag=TAG,
)
def get(call: Call[None, None], topic: str) -> Script[Answer]:
    """Get the positions and losses of a topic, for each other site."""
    found = yield from sites.state(topic)
    shown = [
        SiteShown(
            each.site,
            each.read_seq,
            each.origin_seq,
            each.origin_ts,
            each.lost,
            each.lost_ts,
            each.losses,
            each.updated_ts,
        )
        for each in found.sites
    ]
    answer = SitesAnswer(topic=topic, here=found.here, sites=shown, performance=call.performance())
    return call.answer(answer, headers=told(found.is_sealed))


endpoints = (hand_over, get)

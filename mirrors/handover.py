"""A handover: the next records of a site's topic, which a mirror has read there and appends here (docs/wire.md, "Mirrors").

The position in the site's topic is committed together with the records, and a handover from another position is refused. So
neither a repeated handover nor a second process of a mirror appends a record twice. A record can arrive on several ways. The seqs
of an origin arrive in order on each way, so the topic compares each seq with the last one.

If the source lost records before the mirror read them, readers here get a tombstone `source_trim`, as they do behind a router.
Its seqs are a piece of the log without a record. A loss names its site, and the last lost seq there. So
readers get a loss of several ways once, and no loss returns to its site.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import msgspec

from base.bounds import MIRROR_STAMP
from base.errors import BatchTooLarge, Incompatible, InvalidRequest, SiteMoved, TopicsError
from base.names import check_topic_name
from contract.reading import Seq
from mirrors.sites import MOST_LOSSES, SAVE, SITES, Site, SiteLoss
from mirrors.stamps import Origin, stamped
from store import disk
from store.script import Script, Statement, atomically
from topics import limits, sealed, wake
from topics.append.appending import append_once
from topics.append.copies import MOST_SEQ, CopiedRecord, CopiedTombstone, LostSeq
from topics.append.records import MAX_RECORDS, Append, Rows, columns
from topics.audit import as_json
from topics.cache import CachedTopic, absent, forget_known, known_topic
from topics.config import Config, create_topic
from topics.delete.records import expire_backlog
from topics.heads import LOCK_CURRENT_HEAD
from topics.models import Topic
from wire.access.keys import Key
from wire.request.parse import Request

NO_RECORDS = Rows([], [], [], [], [], 0)
LOSE = "SELECT router_lose(%s, %s, %s, %s)"
PATH = [MIRROR_STAMP]  # of the piece of a loss. No router has this name, so each router forwards the loss


class LossOf(msgspec.Struct, forbid_unknown_fields=True):
    """A loss of another site. The source has told it to its readers."""

    site: str
    """Name of the site with the loss."""
    lost_seq: LostSeq
    """The last lost seq at the site."""


class Handover(Request):
    """The body of a handover: the answer of a diff with `include_tags`, and the names of both sites."""

    here: str
    """Name of the site on this server. A topic keeps the first name (409 `topic_exists_incompatible`)."""
    source: str
    """Name of the site that had the records."""
    from_seq: Seq
    """The `from_seq` of the diff: the `read_seq` of the source in the last answer, or 0 in the first call. Otherwise 409
    `cursor_moved`, with the position as `detail.seq`."""
    next_from_seq: Seq
    """The `next_from_seq` of the diff."""
    records: list[CopiedRecord] = []
    """The `records` of the diff with `include_tags`, up to 10000. The topic skips records with a known origin."""
    tombstone: CopiedTombstone | None = None
    """The `tombstone` of the diff. Readers get a tombstone `source_trim` for as many seqs, unless they know the loss."""
    losses: list[LossOf] = []
    """`{site, lost_seq}` of losses in `GET …/mirror` of the source: each with a `told_seq` above `from_seq`, up to `gap_to`."""
    create: bool = True
    """True: the handover creates an absent topic. False: if the topic is absent, the answer is 404."""
    config: Config | None = None
    """The config of a topic that the handover creates. Needs the scope `admin`."""

    @property
    def gap(self) -> int:
        """Number of lost seqs behind `from_seq`."""
        return 0 if self.tombstone is None else self.tombstone.gap_to - self.from_seq

    def check(self, key: Key) -> None:
        """Raises InvalidRequest, BatchTooLarge, Forbidden or StorageFull."""
        disk.check()
        if check_topic_name(self.here, "here") == check_topic_name(self.source, "source"):
            raise InvalidRequest("here and source are equal: choose two names for the two sites", field="source")
        if len(self.records) > MAX_RECORDS:
            raise BatchTooLarge(
                f"{len(self.records)} records in one handover: expected at most {MAX_RECORDS}", max=MAX_RECORDS
            )
        gap_to = 0 if self.tombstone is None else self.tombstone.gap_to
        if gap_to > self.next_from_seq:
            raise InvalidRequest(
                f"gap_to is {gap_to}: expected at most {self.next_from_seq}, the next_from_seq", field="tombstone"
            )
        for each in self.losses:
            check_topic_name(each.site, "losses")
        seqs = [max(self.from_seq, gap_to), *(each.seq for each in self.records), self.next_from_seq + 1]
        if any(seq <= before for before, seq in pairwise(seqs)):
            raise InvalidRequest(
                f"the $seq of records must ascend from {seqs[0] + 1} to {self.next_from_seq}, the next_from_seq",
                field="records",
            )
        if self.config is not None:
            self.config.check_key(key)
            if self.config.sealed is True or self.config.type == Topic.Type.QUEUE:
                raise InvalidRequest("a handover creates a log that is not sealed", field="config")


class Received(NamedTuple):
    """The result of a handover.

    `written`, `skipped`: numbers of records. `lost`: see sql/tables/mirrors_site.sql. `has_news`: readers get records or a
    tombstone.
    """

    read_seq: int
    written: int
    skipped: int
    lost: int
    head_seq: int
    created: bool
    has_news: bool
    wal_append_ms: float = 0.0


class Offer(NamedTuple):
    """The records of a handover that are not from here, with their stamps."""

    origins: list[Origin]
    rows: Rows

    def beyond(self, known: dict[str, Site]) -> tuple[list[Origin], Rows]:
        """Returns the records that the topic does not have."""
        last = {site: each.origin_seq for site, each in known.items()}
        new = []
        for place, (site, seq, _) in enumerate(self.origins):
            if seq > last.get(site, 0):
                last[site] = seq
                new.append(place)
        if len(new) == len(self.origins):
            return self.origins, self.rows
        return [self.origins[place] for place in new], chosen(self.rows, new)


def receive(name: str, wanted: Handover, now: int) -> Script[Received]:
    """Appends the records that the topic does not have, and moves its position in the topic of the source.

    Raises TopicNotFound, SiteMoved, Incompatible, TopicSealed, TopicFull, InvalidRequest, Throttled or NotReady. Then nothing
    has changed.
    """
    offer = offered(name, wanted)
    if limits.MOST_TOTAL_BYTES:
        yield from limits.check_total_bytes(offer.rows.bytes)
    created = False
    while True:
        topic = yield from known_topic(name)
        if topic is not None:
            done = yield from attempt(topic, wanted, offer, now)
            if done is not None:
                return done._replace(created=created)
            forget_known(topic)  # the topic was configured, deleted or created after the look-up
        elif not wanted.create:
            raise absent(name)
        else:
            fields = wanted.config.fields() if wanted.config is not None else {}
            created = yield from create_topic(name, fields, now, noted=False)


def attempt(topic: CachedTopic, wanted: Handover, offer: Offer, now: int) -> Script[Received | None]:
    """Receives once, and wakes the readers. Returns None if the topic's version differs from the cached one."""
    if topic.rejects and not (yield from expire_backlog(topic, now)):
        return None
    try:
        done = yield from atomically(receive_once(topic, wanted, offer, now), topic.id)
    except TopicsError as error:
        sealed.marked(error, topic.sealed)
        raise
    if done is not None and done.has_news:
        wake.moved(topic, done.head_seq)
    return done


def offered(topic: str, wanted: Handover) -> Offer:
    """Raises InvalidRequest or RecordTooLarge."""
    found = [each for each in stamped(wanted.records, topic, wanted.source) if each[0].site != wanted.here]
    rows = columns([record for _, record in found], None, is_copy=True) if found else NO_RECORDS
    return Offer([origin for origin, _ in found], rows)


def receive_once(topic: CachedTopic, wanted: Handover, offer: Offer, now: int) -> Script[Received | None]:
    """Receives once. Returns None if the topic's version differs from the cached one."""
    if topic.type == Topic.Type.QUEUE:
        raise Incompatible(f"topic {topic.name!r} is a queue: a mirror needs a log", type=topic.type)
    held = yield Statement(LOCK_CURRENT_HEAD, (topic.id, topic.version))
    if not held:
        return None
    ((head_seq, _),) = held
    known = {row[0]: Site.of(row) for row in (yield Statement(SITES, (topic.id,)))}
    check_names(topic.name, wanted, known)
    source = known.get(wanted.source, Site(wanted.source))
    read_seq = source.read_seq or 0
    if wanted.from_seq != read_seq:
        raise SiteMoved.of(site=wanted.source, seq=read_seq, from_seq=wanted.from_seq)
    lost = losses(wanted, known)
    if lost:
        if topic.sealed:
            raise sealed.refused(topic.name)
        gap = min(wanted.gap, MOST_SEQ - head_seq)
        yield Statement(LOSE, (topic.id, gap, now, PATH))
        head_seq += gap
    told_seq = head_seq
    origins, rows = offer.beyond(known)
    wal_append_ms = 0.0
    if origins:
        done = yield from append_once(topic, Append(records=[]), rows, now)
        if done is None:
            return None
        head_seq, wal_append_ms = done.head_seq, done.wal_append_ms
    after = moved(wanted, known, origins, lost, told_seq, now)
    if after != known:
        changed = [each._asdict() for site, each in after.items() if each != known.get(site)]
        yield Statement(SAVE, {"topic_id": topic.id, "sites": as_json(changed), "now": now})
    skipped = len(wanted.records) - len(origins)
    return Received(
        wanted.next_from_seq,
        len(origins),
        skipped,
        after[wanted.source].lost,
        head_seq,
        created=False,
        has_news=bool(origins or lost),
        wal_append_ms=wal_append_ms,
    )


def check_names(topic: str, wanted: Handover, known: dict[str, Site]) -> None:
    """Raises Incompatible if the topic has another name among the sites, or if the source has the topic's name."""
    here = next((each.site for each in known.values() if each.is_here), wanted.here)
    if here != wanted.here:
        raise Incompatible(
            f"topic {topic!r} of the server is the site {here!r}, not {wanted.here!r}: use the names of earlier handovers. "
            "If both URLs of a mirror lead to one server, use two servers",
            site=here,
        )
    if wanted.here in known and not known[wanted.here].is_here:
        raise Incompatible(
            f"topic {topic!r} has records of another site {wanted.here!r}: choose another name for the site here",
            site=wanted.here,
        )


def losses(wanted: Handover, known: dict[str, Site]) -> dict[str, int]:
    """Returns the losses that are new to the topic: the last lost seq by site."""
    tombstone = wanted.tombstone
    if tombstone is None or wanted.gap <= 0:
        return {}
    lost = {each.site: each.lost_seq for each in sorted(wanted.losses, key=lambda each: each.lost_seq)}
    if tombstone.reason != "source_trim" or not lost:  # otherwise a mirror told this loss at the source
        lost[wanted.source] = tombstone.gap_to
    return {
        site: seq for site, seq in lost.items() if site != wanted.here and seq > known.get(site, Site(site)).covered_seq
    }


def moved(
    wanted: Handover, known: dict[str, Site], origins: Sequence[Origin], lost: dict[str, int], told_seq: int, now: int
) -> dict[str, Site]:
    """Returns the rows of the topic after the handover. `told_seq`: the head after the piece of the losses."""
    after = {wanted.here: Site(wanted.here, is_here=True), wanted.source: Site(wanted.source), **known}
    for site, seq, ts in origins:  # ascending for each site
        after[site] = after.get(site, Site(site))._replace(origin_seq=seq, origin_ts=ts)
    for site, seq in lost.items():
        before = after.get(site, Site(site))
        after[site] = before._replace(
            lost=min(before.lost + wanted.gap, MOST_SEQ),
            lost_ts=now,
            losses=[*before.losses, SiteLoss(seq, told_seq)][-MOST_LOSSES:],
        )
    after[wanted.source] = after[wanted.source]._replace(read_seq=wanted.next_from_seq)
    return after


def chosen(rows: Rows, places: Sequence[int]) -> Rows:
    """Returns the rows at these places."""
    data, tags, nodes, metas, sizes, _ = rows
    kept = [sizes[place] for place in places]
    return Rows(
        [data[place] for place in places],
        [tags[place] for place in places],
        [nodes[place] for place in places],
        [metas[place] for place in places],
        kept,
        sum(kept),
    )

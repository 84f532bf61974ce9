"""Reads a topic by seq (docs/wire.md). PostgreSQL finds the window and writes its records (sql/functions/topic_diff.sql)."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
from django.conf import settings

from base.clock import now_ms
from base.labels import MAX_NODE_BYTES, MAX_TAG_BYTES
from base.names import after_prefix
from contract.operations import LONGEST_WAIT_MS
from contract.reading import Match, PageFields, ReadFields, match_in_query, nodes_of, predicate_of
from store.script import Pause, Script, Statement
from topics.cache import CachedTopic, as_known
from topics.hooks import hooks
from topics.read import recency
from topics.read.stamps import seen
from wire.access.keys import Key
from wire.answer import clamped
from wire.request.parse import Request, parse

DIFF = """
SELECT records, scanned, next_from_seq, head_seq, earliest_seq, lost, gap_to, lost_from
  FROM topic_diff(%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
"""

# Without `match` and `node`, every live record matches, and DIFF finds the same window.
MATCHES = """
SELECT records, scanned, next_from_seq, head_seq, earliest_seq, lost, gap_to, lost_from, scanned_to
  FROM topic_diff_matches(%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
"""

SEQ_BEFORE = """
SELECT topic_seq_at(topic_id, floor_seq, head_seq, %s) - 1 FROM topics_topichead WHERE topic_id = %s AND version = %s
"""

MAX_NODES = settings.TOPICS_MAX_NODES
MAX_LIMIT, MAX_BYTES = settings.TOPICS_DIFF_MAX_LIMIT, settings.TOPICS_DIFF_BYTES  # limits of a window
MOST_EXAMINED = 5_000  # records that one call examines to find matches


class Read(ReadFields, Request):
    """Fields of a read, in a body or in a query."""


class Diff(PageFields, Read):
    """The body of a diff."""


class Window(NamedTuple):
    """The result of a read. `records` is the JSON of the records, joined by commas.

    `lost_from`: the first seq of a loss by a crash or a restart. If `lost_from` is not above the reader's seq, the crash
    took records that the reader has. `scanned_to`: the last examined seq, if the read ended before it had all matches.
    """

    records: str | None
    scanned: int
    next_from_seq: int
    head_seq: int
    earliest_seq: int
    lost: str | None
    gap_to: int
    lost_from: int | None = None
    scanned_to: int | None = None
    sealed: bool = False

    @property
    def caught_up(self) -> bool:
        return self.next_from_seq == self.head_seq

    def left(self, order: str) -> int:
        """Returns the number of seqs that a reader in this order has not examined."""
        return self.next_from_seq - self.earliest_seq if order == "desc" else self.head_seq - self.next_from_seq

    def seen_by(self, key: Key) -> Window:
        """Returns the window with "*" in place of hidden names in the records."""
        return self._replace(records=seen(self.records, key.prefixes)) if self.records and key.prefixes else self

    def gap(self, from_seq: int) -> dict[str, int]:
        """Returns the range of the tombstone for a reader at from_seq. If no seq lies between, `gap_from` is `gap_to` + 1."""
        gap = {"gap_from": min(from_seq, self.gap_to) + 1, "gap_to": self.gap_to}
        return gap if self.lost_from is None else gap | {"lost_from": self.lost_from}

    def for_a_start_at(self, seq: int) -> Window:
        """Returns the window without the tombstone `recreated` if that ends at `seq`. For a reader that chose this seq in
        the topic that exists now."""
        return self._replace(lost=None) if self.lost == "recreated" and self.gap_to == seq else self

    def tells(self, from_seq: int) -> bool:
        """Whether the window has anything new for a reader at from_seq."""
        return self.next_from_seq != from_seq or not self.caught_up or self.lost is not None


def check_nodes(node: str | list[str] | None) -> list[str] | None:
    """Returns the reader's own nodes. Raises InvalidRequest for too many nodes, and for a node that no record can have."""
    return None if node is None else nodes_of(node, MAX_NODES, MAX_NODE_BYTES) or None


def match_of(text: str) -> Match:
    """Returns a predicate on tags from a query: a tag, or a predicate as JSON. Raises InvalidRequest."""
    return match_in_query(text, lambda json: parse(json, Match))  # type: ignore[arg-type]


def check_match(match: Match | None) -> tuple[str | None, str | None]:
    """Returns a predicate on tags as (op, literal). The literal of a Glob lacks its `*`. Raises InvalidRequest."""
    return predicate_of(match, MAX_TAG_BYTES)


def statement(topic: CachedTopic, wanted: Diff, now: int) -> Statement:
    """Returns the statement that reads the window. Raises InvalidRequest."""
    op, literal = check_match(wanted.match)
    nodes = check_nodes(wanted.node)
    if not topic.dedupe_node:
        nodes = None
    shown = (wanted.include_tags, wanted.include_meta, MAX_BYTES, topic.expired_ts(now))
    known = (topic.id, topic.version, wanted.from_seq)
    limit = min(wanted.tail or wanted.limit, MAX_LIMIT)
    if not wanted.counts_matches or ((op, nodes) == (None, None) and not wanted.is_backward):
        return Statement(DIFF, (*known, limit, nodes, op, literal, *shown), quick=True)
    end = after_prefix(literal) if op == "Glob" and literal is not None else None
    order = "tail" if wanted.tail is not None else wanted.order
    return Statement(MATCHES, (*known, limit, nodes, op, literal, end, order, *shown, MOST_EXAMINED), quick=True)


def tombstone(window: Window, from_seq: int) -> dict[str, Any] | None:
    """Returns the tombstone of the window for a reader at from_seq, or None if nothing was lost."""
    if window.lost is None:
        return None
    return {
        **window.gap(from_seq),
        "reason": window.lost,
        "missed_estimate": max(window.gap_to - from_seq, 0),
        "earliest_seq": window.earliest_seq,
        "head_seq": window.head_seq,
    }


def render(topic: str, window: Window, wanted: Diff, server_total_ms: float) -> bytes:
    """Returns the body of the answer."""
    lost = None if window.lost is None else tombstone(window, wanted.from_seq)
    told = ""
    tail = wanted.tail or 0
    if wanted.limit > MAX_LIMIT or tail > MAX_LIMIT or wanted.wait_ms > LONGEST_WAIT_MS:
        used = clamped(
            tail=(tail, min(tail, MAX_LIMIT)),
            limit=(wanted.limit, min(wanted.limit, MAX_LIMIT)),
            wait_ms=(wanted.wait_ms, min(wanted.wait_ms, LONGEST_WAIT_MS)),
        )
        told = f'"clamped":{msgspec.json.encode(used).decode()},'
    if window.scanned_to is not None:
        told += f'"scanned_to":{window.scanned_to},'
    left = window.left(wanted.order)
    return (
        f'{{"topic":"{topic}","records":[{window.records or ""}],"next_from_seq":{window.next_from_seq},'
        f'"head_seq":{window.head_seq},"earliest_seq":{window.earliest_seq},'
        f'"caught_up":{"false" if left else "true"},'
        f'"tombstone":{msgspec.json.encode(lost).decode() if lost else "null"},'
        f'"lag":{left},{told}'
        f'"performance":{{"server_total_ms":{server_total_ms:.3f},"records_scanned":{window.scanned}}}}}'
    ).encode()


class UntilMoved(Pause):
    """Waits until the topic's head differs from `head_seq`, the topic is sealed, or `seconds` are over.

    The answer is whether the reader may wait again after another read.
    """

    def __init__(self, topic_id: int, head_seq: int, seconds: float) -> None:
        self.topic_id, self.head_seq, self.seconds = topic_id, head_seq, seconds

    async def over(self) -> bool:
        return await hooks.value.until_moved(self.topic_id, self.head_seq, self.seconds)


def read_window(name: str, wanted: Diff, now: int) -> Script[tuple[CachedTopic, Window]]:
    """Returns a topic and its next window. Raises TopicNotFound, InvalidRequest or NotReady."""

    def read(topic: CachedTopic) -> Script[tuple[CachedTopic, Window] | None]:
        if topic.derived:
            yield from hooks.value.before_read(topic, now)
        rows = yield statement(topic, wanted, now)
        if not rows:
            return None
        recency.note(topic.id, now)
        window = Window(*rows[0])
        return topic, window._replace(sealed=True) if topic.sealed else window

    return as_known(name, read)


def diff(name: str, wanted: Diff, clock: Callable[[], int] = now_ms) -> Script[Window]:
    """Returns the next window of a topic. If the window has nothing new, waits up to `wait_ms`.

    A read of a sealed topic does not wait.

    Raises TopicNotFound, InvalidRequest or NotReady.
    """
    wanted.check_start()
    if wanted.from_ts is not None:
        wanted.from_seq = yield from seq_before(name, wanted.from_ts, clock())
    may_wait = wanted.wait_ms > 0
    ends = time.monotonic() + min(wanted.wait_ms, LONGEST_WAIT_MS) / 1000 if may_wait else 0.0
    while True:
        topic, window = yield from read_window(name, wanted, clock())
        if wanted.from_ts is not None:
            window = window.for_a_start_at(wanted.from_seq)
        if not may_wait or window.sealed or window.tells(wanted.from_seq):
            return window
        if (left := ends - time.monotonic()) <= 0:
            return window
        may_wait = yield UntilMoved(topic.id, window.head_seq, left)


def seq_before(name: str, from_ts: int, now: int) -> Script[int]:
    """Returns the seq after which a read starts that asks for records from time `from_ts` on. Raises TopicNotFound."""

    def look(topic: CachedTopic) -> Script[int | None]:
        # A reader that starts at a time never had the expired records. So the read starts after the expired records,
        # without a tombstone.
        since = max(from_ts, topic.expired_ts(now) or 0)
        rows = yield Statement(SEQ_BEFORE, (since, topic.id, topic.version), quick=True)
        return int(rows[0][0]) if rows else None

    return as_known(name, look)

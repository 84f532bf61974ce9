"""Reads a topic by seq (docs/wire.md). PostgreSQL finds the window and writes its records (sql/functions/topic_diff.sql)."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
from django.conf import settings
from msgspec import Meta

from base.bounds import check_token
from base.clock import now_ms
from base.errors import InvalidRequest
from base.names import MAX_TAG_BYTES, check_node
from store.script import Pause, Script, Statement
from topics import recency
from topics.cache import CachedTopic, as_known
from topics.hooks import hooks
from topics.stamps import seen
from wire.answer import clamped
from wire.keys import Key
from wire.parse import Request

DIFF = """
SELECT records, scanned, next_from_seq, head_seq, earliest_seq, lost, gap_to, lost_from
  FROM topic_diff(%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
"""

SEQ_BEFORE = """
SELECT topic_seq_at(topic_id, floor_seq, head_seq, %s) - 1 FROM topics_topichead WHERE topic_id = %s AND version = %s
"""

MAX_WAIT_MS = 30_000  # maximum wait of a long poll
MAX_NODES = settings.TOPICS_MAX_NODES
MAX_LIMIT, MAX_BYTES = settings.TOPICS_DIFF_MAX_LIMIT, settings.TOPICS_DIFF_BYTES  # limits of a window
Seq = Annotated[int, Meta(ge=0, le=2**63 - 1)]
TagCondition = Annotated[tuple[Literal["tag"], Literal["Eq", "Glob"], str], Meta(title="TagCondition")]
Match = TagCondition | str


class Read(Request):
    """Fields of a read, in a body or in a query."""

    from_seq: Seq = 0
    """Read the records after this seq. Send the `next_from_seq` of the last answer. 0: from the beginning."""
    from_ts: Seq | None = None
    """In place of `from_seq`, in milliseconds since the epoch: start at the first record with this `$ts` or a later one."""
    limit: Annotated[int, Meta(ge=1, le=2**63 - 1)] = 256
    """Maximum number of live records to look at, before `node` and `match` leave any out. More than 1000 means 1000."""
    include_tags: bool = False
    """Whether records show their `$tag`."""
    include_meta: bool = True
    """Whether records show their `meta`."""
    wait_ms: Annotated[int, Meta(ge=0, le=2**63 - 1)] = 0
    """Long poll: maximum milliseconds that the answer waits if the topic has nothing new. More than 30000 means 30000."""


class Diff(Read):
    """The body of a diff."""

    node: str | list[str] | None = None
    """Nodes of the reader, one or up to 1000. The answer leaves out the records of these nodes."""
    match: Match | None = None
    """Only records with a matching tag: `["tag", "Eq", "order:7"]`, `["tag", "Glob", "order:*"]`, or a string, which means
    `Eq`. A Glob is a prefix and one `*` at its end."""


class Window(NamedTuple):
    """The result of a read. `records` is the JSON of the records, joined by commas.

    `lost_from`: the first seq of a loss by a crash or a restart. If `lost_from` is not above the reader's seq, the crash
    took records that the reader has.
    """

    records: str | None
    scanned: int
    next_from_seq: int
    head_seq: int
    earliest_seq: int
    lost: str | None
    gap_to: int
    lost_from: int | None = None
    sealed: bool = False

    @property
    def caught_up(self) -> bool:
        return self.next_from_seq == self.head_seq

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
    if node is None:
        return None
    nodes = [node] if isinstance(node, str) else node
    if len(nodes) > MAX_NODES:
        raise InvalidRequest(f"{len(nodes)} nodes: expected at most {MAX_NODES}")
    for each in nodes:
        check_node(each)
    return nodes or None


def check_match(match: Match | None) -> tuple[str | None, str | None]:
    """Returns a predicate on tags as (op, literal). The literal of a Glob lacks its `*`. Raises InvalidRequest."""
    if match is None:
        return None, None
    op, pattern = ("Eq", match) if isinstance(match, str) else (match[1], match[2])
    # A tag has at most MAX_TAG_BYTES. A Glob can have a prefix of this length, and the `*`.
    check_token("match", pattern, MAX_TAG_BYTES + (op == "Glob"))
    if op == "Eq":
        return op, pattern
    if pattern.count("*") != 1 or not pattern.endswith("*"):
        raise InvalidRequest(f"invalid Glob {pattern[:80]!r}: expected a prefix without *, and one * at its end")
    return op, pattern[:-1]


def parameters(topic: CachedTopic, wanted: Diff, now: int) -> tuple[Any, ...]:
    """Returns the arguments of DIFF. Raises InvalidRequest."""
    op, literal = check_match(wanted.match)
    nodes = check_nodes(wanted.node)
    return (
        topic.id,
        topic.version,
        wanted.from_seq,
        min(wanted.limit, MAX_LIMIT),
        nodes if topic.dedupe_node else None,
        op,
        literal,
        wanted.include_tags,
        wanted.include_meta,
        MAX_BYTES,
        topic.expired_ts(now),
    )


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
    if wanted.limit > MAX_LIMIT or wanted.wait_ms > MAX_WAIT_MS:
        used = clamped(
            limit=(wanted.limit, min(wanted.limit, MAX_LIMIT)),
            wait_ms=(wanted.wait_ms, min(wanted.wait_ms, MAX_WAIT_MS)),
        )
        told = f'"clamped":{msgspec.json.encode(used).decode()},'
    return (
        f'{{"topic":"{topic}","records":[{window.records or ""}],"next_from_seq":{window.next_from_seq},'
        f'"head_seq":{window.head_seq},"earliest_seq":{window.earliest_seq},'
        f'"caught_up":{"true" if window.caught_up else "false"},'
        f'"tombstone":{msgspec.json.encode(lost).decode() if lost else "null"},'
        f'"lag":{window.head_seq - window.next_from_seq},{told}'
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
        rows = yield Statement(DIFF, parameters(topic, wanted, now), quick=True)
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
    if wanted.from_ts is not None:
        if wanted.from_seq:
            raise InvalidRequest("from_seq and from_ts exclude each other: send one")
        wanted.from_seq = yield from seq_before(name, wanted.from_ts, clock())
    may_wait = wanted.wait_ms > 0
    ends = time.monotonic() + min(wanted.wait_ms, MAX_WAIT_MS) / 1000
    while True:
        topic, window = yield from read_window(name, wanted, clock())
        if wanted.from_ts is not None:
            window = window.for_a_start_at(wanted.from_seq)
        left = ends - time.monotonic()
        if not may_wait or left <= 0 or window.sealed or window.tells(wanted.from_seq):
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

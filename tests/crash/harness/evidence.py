"""The records of a run: each answer with its receiver and its time. Seconds count from the run's start.

Each history is written by one thread, and threads only add to lists and sets. All is read when they have ended, without locks.
"""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tests.crash.harness.topology import Topology
from tests.push.receiver import Batch

AT_THE_END = float("inf")


class Acked(NamedTuple):
    """An append that was answered: its records have the seqs from first_seq on."""

    at: float
    who: str
    topic: str
    first_seq: int
    data: tuple[str, ...]


class Deleted(NamedTuple):
    """A delete that was asked for, answered or not: records below before_seq, or with this tag."""

    at: float
    topic: str
    before_seq: int | None = None
    tag: str | None = None


class Opened(NamedTuple):
    """A reader connected again. It may get records again."""

    at: float


class Delivered(NamedTuple):
    at: float
    seq: int
    data: str


class Told(NamedTuple):
    """A tombstone. `lost_from`: the first seq that a crash took back, which the reader may have been shown before."""

    at: float
    gap_from: int
    gap_to: int
    reason: str
    lost_from: int | None = None


class Reached(NamedTuple):
    """All up to this seq was examined; `head_seq` is the topic's head then, where the reader was told."""

    at: float
    seq: int
    head_seq: int | None = None


Event = Opened | Delivered | Told | Reached


@dataclass
class History:
    """One reader's answers about one topic, in order. `nodes`: the reader's own nodes, whose records it leaves out.
    `strong`: the reader gets only records that no crash can take back."""

    who: str
    topic: str
    nodes: frozenset[str] = frozenset()
    strong: bool = False
    events: list[Event] = field(default_factory=list)
    position: int = 0
    head_seq: int = 0  # as told last

    def opened(self) -> None:
        self.events.append(Opened(now()))

    def delivered(self, records: list[dict[str, Any]]) -> None:
        at = now()
        self.events += [Delivered(at, record["$seq"], sys.intern(record["data"])) for record in records]

    def told(self, tombstone: dict[str, Any]) -> None:
        gap = tombstone["gap_from"], tombstone["gap_to"]
        self.events.append(Told(now(), *gap, tombstone["reason"], tombstone.get("lost_from")))
        if tombstone["reason"] == "recreated":
            self.position = 0

    def reached(self, seq: int, head_seq: int | None = None) -> None:
        if seq > self.position or head_seq not in (None, self.head_seq):
            self.events.append(Reached(now(), seq, head_seq))
        self.position = max(seq, self.position)
        self.head_seq = self.head_seq if head_seq is None else head_seq


class Entry(NamedTuple):
    """A record of the log as it is at the end."""

    seq: int
    data: str
    meta: dict[str, Any] | None = None


@dataclass
class Log:
    """A topic at the end: what it says of itself, what a read of all of it shows, and what SQL does."""

    topic: str
    head_seq: int
    earliest_seq: int
    count: int
    bytes: int
    records: list[Entry]
    sql_records: list[Entry]
    sql_bytes: int


class Published(NamedTuple):
    """An event of the push bus that was sent. `acked`: when the server took it; None: it did not answer."""

    sent: float
    acked: float | None
    publisher: str
    topic: str
    number: int
    data: str

    @property
    def url(self) -> str:
        return f"https://{self.publisher}.example/{self.number}"


@dataclass
class BusEvidence:
    """The push bus: what was published, and what came to each subscriber's callback."""

    topics: dict[str, list[str]] = field(default_factory=dict)  # of each subscriber
    published: list[Published] = field(default_factory=list)
    batches: dict[str, list[Batch]] = field(default_factory=dict)  # of each subscriber, in the order of arrival


class Claimed(NamedTuple):
    """A job that a worker got. `sent`: when it asked, or opened its stream."""

    sent: float
    answered: float
    who: str
    seq: int
    data: str
    deliveries: int


class Asked(NamedTuple):
    """An ack, a nack or an extend. `seqs`: those that were carried out; of a call without an answer, those that it named."""

    sent: float
    answered: float | None
    who: str
    name: str
    seqs: frozenset[int]


class Letter(NamedTuple):
    """A dead letter: its seq in the queue, its data and its deliveries there."""

    seq: int
    data: str
    deliveries: int


@dataclass
class QueueEvidence:
    """A queue: what its producer sent and what was taken, and what its workers got and settled.

    At the end: the jobs that are left, the dead letters, and what the queue says of itself.
    """

    sent: set[str] = field(default_factory=set)
    appended: set[str] = field(default_factory=set)
    claimed: list[Claimed] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)
    left: dict[int, str] = field(default_factory=dict)
    dead: list[Letter] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)


@dataclass
class SiteEvidence:
    """The mirrored topic. `acked`: the records that were acked at each site. `logs`: the records of each site at the end."""

    acked: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    logs: dict[str, list[str]] = field(default_factory=dict)


class HookCall(NamedTuple):
    """A call of the webhook. `is_good`: the endpoint took the record."""

    at: float
    seq: int
    data: str
    tag: str
    is_good: bool


@dataclass
class HookEvidence:
    """The webhook: the calls in the order of arrival. `dead`: the seqs of its dead letters at the end."""

    calls: list[HookCall] = field(default_factory=list)
    dead: list[int] = field(default_factory=list)


class Emit(NamedTuple):
    """A record that was emitted. `at`: when the call began."""

    at: float
    topic: str
    data: str


UNDONE, UNKNOWN, COMMITTED = "undone", "unknown", "committed"


@dataclass
class Transaction:
    """What a transaction emitted, or the part of it that was rolled back, and how it ended. `answered`: when its COMMIT was."""

    who: str
    emits: list[Emit] = field(default_factory=list)
    outcome: str = UNDONE
    answered: float | None = None


@dataclass
class CaptureEvidence:
    """A captured table: its changes, and at the end id and item of each record of its topic, and of each row that was changed.
    `lost`: the changes that a tombstone tells, because the disk was full."""

    changes: list[Transaction] = field(default_factory=list)
    log: list[tuple[int, str]] = field(default_factory=list)
    rows: dict[int, str] = field(default_factory=dict)
    lost: int = 0


class Held(NamedTuple):
    """Somebody held the head of this topic, and no other fault was under way."""

    topic: str
    since: float
    until: float


class Trouble(NamedTuple):
    """Something that must not happen, seen while it happened."""

    at: float
    who: str
    what: str


@dataclass
class Evidence:
    topology: Topology
    acks: list[Acked] = field(default_factory=list)
    deletes: list[Deleted] = field(default_factory=list)
    histories: list[History] = field(default_factory=list)
    logs: dict[str, Log] = field(default_factory=dict)
    bus: BusEvidence = field(default_factory=BusEvidence)
    queues: dict[str, QueueEvidence] = field(default_factory=dict)
    sites: SiteEvidence = field(default_factory=SiteEvidence)
    hook: HookEvidence = field(default_factory=HookEvidence)
    faults_at: list[float] = field(default_factory=list)
    emits: list[Transaction] = field(default_factory=list)
    captured: CaptureEvidence = field(default_factory=CaptureEvidence)
    held: list[Held] = field(default_factory=list)
    troubles: list[Trouble] = field(default_factory=list)
    slow: list[str] = field(default_factory=list)  # healings that took too long: a warning, which breaks nothing
    through_gateway: set[str] = field(default_factory=set)  # the names of those who take that way
    leftovers: list[str] = field(default_factory=list)  # what is stored, though nothing shows it

    def history(self, who: str, topic: str, nodes: frozenset[str] = frozenset(), strong: bool = False) -> History:
        history = History(who, topic, nodes, strong)
        self.histories.append(history)
        return history

    def trouble(self, who: str, what: str) -> None:
        self.troubles.append(Trouble(now(), who, what))


class Seen(NamedTuple):
    """The data of a seq, and its first receiver."""

    data: str
    who: str
    at: float

    def __str__(self) -> str:
        when = "the end" if self.at == AT_THE_END else f"{self.at:.1f} s"
        return f"{short(self.data)} ({self.who} at {when})"


def short(data: str | None) -> str:
    """A record without its padding."""
    return "not there" if data is None else data.rstrip("x").rstrip("/")


_started = time.monotonic()


def now() -> float:
    """Seconds since the run started."""
    return time.monotonic() - _started

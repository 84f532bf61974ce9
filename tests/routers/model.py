"""A model of topics and routers in memory, by the rules of docs/routers.md.

Each topic is a plain list of entries, one a seq, and a forward copies them: no spans, no floors to keep cheap, no
locks. The store has to tell the same to every reader, whatever it does inside.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import count, takewhile

Match = tuple[str, str]  # "Eq" or "Glob", and the literal


@dataclass(frozen=True)
class Payload:
    """A written record: its home and its content."""

    home: int
    seq: int
    node: str | None
    tag: str | None
    data: str

    @property
    def size(self) -> int:
        return len(self.data.encode())


@dataclass
class Entry:
    """A seq of a topic. Without a payload: a loss that a router told of."""

    seq: int
    ts: int
    payload: Payload | None
    node: str | None = None
    tag: str | None = None
    path: tuple[str, ...] = ()
    stamp: tuple[str, int, int] | None = None  # of an exactly_once router: its name, the source and the seq there
    live: bool = True
    forgotten: bool = False  # nothing says any more that the topic has held it
    piece: int = 0  # of a loss: which seqs were told together

    @property
    def size(self) -> int:
        return self.payload.size if self.payload else 0


@dataclass
class Window:
    """The answer of a diff."""

    seqs: list[int]
    next_from_seq: int
    head_seq: int
    earliest_seq: int
    lost: str | None
    gap_to: int


def matches(match: Match | None, tag: str | None) -> bool:
    if match is None:
        return True
    op, literal = match
    return tag is not None and (tag == literal if op == "Eq" else tag.startswith(literal))


@dataclass
class Topic:
    id: int
    name: str
    ttl_ms: int = 0
    cap_records: int = 0
    cap_bytes: int = 0
    reject: bool = False
    entries: list[Entry] = field(default_factory=list)
    floor: int = 0
    lost: dict[str, int] = field(default_factory=dict)  # why -> the last seq that was lost so, below the floor
    recreated: int = 0  # the last head of the topics that had the name before

    def __post_init__(self) -> None:
        if not self.entries:
            of_before = Payload(0, 0, None, None, "")
            self.entries = [Entry(seq + 1, 0, of_before, live=False) for seq in range(self.recreated)]

    @property
    def head(self) -> int:
        return len(self.entries)

    @property
    def capped(self) -> bool:
        return bool(self.cap_records or self.cap_bytes)

    def shown(self) -> list[Entry]:
        return [entry for entry in self.entries[self.floor :] if entry.live]

    @property
    def count(self) -> int:
        return len(self.shown())

    @property
    def bytes(self) -> int:
        return sum(entry.size for entry in self.shown())

    def push(self, entry: Entry, now: int) -> None:
        last_ts = self.entries[-1].ts if self.entries else 0
        entry.seq, entry.ts, entry.live = self.head + 1, max(now, last_ts), entry.payload is not None
        self.entries.append(entry)

    def fits(self, size: int, records: int = 1) -> bool:
        over_records = self.cap_records and self.count + records > self.cap_records
        return not (over_records or (self.cap_bytes and self.bytes + size > self.cap_bytes))

    def settle(self) -> None:
        """The floor lies right below the first live seq. A loss below it keeps being told, as the floor's."""
        live = next((entry.seq for entry in self.entries[self.floor :] if entry.live), self.head + 1)
        for entry in self.entries[self.floor : live - 1]:
            if entry.payload is None:
                self.lost["source_trim"] = entry.seq
        self.floor = live - 1

    def drop(self, entries: Iterable[Entry], why: str | None) -> None:
        """Take the topic's oldest live entries off it: lost for this reason, or because somebody asked (None)."""
        for entry in entries:
            entry.live = False
            if why is not None:
                self.lost[why] = entry.seq
        self.settle()

    def evict(self) -> None:
        shown, count, size = self.shown(), self.count, self.bytes
        gone: list[Entry] = []
        while (self.cap_records and count > self.cap_records) or (self.cap_bytes and size > self.cap_bytes):
            gone.append(shown[len(gone)])
            count, size = count - 1, size - gone[-1].size
        self.drop(gone, "cap")

    def expired(self, now: int) -> list[Entry]:
        return [entry for entry in self.shown() if self.ttl_ms and entry.ts < now - self.ttl_ms]

    def expire(self, now: int) -> None:
        self.drop(self.expired(now), "ttl")

    def at(self, now: int) -> Topic:
        """The topic as a reader finds it at this time."""
        view = replace(self, entries=[replace(entry) for entry in self.entries], lost=dict(self.lost))
        view.expire(now)
        return view

    def append(self, new: list[tuple[str | None, str | None, str]], now: int) -> bool:
        """False: full."""
        sizes = [len(data.encode()) for _, _, data in new]
        if self.reject and self.capped and not self.at(now).fits(sum(sizes), len(new)):
            return False
        if self.capped:
            self.expire(now)
        for node, tag, data in new:
            self.push(Entry(0, 0, Payload(self.id, self.head + 1, node, tag, data), node, tag), now)
        if not self.reject:
            self.evict()
        return True

    def delete(self, before_seq: int | None, match: Match | None, now: int) -> int:
        self.expire(now)
        gone = [e for e in self.shown() if matches(match, e.tag) and (before_seq is None or e.seq < before_seq)]
        self.drop(gone, None)
        return len(gone)

    def diff(self, from_seq: int, limit: int, nodes: set[str], now: int) -> Window:
        view = self.at(now)
        after, gap_to = max(from_seq, view.floor), view.floor
        why = {reason for reason, seq in view.lost.items() if seq > from_seq}
        lost = "mixed" if len(why) > 1 else next(iter(why), None)
        if from_seq > view.head:
            lost, after = "recreated", view.floor
        elif 0 < view.recreated >= from_seq and view.head > from_seq:
            lost = "recreated"
        ahead = view.entries[after:]
        if lost in (None, "recreated") and (loss := first_loss(ahead)) is not None:
            lost, gap_to = lost or "source_trim", loss.seq
            ahead = view.entries[gap_to:]
        ahead = list(takewhile(lambda entry: entry.payload is not None, ahead))
        examined = [entry for entry in ahead if entry.live][:limit]
        end = examined[-1].seq if len(examined) == limit else ahead[-1].seq if ahead else max(after, gap_to)
        seqs = [entry.seq for entry in examined if entry.node not in nodes]
        return Window(seqs, end, view.head, view.floor + 1, lost, gap_to)


def first_loss(ahead: Iterable[Entry]) -> Entry | None:
    """The end of the loss that a reader meets before any live seq."""
    last: Entry | None = None
    for entry in ahead:
        if entry.live or (last is not None and entry.piece != last.piece):
            break
        if entry.payload is None:
            last = entry
    return last


@dataclass
class Router:
    id: int
    name: str
    source: int
    dest: int
    keep_node: bool = True
    keep_tag: bool = True
    match: Match | None = None
    allow_cycle: bool = False
    allow_fan_in: bool = False
    once: bool = False
    cursor: int = 0
    paused: bool = False
    forwarded: int = 0


class World:
    """All topics and routers, by id. The names of deleted topics stay known."""

    def __init__(self) -> None:
        self.topics: dict[int, Topic] = {}
        self.routers: dict[int, Router] = {}
        self.names: dict[int, str] = {}
        self.last_heads: dict[str, int] = {}  # of deleted topics, by name
        self.pieces = count(1)
        self.max_hops = 8

    def reaches(self, start: int, end: int) -> bool:
        seen, ring = {start}, [start]
        while ring:
            ring = [r.dest for r in self.routers.values() if r.source in ring and r.dest not in seen]
            seen |= set(ring)
        return end in seen

    def cyclic(self, router: Router) -> bool:
        return router.allow_cycle or self.reaches(router.dest, router.source)

    def remembers(self, topic: Topic) -> bool:
        """Whether what it has held stays known: should a router into it bring that back, it has to be left out."""
        return any(router.dest == topic.id and self.cyclic(router) for router in self.routers.values())

    def delete_topic(self, id: int) -> list[str]:
        gone = [router for router in self.routers.values() if id in (router.source, router.dest)]
        for router in gone:
            del self.routers[router.id]
        topic = self.topics.pop(id)
        self.last_heads[topic.name] = topic.head
        return sorted(router.name for router in gone)

    def forward(self, router: Router, upto: int, now: int) -> bool:
        """Forward up to this source seq, or until the dest rejects; False: it did. The cursor tells how far that was."""
        source, dest, cyclic = self.topics[router.source], self.topics[router.dest], self.cyclic(router)
        view = source.at(now)
        lost = max((view.lost.get(why, 0) for why in ("cap", "ttl")), default=0)
        pieces: dict[int, int] = {
            0: next(self.pieces)
        }  # a loss goes on as one piece, as far as it is forwarded at once
        for _ in range(router.cursor, lost):
            dest.push(Entry(0, 0, None, path=(router.name,), piece=pieces[0]), now)
        router.cursor = max(router.cursor, lost)
        if router.once or dest.capped:
            dest.expire(now)
        held = {entry.payload for entry in dest.entries if entry.path and entry.payload and not entry.forgotten}
        stamps = {entry.stamp for entry in dest.shown() if entry.stamp}
        for entry in view.entries[router.cursor : upto]:
            if entry.live and not self.wanted(router, entry, cyclic, held, stamps):
                pass
            elif entry.live:
                if dest.reject and dest.capped and not dest.fits(entry.size):
                    dest.settle()
                    return False
                dest.push(self.copy(router, entry), now)
                router.forwarded += 1
                held.add(entry.payload)
            elif entry.payload is None and not (cyclic and self.told(router, entry)):
                piece = pieces.setdefault(entry.piece, next(self.pieces))
                dest.push(Entry(0, 0, None, path=(*entry.path, router.name), piece=piece), now)
            router.cursor = entry.seq
        dest.settle()
        if not dest.reject:
            dest.evict()
        return True

    def wanted(
        self,
        router: Router,
        entry: Entry,
        cyclic: bool,
        held: set[Payload | None],
        stamps: set[tuple[str, int, int] | None],
    ) -> bool:
        assert entry.payload is not None
        if not matches(router.match, entry.tag) or entry.payload.home == router.dest:
            return False
        if cyclic and (len(entry.path) >= self.max_hops or entry.payload in held):
            return False
        return not (router.once and (router.name, router.source, entry.seq) in stamps)

    def told(self, router: Router, loss: Entry) -> bool:
        """Whether this loss came through the dest already, or too far."""
        passed = {other.source for other in self.routers.values() if other.name in loss.path}
        return len(loss.path) >= self.max_hops or router.dest in passed

    def copy(self, router: Router, entry: Entry) -> Entry:
        stamp = (router.name, router.source, entry.seq) if router.once else entry.stamp
        node = entry.node if router.keep_node else None
        tag = entry.tag if router.keep_tag else None
        return Entry(0, 0, entry.payload, node, tag, (*entry.path, router.name), stamp)

    def stored(self) -> set[tuple[int, int]]:
        """Which physical records somebody shows."""
        return {(e.payload.home, e.payload.seq) for topic in self.topics.values() for e in topic.shown() if e.payload}

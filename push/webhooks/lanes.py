"""Records in memory that wait for their call, by lane. Records of one lane are sent one after another, in order of seq.

A lane is a topic and its line: the tag, or the whole topic, or the record alone. A lane is ready or busy, and is forgotten when
it is empty. When a call fails, its lane takes no record until the failure is settled: later records of the line wait behind the
failed one (serving.py). The lane of a dead letter is busy until the letter is settled, because a topic that refuses the
letter puts the record back, before the others of its line.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import msgspec

# Seqs from the first record of a call to its last, so that the log finds the calls of a record by a range.
MOST_SPAN = 100_000
Lane = tuple[int, str | int]  # the topic's id, and the line, or the seq of a record without a line


class Parts(msgspec.Struct):
    """The data and the meta of a record, as they were appended."""

    data: msgspec.Raw
    meta: dict[str, msgspec.Raw] = msgspec.field(default_factory=dict)


@dataclass(slots=True, eq=False)
class OutgoingRecord:
    """A record on its way. `attempts`: calls so far. `is_waiting`: it has a row in push_webhookwaiting."""

    topic_id: int
    topic: str
    seq: int
    ts: int
    tag: str | None
    line: str | None
    record: bytes  # as a read shows it
    since: float = 0.0  # the time of the loop when it was read
    attempts: int = 0
    first_ts: int = 0
    is_waiting: bool = False

    @property
    def lane(self) -> Lane:
        return (self.topic_id, self.seq if self.line is None else self.line)

    def parts(self) -> Parts:
        return msgspec.json.decode(self.record, type=Parts)


class Lanes:
    """`size` and `bytes` count the records that wait here, without those of busy calls."""

    def __init__(self) -> None:
        self.lanes: dict[Lane, deque[OutgoingRecord]] = {}  # those that are ready or busy
        self.ready: dict[int, deque[Lane]] = {}  # topic: its lanes that have records and are not busy
        self.failed: set[Lane] = set()
        self.held: set[Lane] = set()  # busy, because their dead letters are not settled yet
        self.size = self.bytes = 0

    def add(self, record: OutgoingRecord) -> None:
        lane = record.lane
        assert lane not in self.failed, "the record waits behind a failed one"
        records = self.lanes.get(lane)
        if records is None:
            self.lanes[lane] = deque((record,))
            self.ready.setdefault(record.topic_id, deque()).append(lane)
        else:
            records.append(record)
        self.size += 1
        self.bytes += len(record.record)

    def peek(self) -> OutgoingRecord | None:
        """Returns the record with which the next call begins, or None."""
        for lanes in self.ready.values():
            return self.lanes[lanes[0]][0]
        return None

    def take(self, most: int, most_bytes: int) -> list[OutgoingRecord]:
        """Returns records of one topic for a call, in order of seq: at least one. Their lanes are busy until done() or fail()."""
        topic_id, lanes = next(iter(self.ready.items()))
        taken: list[OutgoingRecord] = []
        size = 0

        def fits(record: OutgoingRecord) -> bool:
            if not taken:
                return True
            is_near = abs(record.seq - taken[0].seq) <= MOST_SPAN // 2
            return is_near and len(taken) < most and size + len(record.record) <= most_bytes

        while lanes and fits(self.lanes[lanes[0]][0]):
            records = self.lanes[lanes.popleft()]
            while records and fits(records[0]):
                record = records.popleft()
                size += len(record.record)
                taken.append(record)
        # The next call begins with another topic.
        del self.ready[topic_id]
        if lanes:
            self.ready[topic_id] = lanes
        self.size -= len(taken)
        self.bytes -= size
        taken.sort(key=lambda record: record.seq)
        return taken

    def done(self, lane: Lane) -> None:
        """Ends a call of a lane."""
        if self.lanes[lane]:
            self.ready.setdefault(lane[0], deque()).append(lane)
        else:
            del self.lanes[lane]

    def fail(self, lane: Lane) -> list[OutgoingRecord]:
        """Ends a call of a lane that failed, also if the lane was held. Returns the records behind it, which leave the lane."""
        behind = list(self.lanes[lane])
        self.lanes[lane].clear()
        self.failed.add(lane)
        self.held.discard(lane)
        self.size -= len(behind)
        self.bytes -= sum(len(record.record) for record in behind)
        return behind

    def settled(self, lanes: set[Lane]) -> None:
        """Forgets failed lanes, because their records wait in PostgreSQL now, and ends the calls of lanes that were held."""
        for lane in lanes & self.failed:
            self.failed.discard(lane)
            del self.lanes[lane]
        for lane in lanes & self.held:
            self.held.discard(lane)
            self.done(lane)

"""One read of one segment: the server's request, and the answer in the client's positions (segments.py).

The answer is cut to the records that the segment shows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from gateway.api import Request
from gateway.rewrite.identifiers import with_parameter
from gateway.rewrite.names import Raws
from gateway.rewrite.seqs import shifted
from gateway.routers.splice.segments import Segment

LOST_SEGMENT = "source_trim"  # a tombstone's reason if a segment's server no longer has the records


@dataclass
class PositionRead:
    """A read after the position `from_seq`.

    `body`: the body of a diff. None: `client` is a GET with the other fields in its query. `counts_matches`: `limit` counts
    the records of the answer, and not the records that the servers examine.
    """

    client: Request
    from_seq: int
    limit: int
    wait_ms: int = 0
    body: dict[str, Any] | None = None
    counts_matches: bool = False

    def request(self, segment: Segment, seq: int, limit: int, wait_ms: int) -> Request:
        """Returns the request to one segment's server, for records after the server's `seq`."""
        numbers = {"from_seq": seq, "limit": limit, "wait_ms": wait_ms}
        if self.body is not None:
            return segment.request(self.client, "POST", "/diff", body={**self.body, **numbers})
        query = self.client.query
        for name, value in numbers.items():
            query = with_parameter(query, name, str(value))
        return segment.request(self.client, "GET", "/records", query)


class AnsweredPage(msgspec.Struct):
    """The fields of a diff's answer that the gateway reads."""

    records: list[Raws]
    next_from_seq: int
    head_seq: int
    earliest_seq: int
    performance: dict[str, float]
    tombstone: dict[str, Any] | None = None
    clamped: dict[str, int] | None = None
    scanned_to: int | None = None


@dataclass
class SegmentPage:
    """One segment's part of a window, in positions."""

    records: list[Raws]
    next: int
    tombstone: dict[str, Any] | None = None
    head: int | None = None  # None: the topic is absent
    earliest: int | None = None
    scanned: int = 0
    ms: float = 0.0
    clamped: dict[str, int] | None = None
    is_sealed: bool = False
    is_short: bool = False  # the server ended the page at scanned_to, before it had all matches
    is_behind: bool = False  # the reader is above the head, so its position belongs to another log


def seq_of(record: Raws) -> int:
    return msgspec.json.decode(record["$seq"], type=int)


def paged(segment: Segment, position: int, answer: AnsweredPage) -> SegmentPage:
    """Returns a page from a server's answer to a read after `position`, cut to the records that the segment shows."""
    upto, by, seq = segment.upto, segment.offset, position - segment.offset
    shown = answer.records
    if upto is not None and answer.next_from_seq > upto:
        shown = [each for each in shown if seq_of(each) <= upto]
    if answer.earliest_seq <= segment.start:  # a reader that was sent back to the earliest record
        shown = [each for each in shown if seq_of(each) > segment.start]
    next_seq = max(answer.next_from_seq if upto is None else min(answer.next_from_seq, upto), segment.start)
    page = SegmentPage(
        [shifted(each, by) for each in shown],
        next_seq + by,
        cut_tombstone(segment, seq, answer.tombstone),
        segment.clip(answer.head_seq),
        segment.first_shown(answer.earliest_seq, answer.head_seq),
        int(answer.performance.get("records_scanned", len(shown))),
        answer.performance.get("server_total_ms", 0.0),
        answer.clamped,
        is_short=answer.scanned_to is not None and (upto is None or answer.scanned_to < upto),
        is_behind=seq > max(answer.head_seq, segment.start),
    )
    if upto is not None and seq == answer.head_seq < upto and page.tombstone is None:
        return lost_page(segment, position)  # the server lost the end of its records
    return page


def cut_tombstone(segment: Segment, seq: int, tombstone: dict[str, Any] | None) -> dict[str, Any] | None:
    """Returns a server's tombstone in positions, cut to the segment. Returns None if the segment lost nothing."""
    if tombstone is None or (tombstone["gap_to"] <= segment.start and seq <= segment.start):
        return None  # the tombstone concerns only records before the segment
    by, upto = segment.offset, segment.upto
    most = tombstone["gap_to"] if upto is None else min(tombstone["gap_to"], upto)
    most = max(most, segment.start)
    found = dict(tombstone)
    found["gap_to"] = most + by
    found["gap_from"] = min(tombstone["gap_from"], most + 1) + by
    found["missed_estimate"] = max(min(tombstone["missed_estimate"], most - seq), 0)
    found["earliest_seq"] = (
        tombstone["earliest_seq"] if upto is None else min(tombstone["earliest_seq"], upto + 1)
    ) + by
    if "lost_from" in tombstone:
        found["lost_from"] = max(tombstone["lost_from"], segment.start + 1) + by
    return found


def lost_page(segment: Segment, position: int) -> SegmentPage:
    """Returns the page of a segment whose records no server has."""
    end = segment.end
    assert end is not None
    tombstone = {
        "gap_from": position + 1,
        "gap_to": end,
        "reason": LOST_SEGMENT,
        "missed_estimate": end - position,
        "earliest_seq": end + 1,
        "head_seq": end,
    }
    return SegmentPage([], end, tombstone)

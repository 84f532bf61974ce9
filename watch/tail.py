"""The newest reads of a topic without a gap. A stream that is within them needs neither a statement nor another encoding."""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

from watch.batch import Batch, Part
from watch.reading import Reading, ReadView

# A read waits for up to so many times as long as the streams took to take up the last read. So the frames of a busy topic have
# more records, and its streams leave the event loop to others. After a lone record, the next read does not wait.
PACE = 20.0
LONGEST_PAUSE_SECONDS = 0.03
# A topic is busy for so many times as long as its streams took to take up the last records.
BUSY = 5.0


class Link(NamedTuple):
    """A done reading without a loss, and the seqs between which it has read."""

    from_seq: int
    reading: Reading
    batch: Batch
    started: float

    @property
    def to_seq(self) -> int:
        return self.batch.window.next_from_seq


class Tail:
    """Readings of one topic for one view, each from the seq at which the one before it ended, and started after that one.

    `joined` has the batches that were joined for streams between two readings, by the stream's seq. With the next reading these
    batches are too short. `Feeds` bounds the memory of both. `pause_until` is when the next read at the end may start. Until
    `busy_until`, the topic is busy: its streams wait for a read, which finds more records than one append has.
    """

    __slots__ = ("busy_until", "joined", "links", "pause_until", "view")

    def __init__(self, view: ReadView) -> None:
        self.view = view
        self.links: list[Link] = []
        self.joined: dict[int, Reading] = {}
        self.pause_until = self.busy_until = 0.0

    def was_served(self, scanned: int, woken: float, now: float) -> None:
        """Notes that the streams which waited for the last reading were called at `woken`, and have taken it up.

        `scanned`: the seqs that the reading went through. The more there are, the sooner the next records follow.
        """
        pace = PACE * (1 - 1 / max(1, scanned))
        self.pause_until = now + min(pace * (now - woken), LONGEST_PAUSE_SECONDS)
        self.busy_until = now + BUSY * (now - woken)

    def pause(self, from_seq: int, now: float) -> float:
        """Returns the seconds for which a read from this seq waits. A read does not wait if its records are stored already."""
        if not self.links:
            return 0.0
        last = self.links[-1]
        is_at_head = from_seq == last.to_seq >= last.batch.window.head_seq
        return max(0.0, self.pause_until - now) if is_at_head else 0.0

    def add(self, link: Link) -> None:
        """Adds a reading that ends behind the tail. If there is a gap between both, the reading is the whole new tail."""
        if self.links:
            last = self.links[-1]
            if link.to_seq <= last.to_seq or link.started < last.started:
                return
            if link.from_seq != last.to_seq:
                self.links.clear()
        self.links.append(link)

    def drop(self, reading: Reading) -> None:
        """Removes a reading, and all readings before it."""
        for index, link in enumerate(self.links):
            if link.reading is reading:
                del self.links[: index + 1]
                return

    def at(self, seq: int, since: float) -> Reading | None:
        """Returns what was read after `seq`, or None if a part of it was not read, or was read before `since`."""
        if not self.links or not self.links[0].from_seq <= seq < self.links[-1].to_seq:
            return None
        index = bisect_right(self.links, seq, key=lambda link: link.from_seq) - 1
        link = self.links[index]
        if link.started < since:
            return None
        if link.from_seq == seq and link is self.links[-1]:
            return link.reading
        return self.joined.get(seq) or self.join(index, seq)

    def join(self, index: int, seq: int) -> Reading:
        """Returns a reading from `seq` to the end of the tail, or up to the view's limits. `seq` is within the link `index`."""
        parts: list[Part] = []
        window = head = self.links[-1].batch.window
        scanned = size = 0
        first = self.links[index]
        for link in self.links[index:]:
            scanned += link.batch.window.scanned
            size += sum(len(segment.joined) for segment, _ in link.batch.parts)
            if link is not first and (scanned > self.view.limit or size > self.view.max_bytes):
                break
            parts += [(segment, segment.after(seq) if link.from_seq < seq else 0) for segment, _ in link.batch.parts]
            window = link.batch.window._replace(scanned=scanned)
        reading = Reading()
        reading.started, reading.done = first.started, True
        window = window._replace(head_seq=head.head_seq, earliest_seq=head.earliest_seq)
        reading.batch = Batch(first.batch.name, window, seq, parts)
        return reading

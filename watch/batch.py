"""The records of one read, as bytes that streams send. Each stream can leave some records out without another encoding."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

import msgspec

from contract import sse
from topics.read.diff import Window
from watch import frames


class Cut(msgspec.Struct):
    seq: int = msgspec.field(name="$seq")
    node: str | None = msgspec.field(name="$node", default=None)


class RecordEvents:
    """The records of one read, as `record` events show them, joined by commas.

    A stream that wants all records needs only `joined`. The first stream that leaves out some cuts the segment into its records:
    from then on, `starts` and `ends` are their offsets in `joined`, and `by_node` has the indexes of the records of each node.
    """

    __slots__ = ("by_node", "dedupes", "ends", "is_cut", "joined", "seqs", "starts")

    def __init__(self, records: str, dedupes: bool) -> None:
        """`records` is JSON text from PostgreSQL. `dedupes`: a stream may leave out the records of its own nodes."""
        self.joined, self.dedupes, self.is_cut = sse.in_lines(records.encode()), dedupes, False

    def cut(self) -> None:
        if self.is_cut:
            return
        text = b"[%b]" % sse.of_lines(self.joined)
        records = msgspec.json.decode(text, type=list[msgspec.Raw])
        self.ends = [end - 1 for end in accumulate(len(sse.in_lines(bytes(each))) + 1 for each in records)]
        self.starts = [0, *(end + 1 for end in self.ends[:-1])]
        cuts = msgspec.json.decode(text, type=list[Cut])
        self.seqs = [each.seq for each in cuts]
        self.by_node: dict[str, list[int]] = {}
        for index, each in enumerate(cuts):
            if each.node is not None:
                self.by_node.setdefault(each.node, []).append(index)
        self.is_cut = True

    def after(self, seq: int) -> int:
        """Returns the index of the first record after this seq."""
        self.cut()
        return bisect_right(self.seqs, seq)

    def has_any_of(self, nodes: frozenset[str]) -> bool:
        """Returns True if `runs` leaves out records of these nodes."""
        if not self.dedupes:
            return False
        self.cut()
        return not nodes.isdisjoint(self.by_node)

    def runs(self, first: int, own: frozenset[str]) -> list[bytes]:
        """Returns the records from this index on, without the records of the nodes `own`, in as few pieces as possible."""
        left_out = self.indexes(own) if own and self.has_any_of(own) else ()
        if not first and not left_out:
            return [self.joined]
        runs = []
        for index in (*left_out, len(self.seqs)):
            if index > first:
                runs.append(self.joined[self.starts[first] : self.ends[index - 1]])
            first = max(first, index + 1)
        return runs

    def indexes(self, nodes: frozenset[str]) -> list[int]:
        return sorted(index for node in nodes for index in self.by_node.get(node, ()))


Part = tuple[RecordEvents, int]  # a segment's records from this index on


class Batch:
    """One window of a topic, as frames. All streams send the same objects, so do not change a batch.

    `window` has no records. `record` is the frame with the records, without an id. `message` is the frame with an id, for a
    stream with only one topic and nothing to add. `text` is the frame of a WebSocket. Each is made when it is first needed.
    """

    __slots__ = ("_message", "_record", "_text", "from_seq", "name", "parts", "runs", "window")

    def __init__(
        self,
        name: str,
        window: Window,
        from_seq: int,
        parts: Sequence[Part],
        own: frozenset[str] = frozenset(),
        record: bytes | None = None,
    ) -> None:
        """`name` is the topic's. The frame has the records of `parts` after `from_seq`, without those of the nodes `own`.
        `record`: the frame, if it has another form."""
        self.name, self.window, self.from_seq, self.parts = name, window, from_seq, parts
        self.runs = [run for segment, first in parts for run in segment.runs(first, own)]
        self._record = record
        self._message: bytes | None = None
        self._text: bytes | None = None

    @property
    def is_empty(self) -> bool:
        """Returns True if the frame has no records, so that there is no frame."""
        return not self.runs

    @property
    def record(self) -> bytes:
        if self._record is None:
            self._record = self.frame(b"")
        return self._record

    @property
    def message(self) -> bytes:
        if self._message is None:
            self._message = self.frame(frames.id_line({self.name: self.window.next_from_seq}))
        return self._message

    @property
    def text(self) -> bytes:
        if self._text is None:
            window = self.window
            self._text = frames.record_text(
                self.name, self.joined(), self.from_seq, window.next_from_seq, window.head_seq
            )
        return self._text

    def joined(self) -> bytes:
        """Returns the records of all runs."""
        return self.runs[0] if len(self.runs) == 1 else b",".join(self.runs)

    def frame(self, line: bytes) -> bytes:
        if self.is_empty:
            return b""
        window = self.window
        return frames.record(line, self.name, self.joined(), self.from_seq, window.next_from_seq, window.head_seq)

    @property
    def bytes(self) -> int:
        """Returns the approximate memory of the batch: its records, cut and in two frames."""
        return 3 * sum(map(len, self.runs)) if self.runs else len(self.record)

    def without(self, own: frozenset[str]) -> Batch:
        """Returns the same window without the records of these nodes."""
        if not own or not any(segment.has_any_of(own) for segment, _ in self.parts):
            return self
        return Batch(self.name, self.window, self.from_seq, self.parts, own)

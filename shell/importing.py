"""Appends a file's lines to a topic in batches. A second run of the same command appends only what is missing.

The idempotency key of a batch contains a hash of everything up to the batch's end. A second run continues after the last batch
whose key the topic remembers (docs/wire.md). For this, the file must still begin with the same bytes.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from base.errors import InvalidRequest, TopicsError
from shell.lines import NULL, LineRecord, Shape, batches, excerpt
from shell.reading import diff
from shell.server import CommandServer, ask, path
from shell.source import Source

CHUNK = 1 << 20
MOST_BATCHES = 1000  # a crash takes back only batches of the last 0.6 s
NO_HEAD = 2**62  # higher than any head
OF_A_RECORD = ("invalid_request", "record_too_large")  # error codes for an invalid record

# Handles a line that is no record. Arguments: the line, and a sentence about the error.
Skip = Callable[[bytes, str], None]


class ImportedAppend(msgspec.Struct, omit_defaults=True):
    """The body of an append."""

    records: list[LineRecord]
    node: str | None = None
    idempotency_key: str | None = None
    create: bool = True
    expected_head: int | None = None


class ImportAnswer(msgspec.Struct):
    first_seq: int
    last_seq: int
    deduped: bool


class TakenBack(TopicsError):
    """A crash of the server took back appended records of this run."""


class ConfirmedAppend(NamedTuple):
    """An append that the server has confirmed."""

    first_line: int
    last_line: int
    last_seq: int


APPENDED = msgspec.json.Decoder(ImportAnswer)


@dataclass
class Import:
    """A run with its source, topic and progress."""

    server: CommandServer
    topic: str
    source: Source
    shape: Shape
    batch: int
    identity: str | None  # of the run; None: a second run cannot continue this one
    node: str | None = None
    create: bool = True
    skip: Skip | None = None

    def __post_init__(self) -> None:
        options = (self.identity, self.shape.raw, self.shape.encoding, self.shape.tag_field, self.node)
        self.run = f"shell:{sha256(repr(options).encode())[:16]}:"
        self.digest = hashlib.sha256()
        self.offset = 0  # bytes of the source that are done
        self.lines = 0
        self.appended = 0
        self.known = 0  # lines that an earlier run appended
        self.skipped = 0  # lines that are no records
        self.batches: deque[ConfirmedAppend] = deque(maxlen=MOST_BATCHES)  # the last ones

    def append_all(self, tick: Callable[[], None]) -> None:
        """Appends the missing lines. Raises TopicsError. The count `appended` is right even after an error."""
        if self.identity is not None:
            self.take_up()
        for lines in batches(self.source.file, self.batch):
            self.append(lines)
            tick()
        self.check_kept()

    def take_up(self) -> None:
        """Continues after the last batch of earlier runs with this identity."""
        if (latest := self.latest()) is None:
            return
        offset, digest = latest
        begun, lines = self.read(offset)
        if begun.hexdigest()[: len(digest)] == digest:
            self.digest, self.offset, self.lines, self.known = begun, offset, lines, lines
        else:
            self.source.rewind()  # the file has changed, so all lines are new

    def latest(self) -> tuple[int, str] | None:
        """Returns the offset after the latest batch of the run, and the hash of all bytes before it. Returns None without a
        batch."""
        try:
            answer = ask(self.server, "GET", path("topics", self.topic, "appends"), {"key_prefix": self.run})
        except TopicsError as error:
            if error.code != "topic_not_found":
                raise
            return None
        if answer["last"] is None:
            return None
        offset, digest = answer["last"]["key"].removeprefix(self.run).split(":")
        return int(offset), digest

    def read(self, size: int) -> tuple[hashlib._Hash, int]:
        """Reads the next `size` bytes. Returns their hash and their number of lines."""
        digest, lines, last = hashlib.sha256(), 0, b""
        while size and (chunk := self.source.file.read(min(size, CHUNK))):
            digest.update(chunk)
            lines += chunk.count(b"\n")
            size -= len(chunk)
            last = chunk
        if size == 1 and not last.endswith(b"\n"):  # the last line has no line feed, but batches() counted one
            digest.update(b"\n")
            lines += 1
        return digest, lines

    def append(self, lines: list[bytes]) -> None:
        """Appends one batch as a whole, without skipped lines."""
        for line in lines:
            self.digest.update(line)
        self.offset += sum(map(len, lines))
        places, records = self.records(lines)
        while records and not self.send(records, len(lines)):
            bad, error = self.refused_record(records)
            self.refuse(lines, places.pop(bad), f"cannot be appended: {error.message}", error)
            del records[bad]
        self.lines += len(lines)

    def records(self, lines: list[bytes]) -> tuple[list[int], list[LineRecord]]:
        """Returns the records of a batch, and the index of each record's line."""
        places, found = [], []
        for place, line in enumerate(lines):
            try:
                record = self.shape.record(line)
            except InvalidRequest as error:
                self.refuse(lines, place, f"is invalid: {error.message}", error)
                continue
            if record is not None:
                places.append(place)
                found.append(record)
        return places, found

    def refuse(self, lines: list[bytes], place: int, what: str, error: TopicsError) -> None:
        """Skips a line that is no record. Raises InvalidRequest if lines must not be skipped."""
        line = lines[place]
        message = f"{self.source.unit} {self.lines + place + 1} {what}: {excerpt(line)}"
        if self.skip is None:
            raise InvalidRequest(message) from error
        self.skip(line, message)
        self.skipped += 1

    def send(self, records: list[LineRecord], lines: int) -> bool:
        """Appends `records`, which come from a batch of `lines` lines. Returns False if the server refuses one of the records
        itself."""
        key = None if self.identity is None else f"{self.run}{self.offset}:{self.digest.hexdigest()[:32]}"
        try:
            done = self.post(ImportedAppend(records, self.node, key, self.create))
        except TopicsError as error:
            # If the server also refuses a record that is valid, the reason is not in the lines.
            if error.code not in OF_A_RECORD or self.refusal([LineRecord(NULL)]):
                raise
            return False
        # After a gap, other writers have appended between, or records were lost.
        if self.batches and done.first_seq > self.batches[-1].last_seq + 1:
            self.check_kept()
        self.batches.append(ConfirmedAppend(self.lines + 1, self.lines + lines, done.last_seq))
        if done.deduped:
            self.known += lines
        else:
            self.appended += len(records)
        return True

    def check_kept(self) -> None:
        """Raises TakenBack if a crash of the server took back a batch after its answer. A key without the scope read cannot
        detect this."""
        if not self.batches:
            return
        latest = self.batches[-1]
        try:
            tombstone = diff(self.server, self.topic, latest.last_seq).tombstone
        except TopicsError as error:
            if error.code != "forbidden":
                raise
            return
        if tombstone is None or tombstone.lost_from is None or tombstone.lost_from > latest.last_seq:
            return
        first = next(each for each in self.batches if each.last_seq >= tombstone.lost_from)
        lost = f"{self.source.unit}s {first.first_line} to {latest.last_line}"
        raise TakenBack(
            f"a crash of the server took back {lost} after the append (seqs from {tombstone.lost_from}): append these "
            f"{self.source.unit}s again. A topic with durability fsync does not lose acknowledged records"
        )

    def post(self, wanted: ImportedAppend) -> ImportAnswer:
        body = msgspec.json.encode(wanted)
        # With an idempotency key, a request whose answer was lost can be repeated safely.
        again = wanted.idempotency_key is not None
        return APPENDED.decode(
            self.server.send("POST", path("topics", self.topic), {"return_seqs": False}, body, again)
        )

    def refused_record(self, records: list[LineRecord]) -> tuple[int, TopicsError]:
        """Returns the index of the first refused record and its error, by bisection."""
        # The first `fine` records are valid, and the first `bad` records contain an invalid one.
        fine, bad = 0, len(records)
        while bad - fine > 1:
            middle = (fine + bad) // 2
            fine, bad = (fine, middle) if self.refusal(records[:middle]) else (middle, bad)
        error = self.refusal(records[bad - 1 : bad])
        assert error is not None, "a record that fails in a batch also fails alone"
        return bad - 1, error

    def refusal(self, records: list[LineRecord]) -> TopicsError | None:
        """Returns the error of these records, whatever the topic contains, or None. Appends nothing, because no topic has such
        a head."""
        try:
            self.post(ImportedAppend(records, self.node, create=False, expected_head=NO_HEAD))
        except TopicsError as error:
            return error if error.code in OF_A_RECORD else None
        raise AssertionError(f"a head of {NO_HEAD}")


def sha256(value: bytes) -> str:
    return hashlib.sha256(value).hexdigest()

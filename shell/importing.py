"""Append a file's lines to a topic, in batches that a second run of the same command does not append again.

The idempotency key of a batch is made of all that was appended up to its end. A second run goes on behind the last
batch whose key the topic remembers (docs/wire.md), provided that the file still begins with the same bytes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import BinaryIO

from django.conf import settings
from django.db import connection

from base.errors import InvalidRequest, RecordTooLarge, TopicsError
from shell.lines import Shape, batches
from store.database import translating
from store.script import run
from topics.append import append
from topics.records import Append, NewRecord, check_rows

# By the primary key: the prefix is a range. The latest batch of the run is the one with the highest seqs.
LAST_KEY = """
SELECT k.key FROM topics_idempotencykey k JOIN topics_topic t ON t.id = k.topic_id
 WHERE t.name = %(name)s AND k.key >= %(run)s AND k.key < %(run)s || '~' AND k.ts > %(now)s - t.idempotency_window_ms
 ORDER BY k.last_seq DESC LIMIT 1
"""
CHUNK = 1 << 20


@dataclass
class Import:
    """One run: where from, where to, and how far it has come."""

    topic: str
    source: BinaryIO
    shape: Shape
    batch: int
    identity: str | None  # of the run; None: not to be taken up again
    node: str | None = None
    create: bool = True

    def __post_init__(self) -> None:
        options = (self.identity, self.shape.raw, self.shape.encoding, self.shape.tag_field, self.node)
        self.run = f"shell:{sha256(repr(options).encode())[:16]}:"
        self.digest = hashlib.sha256()
        self.offset = 0  # bytes of the source that are done
        self.lines = 0
        self.appended = 0
        self.skipped = 0  # lines that an earlier run appended

    def append_all(self, clock: Callable[[], int], tick: Callable[[], None]) -> None:
        """Append what is missing. Raises TopicsError: what counts as `appended` then is so all the same."""
        if self.identity is not None:
            self.take_up(clock())
        for lines in batches(self.source, self.batch):
            self.append(lines, clock())
            tick()

    def take_up(self, now: int) -> None:
        """Go on where the latest run with this identity ended."""
        if (latest := self.latest(now)) is None:
            return
        offset, digest = latest
        begun, lines = self.read(offset)
        if begun.hexdigest()[: len(digest)] == digest:
            self.digest, self.offset, self.lines, self.skipped = begun, offset, lines, lines
        elif self.source.seekable():
            self.source.seek(0)  # the file is another by now: all of it is new
        else:
            raise InvalidRequest("standard input begins otherwise than what was appended under this key before")

    def latest(self, now: int) -> tuple[int, str] | None:
        """How far the latest batch of the run reached, and what everything up to there hashes to."""
        with translating(), connection.cursor() as cursor:
            cursor.execute(LAST_KEY, {"name": self.topic, "run": self.run, "now": now})
            row = cursor.fetchone()
        if row is None:
            return None
        offset, digest = row[0].removeprefix(self.run).split(":")
        return int(offset), digest

    def read(self, size: int) -> tuple[hashlib._Hash, int]:
        """The hash of so many of the source's next bytes, and their lines."""
        digest, lines, last = hashlib.sha256(), 0, b""
        while size and (chunk := self.source.read(min(size, CHUNK))):
            digest.update(chunk)
            lines += chunk.count(b"\n")
            size -= len(chunk)
            last = chunk
        if size == 1 and not last.endswith(b"\n"):  # a last line without line feed: batches() counted one all the same
            digest.update(b"\n")
            lines += 1
        return digest, lines

    def append(self, lines: list[bytes], now: int) -> None:
        """Append one batch: all of it or nothing."""
        for line in lines:
            self.digest.update(line)
        self.offset += sum(map(len, lines))
        records = self.records(lines)
        if records:
            key = None if self.identity is None else f"{self.run}{self.offset}:{self.digest.hexdigest()[:32]}"
            wanted = Append(records, node=self.node, idempotency_key=key, create=self.create)
            done = run(append(self.topic, wanted, check_rows(wanted), now))
            if done.deduped:
                self.skipped += len(lines)
            else:
                self.appended += len(records)
        self.lines += len(lines)

    def records(self, lines: list[bytes]) -> list[NewRecord]:
        found, most = [], settings.TOPICS_MAX_RECORD_BYTES
        for number, line in enumerate(lines, self.lines + 1):
            try:
                record = self.shape.record(line)
            except TopicsError as error:
                raise InvalidRequest(f"line {number} is {error.message}") from error
            if record is None:
                continue
            if len(record.data) > most:
                raise RecordTooLarge(
                    f"line {number} is a record of {len(record.data)} bytes, at most {most} are allowed"
                )
            found.append(record)
        return found


def sha256(value: bytes) -> str:
    return hashlib.sha256(value).hexdigest()

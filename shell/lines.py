"""Converts a line of a file into a record, and a record into a line.

A line of JSON comes back byte for byte, except whitespace around it. A raw line (any text) comes back unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, BinaryIO

import msgspec

from base.errors import InvalidRequest, RecordTooLarge
from base.surrogates import lone_surrogate
from base.units import printable

BATCH_BYTES = 8 * 1024 * 1024  # bytes of one append; long lines make smaller batches
LONGEST_LINE_BYTES = 64 * 1024 * 1024  # by default, no server accepts a larger body
MOST_SHOWN = 80  # characters of a refused line in a message
NULL = msgspec.Raw(b"null")
ANY_JSON = msgspec.json.Decoder(msgspec.Raw)
A_STRING = msgspec.json.Decoder(str)


class LineRecord(msgspec.Struct, omit_defaults=True):
    """A record in the body of an append."""

    data: msgspec.Raw
    tag: str | None = None


@dataclass(frozen=True)
class Shape:
    """The form of the lines: JSON values, or text that becomes a JSON string."""

    raw: bool = False
    encoding: str = "utf-8"
    tag_field: str | None = None

    def record(self, line: bytes) -> LineRecord | None:
        """Returns the record of a line, or None for a blank line between JSON lines. Raises InvalidRequest."""
        if self.raw:
            return LineRecord(msgspec.Raw(msgspec.json.encode(self.text(line.removesuffix(b"\n")))))
        if not (line := line.strip()):
            return None
        if not line.isascii():
            self.text(line)
        try:
            return LineRecord(ANY_JSON.decode(line), self.tag(line))
        except (msgspec.MsgspecError, RecursionError) as error:
            raise InvalidRequest(lone_surrogate(line) or str(error)) from error

    def text(self, line: bytes) -> str:
        try:
            return line.decode(self.encoding)
        except UnicodeDecodeError as error:
            raise InvalidRequest(f"it is not {self.encoding} (byte {error.start + 1})") from error

    def tag(self, line: bytes) -> str | None:
        """Returns the value of the tag's field, or None if the line is not an object with this field. Raises InvalidRequest."""
        if self.tag_field is None or not line.startswith(b"{"):
            return None
        value: bytes = bytes(self._tagged.decode(line).tag)
        if value == b"null":
            return None
        if value[:1] in b"{[":
            raise InvalidRequest(
                f"expected a string or a number in the field {self.tag_field!r}, which becomes the tag"
            )
        return A_STRING.decode(value) if value[:1] == b'"' else value.decode()

    @cached_property
    def _tagged(self) -> msgspec.json.Decoder[Any]:
        shape = msgspec.defstruct("Tagged", [("tag", msgspec.Raw, NULL)], rename={"tag": self.tag_field or ""})
        return msgspec.json.Decoder(shape)

    def line(self, data: bytes) -> bytes:
        """Returns the line that a record's data came from. Raises InvalidRequest."""
        if not self.raw:
            return one_line(data)
        try:
            return A_STRING.decode(data).encode(self.encoding) + b"\n"
        except msgspec.MsgspecError as error:
            raise InvalidRequest("data is not a string: leave out --raw-lines") from error
        except UnicodeEncodeError as error:
            raise InvalidRequest(
                f"data has a character that {self.encoding} cannot write: use --encoding utf-8"
            ) from error


def one_line(json: bytes) -> bytes:
    """Returns JSON on one line. JSON has line breaks only between tokens, where a space has the same meaning."""
    return json.replace(b"\r", b" ").replace(b"\n", b" ") + b"\n"


def excerpt(line: bytes) -> str:
    """Returns the beginning of a line, in printable characters."""
    return printable(line.strip().decode(errors="replace"), MOST_SHOWN)


def batches(source: BinaryIO, most: int) -> Iterator[list[bytes]]:
    """Yields the lines of a file in batches of at most `most` lines. The last line also gets a line feed. Raises
    RecordTooLarge."""
    lines: list[bytes] = []
    size = 0
    while line := source.readline(LONGEST_LINE_BYTES):
        if not line.endswith(b"\n"):
            if len(line) == LONGEST_LINE_BYTES:
                raise RecordTooLarge(f"a line is longer than {LONGEST_LINE_BYTES >> 20} MiB")
            line += b"\n"
        lines.append(line)
        size += len(line)
        if len(lines) >= most or size >= BATCH_BYTES:
            yield lines
            lines, size = [], 0
    if lines:
        yield lines

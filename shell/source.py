"""The input of an append: a file, pipe or terminal, plain or gzip, with or without a byte order mark, as lines or as one JSON
array. The output is always lines."""

from __future__ import annotations

import gzip
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Literal, NamedTuple, cast

import msgspec

from base.errors import InvalidRequest
from base.surrogates import lone_surrogate
from shell.lines import one_line
from shell.printing import say

Form = Literal["auto", "lines", "array"]
GZIP = b"\x1f\x8b"
UTF8_MARK = b"\xef\xbb\xbf"
UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
MOST_ARRAY_BYTES = 1 << 30  # held in memory
ARRAY = msgspec.json.Decoder(list[msgspec.Raw])
ANY_JSON = msgspec.json.Decoder(msgspec.Raw)


class Source(NamedTuple):
    """Lines to append. `start`: their offset in the file. `unit`: the name of a line in messages."""

    file: BinaryIO
    raw: BinaryIO
    start: int
    unit: str

    @property
    def size(self) -> int:
        """Returns the size of the input in bytes, or 0 for a pipe."""
        return os.fstat(self.raw.fileno()).st_size

    @property
    def done(self) -> int:
        """Returns how many of these bytes were read."""
        return self.raw.tell() if self.raw.seekable() else 0

    def rewind(self) -> None:
        """Goes back to the first line. Raises InvalidRequest if the input cannot be read again."""
        if not self.file.seekable():
            raise InvalidRequest(
                "standard input differs from the lines appended under this key before: use another --idempotency-key"
            )
        self.file.seek(self.start)


@contextmanager
def opened(name: str, form: Form, text: bool, encoding: str = "utf-8") -> Iterator[Source]:
    """Opens a file by its name, or standard input for `-`. `text`: the lines are not JSON. Raises InvalidRequest or OSError."""
    if name == "-" and sys.stdin.isatty():
        say(f"type {'lines of text' if text else 'JSON, one value per line'}. Ctrl-D ends the input, Ctrl-C cancels")
    with sys.stdin.buffer if name == "-" else Path(name).open("rb") as raw:
        file = cast(BinaryIO, gzip.GzipFile(fileobj=raw)) if beginning(raw).startswith(GZIP) else raw
        start = skip_mark(file) if encoding == "utf-8" else 0  # in other encodings, these bytes are letters
        if not text and (form == "array" or (form == "auto" and is_json_file(name))):
            yield from_json(file, raw, start, form)
        else:
            yield Source(file, raw, start, "line")


def beginning(file: BinaryIO) -> bytes:
    """Returns the first bytes without consuming them."""
    return cast(io.BufferedReader, file).peek(4)[:4]


def skip_mark(file: BinaryIO) -> int:
    """Skips a UTF-8 byte order mark. Returns its length. Raises InvalidRequest for other byte order marks."""
    first = beginning(file)
    if first.startswith(UTF16_MARKS):
        raise InvalidRequest("the input is UTF-16: convert it with `iconv -f UTF-16 -t UTF-8`")
    return len(file.read(len(UTF8_MARK))) if first.startswith(UTF8_MARK) else 0


def is_json_file(name: str) -> bool:
    return name.lower().removesuffix(".gz").endswith(".json")


def from_json(file: BinaryIO, raw: BinaryIO, start: int, form: Form) -> Source:
    """Returns the elements of an array as lines, or one other value as a line. Content in lines stays unchanged, unless `form`
    is "array". Raises InvalidRequest."""
    content = file.read(MOST_ARRAY_BYTES + 1)
    if len(content) > MOST_ARRAY_BYTES:
        raise InvalidRequest(
            f"the array is larger than {MOST_ARRAY_BYTES >> 30} GiB: convert it into lines with `jq -c '.[]'`"
        )
    if not content.strip():
        return Source(io.BytesIO(), raw, 0, "line")
    try:
        elements = ARRAY.decode(content) if content.lstrip().startswith(b"[") else [ANY_JSON.decode(content)]
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        if form == "array" or not is_lines(content):
            raise InvalidRequest(f"invalid JSON array: {lone_surrogate(content) or error}") from error
        return Source(io.BytesIO(content), raw, 0, "line")
    if form == "array" and not content.lstrip().startswith(b"["):
        raise InvalidRequest("invalid JSON array: expected [ at the start")
    return Source(io.BytesIO(b"".join(one_line(bytes(each)) for each in elements)), raw, 0, "element")


def is_lines(content: bytes) -> bool:
    """Returns True if the first line that is not blank is a complete value. Then the other lines may be values, too."""
    try:
        ANY_JSON.decode(content.lstrip().partition(b"\n")[0])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return False
    return True

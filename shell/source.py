"""What is appended from: a file, a pipe or a terminal, as it is or zipped, with or without a byte order mark, as lines or as one
array of JSON. Whatever it was, what comes out are lines."""

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
MOST_ARRAY_BYTES = 1 << 30  # it is held in memory
ARRAY = msgspec.json.Decoder(list[msgspec.Raw])
ANY_JSON = msgspec.json.Decoder(msgspec.Raw)


class Source(NamedTuple):
    """Lines to append. `start`: where they begin in the file. `unit`: what one of them is called."""

    file: BinaryIO
    raw: BinaryIO
    start: int
    unit: str

    @property
    def size(self) -> int:
        """Bytes of what is read from; 0 of a pipe."""
        return os.fstat(self.raw.fileno()).st_size

    @property
    def done(self) -> int:
        """How many of these were read."""
        return self.raw.tell() if self.raw.seekable() else 0

    def rewind(self) -> None:
        """Raises InvalidRequest where it cannot be read once more."""
        if not self.file.seekable():
            raise InvalidRequest("standard input begins otherwise than what was appended under this key before")
        self.file.seek(self.start)


@contextmanager
def opened(name: str, form: Form, text: bool, encoding: str = "utf-8") -> Iterator[Source]:
    """A file by its name, `-` for standard input. `text`: the lines are not JSON. Raises InvalidRequest or OSError."""
    if name == "-" and sys.stdin.isatty():
        say(f"type {'a line of text' if text else 'JSON, one value a line'}, then Ctrl-D (or Ctrl-C to give up)")
    with sys.stdin.buffer if name == "-" else Path(name).open("rb") as raw:
        file = cast(BinaryIO, gzip.GzipFile(fileobj=raw)) if beginning(raw).startswith(GZIP) else raw
        start = skip_mark(file) if encoding == "utf-8" else 0  # elsewhere those are letters
        if not text and (form == "array" or (form == "auto" and is_json_file(name))):
            yield from_json(file, raw, start, form)
        else:
            yield Source(file, raw, start, "line")


def beginning(file: BinaryIO) -> bytes:
    """The first bytes, which are read again."""
    return cast(io.BufferedReader, file).peek(4)[:4]


def skip_mark(file: BinaryIO) -> int:
    """How many bytes a mark of UTF-8 took. Raises InvalidRequest for other marks."""
    first = beginning(file)
    if first.startswith(UTF16_MARKS):
        raise InvalidRequest("it is in UTF-16: turn it into UTF-8 with `iconv -f UTF-16 -t UTF-8`")
    return len(file.read(len(UTF8_MARK))) if first.startswith(UTF8_MARK) else 0


def is_json_file(name: str) -> bool:
    return name.lower().removesuffix(".gz").endswith(".json")


def from_json(file: BinaryIO, raw: BinaryIO, start: int, form: Form) -> Source:
    """An array, an element a line; or one other value; or, in a file that only is called so, lines. Raises InvalidRequest."""
    content = file.read(MOST_ARRAY_BYTES + 1)
    if len(content) > MOST_ARRAY_BYTES:
        raise InvalidRequest(
            f"an array of more than {MOST_ARRAY_BYTES >> 30} GiB: turn it into lines with `jq -c '.[]'`"
        )
    if not content.strip():
        return Source(io.BytesIO(), raw, 0, "line")
    try:
        elements = ARRAY.decode(content) if content.lstrip().startswith(b"[") else [ANY_JSON.decode(content)]
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        if form == "array" or not is_lines(content):
            raise InvalidRequest(f"no JSON array: {lone_surrogate(content) or error}") from error
        return Source(io.BytesIO(content), raw, 0, "line")
    if form == "array" and not content.lstrip().startswith(b"["):
        raise InvalidRequest("no JSON array: it begins otherwise")
    return Source(io.BytesIO(b"".join(one_line(bytes(each)) for each in elements)), raw, 0, "element")


def is_lines(content: bytes) -> bool:
    """Whether the first line that is not blank is a whole value, so that the rest may be some, too."""
    try:
        ANY_JSON.decode(content.lstrip().partition(b"\n")[0])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return False
    return True

"""Finds the end of a chunked body whose bytes pass on unchanged (RFC 9112, 7.1)."""

from __future__ import annotations

import re

SIZE = re.compile(rb"[0-9a-fA-F]{1,15}")
MOST_LINE = 16 * 1024  # bytes of the line of a size or of a trailer


class Chunks:
    """The state of one body between two of its pieces."""

    def __init__(self) -> None:
        self.left = 0  # bytes of the current chunk, with its line end, that have not arrived yet
        self.line = b""  # the start of a line
        self.is_last = False  # trailers follow

    def end(self, data: bytes, at: int) -> int | None:
        """Returns the end of the body in `data`, whose next byte is at `at`. Returns None if the body is longer.

        Raises ValueError for bytes that are not chunks.
        """
        while True:
            step = min(self.left, len(data) - at)
            self.left -= step
            at += step
            line_end = data.find(b"\n", at)
            if line_end < 0:  # also in the middle of a chunk
                self.line += data[at:]
                if len(self.line) > MOST_LINE:
                    raise ValueError("the line of a chunk is too long")
                return None
            line, at = (self.line + data[at:line_end]).rstrip(b"\r"), line_end + 1
            self.line = b""
            if self.is_last:
                if not line:
                    return at
                continue
            size = line.partition(b";")[0].strip()
            if not SIZE.fullmatch(size):
                raise ValueError("the size of a chunk is not a number")
            length = int(size, 16)
            if length:
                self.left = length + 2
            else:
                self.is_last = True

"""Unzips the body of a request, within limits. The server and the gateway unzip here, so both read the same body."""

from __future__ import annotations

import zlib

from base.bodies import too_large
from base.errors import InvalidRequest, UnsupportedMediaType

MOST_MEMBERS = (
    10_000  # members of a gzip body. pigz and bgzip make one for every 64 KiB or more. Even a small member costs time.
)
GZIP = (b"gzip", b"x-gzip")  # RFC 9110, 8.4.1.3: they are the same
STEP = 64 * 1024  # bytes of a gzip body unzipped at a time
# A body of more than FREE_BYTES has at most this many times its zipped size. Records that repeat reach a tenth of it. Otherwise
# 61 kB could cost as much as 64 MiB.
MOST_RATIO, FREE_BYTES = 200, 1024 * 1024


def is_gzip(encoding: bytes) -> bool:
    """Returns whether a body in this encoding has to be unzipped. Raises UnsupportedMediaType for an unknown encoding."""
    if encoding.lower() not in (b"identity", *GZIP):
        error = UnsupportedMediaType("unknown Content-Encoding: expected gzip or none")
        error.headers = ((b"accept-encoding", b"gzip"),)  # RFC 9110, 15.5.16
        raise error
    return encoding.lower() in GZIP


def gunzip(body: bytes, most: int) -> bytes:
    """Returns all members of a gzip body, joined. Raises InvalidRequest or PayloadTooLarge."""
    most = min(most, max(FREE_BYTES, MOST_RATIO * len(body)))
    parts: list[bytes] = []
    size = at = members = 0
    while at < len(body) or not members:
        members += 1
        if members > MOST_MEMBERS:
            raise InvalidRequest(f"the gzip body has too many members: expected at most {MOST_MEMBERS}")
        unzip = zlib.decompressobj(wbits=31)
        while not unzip.eof:
            step = body[at : at + STEP]
            try:
                # Never unzips more than the cap, and in parts, so that a body with a high ratio is refused early.
                part = unzip.decompress(step, min(most + 1 - size, FREE_BYTES))
            except zlib.error as error:
                raise InvalidRequest(f"invalid gzip body: {error}") from error
            if not step and not part and not unzip.eof:
                raise InvalidRequest("the gzip body is incomplete")
            parts.append(part)
            size += len(part)
            at += len(step) - len(unzip.unconsumed_tail) - len(unzip.unused_data)
            if size > most or size > FREE_BYTES + MOST_RATIO * at:
                raise too_large(most)
    return b"".join(parts)

"""Reads the body of a request, within limits of size, and unzips it. http1 limits the time that a body takes."""

from __future__ import annotations

import zlib

from base.errors import InvalidRequest, PayloadTooLarge, UnsupportedMediaType
from http1 import Refused, Request
from wire.limits import under_way

SMALL = 64 * 1024  # bytes of a body, for calls without a key or without a body
MOST_MEMBERS = (
    10_000  # members of a gzip body. pigz and bgzip make one for every 64 KiB or more. Even a small member costs time.
)
STEP = 64 * 1024  # bytes of a gzip body unzipped at a time


async def read(request: Request, headers: dict[bytes, bytes], most: int, held: under_way) -> bytes:
    """Returns the whole body, unzipped. It has at most `most` bytes, zipped and unzipped. `held` counts the bytes as they arrive.

    Raises PayloadTooLarge as soon as the body is known to be longer. Raises InvalidRequest if the body arrives too slowly, is cut
    off, or has wrong framing or compression. Raises Throttled if this process holds too many bytes. Raises UnsupportedMediaType.
    """
    arriving = request.body
    if (arriving.length or 0) > most:
        raise too_large(most)
    zipped = b"content-encoding" in headers and is_gzip(headers[b"content-encoding"])
    parts: list[bytes] = []
    size = 0
    try:
        while part := await arriving.next():
            size += len(part)
            if size > most:
                raise too_large(most)
            held.hold(len(part))
            parts.append(part)
    except Refused as error:  # the framing is wrong, or the client was too slow
        raise InvalidRequest(error.message) from error
    body = parts[0] if len(parts) == 1 else b"".join(parts)
    if zipped:
        body = gunzip(body, most)
        held.hold(len(body))
    return body


def is_gzip(encoding: bytes) -> bool:
    """Returns whether a body in this encoding has to be unzipped. Raises UnsupportedMediaType for an unknown encoding."""
    if encoding.lower() not in (b"identity", b"gzip"):
        raise UnsupportedMediaType("unknown Content-Encoding: expected gzip or none")
    return encoding.lower() == b"gzip"


def gunzip(body: bytes, most: int) -> bytes:
    """Returns all members of a gzip body, joined. Raises InvalidRequest or PayloadTooLarge."""
    parts: list[bytes] = []
    size = at = members = 0
    while at < len(body) or not members:
        members += 1
        if members > MOST_MEMBERS:
            raise InvalidRequest(f"the gzip body has too many members: expected at most {MOST_MEMBERS}")
        unzip = zlib.decompressobj(wbits=31)
        while not unzip.eof:
            step = body[at : at + STEP]
            if not step:
                raise InvalidRequest("the gzip body is incomplete")
            try:
                part = unzip.decompress(step, most + 1 - size)  # never unzips more than the cap
            except zlib.error as error:
                raise InvalidRequest(f"invalid gzip body: {error}") from error
            parts.append(part)
            size += len(part)
            if size > most:
                raise too_large(most)
            at += len(step) - len(unzip.unconsumed_tail) - len(unzip.unused_data)
    return b"".join(parts)


def too_large(most: int) -> PayloadTooLarge:
    return PayloadTooLarge(f"the body is too large: expected at most {most} bytes", max=most)

"""Reads the body of a request, within limits of size and rate, and unzips it."""

from __future__ import annotations

import asyncio
import time
import zlib
from collections.abc import Awaitable, Callable
from typing import Any

from django.conf import settings

from base.errors import InvalidRequest, PayloadTooLarge, UnsupportedMediaType
from wire.limits import under_way

SMALL = 64 * 1024  # bytes of a body, for calls without a key or without a body
MOST_MEMBERS = (
    10_000  # members of a gzip body. pigz and bgzip make one for every 64 KiB or more. Even a small member costs time.
)
HTTP_1 = ("1.0", "1.1")
STEP = 64 * 1024  # bytes of a gzip body unzipped at a time
GRACE_SECONDS = settings.TOPICS_UPLOAD_GRACE_MS / 1000
LEAST_RATE = settings.TOPICS_UPLOAD_LEAST_RATE
TICK_SECONDS = min(1.0, GRACE_SECONDS / 4)  # between two checks for late uploads
ENOUGH_BYTES = GRACE_SECONDS * LEAST_RATE

Receive = Callable[[], Awaitable[dict[str, Any]]]


async def read(headers: dict[bytes, bytes], receive: Receive, most: int, held: under_way) -> bytes:
    """Returns the whole body, unzipped. It has at most `most` bytes, zipped and unzipped. `held` counts the bytes as they arrive.

    Raises PayloadTooLarge as soon as the body is known to be longer. Raises InvalidRequest if the body arrives too slowly, is cut
    off, or has wrong framing or compression. Raises Throttled if this process holds too many bytes. Raises UnsupportedMediaType.
    """
    whole = announced(headers)
    if whole > most:
        raise too_large(most)
    zipped = b"content-encoding" in headers and is_gzip(headers[b"content-encoding"])
    upload = Upload()
    uploads.begin(upload)
    parts: list[bytes] = []
    size = 0
    try:
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                # The client disconnected, or its chunks are malformed. The web server does not say which.
                raise InvalidRequest("the body is incomplete, or its chunks are malformed")
            part = message.get("body", b"")
            size += len(part)
            if size > most:
                raise too_large(most)
            held.hold(len(part))
            # After Content-Length bytes the body is complete. To wait for its end, too, would cost another thread switch.
            if size == whole > 0 or not message.get("more_body"):
                break
            parts.append(part)
            upload.came(len(part))
    except asyncio.CancelledError:
        upload.check()
        raise
    finally:
        uploads.end(upload)
    body = b"".join((*parts, part)) if parts else part
    if zipped:
        body = gunzip(body, most)
        held.hold(len(body))
    return body


def is_gzip(encoding: bytes) -> bool:
    """Returns whether a body in this encoding has to be unzipped. Raises UnsupportedMediaType for an unknown encoding."""
    if encoding.lower() not in (b"identity", b"gzip"):
        raise UnsupportedMediaType("unknown Content-Encoding: expected gzip or none")
    return encoding.lower() == b"gzip"


def announces(scope: dict[str, Any], headers: dict[bytes, bytes]) -> bool:
    """Returns whether a body may follow. HTTP/1 announces a body in a header. HTTP/2 can send one without an announcement."""
    return b"content-length" in headers or b"transfer-encoding" in headers or scope["http_version"] not in HTTP_1


def announced(headers: dict[bytes, bytes]) -> int:
    """Returns the Content-Length, or 0 without one. Raises InvalidRequest."""
    length = headers.get(b"content-length", b"0")
    if not length.isdigit() or len(length) > 18:
        raise InvalidRequest("invalid Content-Length: expected a number of bytes")
    return int(length)


class Upload:
    """A body that is being received. If the body arrives too slowly, its task is cancelled.

    asyncio.timeout() does the same, but a timer for each body took a tenth of the time of a small request.
    """

    __slots__ = ("late", "lately", "task", "until")

    def __init__(self) -> None:
        self.task, self.late, self.lately = asyncio.current_task(), False, 0
        self.until = time.monotonic() + GRACE_SECONDS

    def came(self, size: int) -> None:
        """Count received bytes. If a client sends enough within the grace, the grace starts again.

        Earlier bytes do not count again. Otherwise a client could send one large part and then be silent for hours.
        """
        self.lately += size
        if self.lately >= ENOUGH_BYTES:
            self.lately, self.until = 0, time.monotonic() + GRACE_SECONDS

    def check(self) -> None:
        """Called when the task was cancelled. Raises InvalidRequest if the slow upload was the only reason."""
        if self.late and self.task is not None and not self.task.uncancel():
            raise InvalidRequest(
                f"the body arrived too slowly: expected at least {LEAST_RATE} bytes per second"
                f" over {GRACE_SECONDS:g} seconds"
            )


class Uploads:
    """The uploads of an event loop, and the task that watches them."""

    def __init__(self) -> None:
        self.under_way: dict[Upload, None] = {}
        self.watching: asyncio.Task[None] | None = None

    def begin(self, upload: Upload) -> None:
        self.under_way[upload] = None
        if self.watching is None or self.watching.done():
            self.watching = asyncio.create_task(self.watch())

    def end(self, upload: Upload) -> None:
        del self.under_way[upload]

    async def watch(self) -> None:
        """Cancel late uploads, until there are no more uploads."""
        while self.under_way:
            await asyncio.sleep(TICK_SECONDS)
            now = time.monotonic()
            for upload in list(self.under_way):
                if now >= upload.until and not upload.late and upload.task is not None:
                    upload.late = True
                    upload.task.cancel()


uploads = Uploads()


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

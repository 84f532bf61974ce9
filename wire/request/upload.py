"""Reads the body of a request, within limits of size, and unzips it. http1 limits the time that a body takes."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from django.conf import settings

from base.bodies import gathered, too_large
from base.errors import InvalidRequest, PayloadTooLarge
from http1 import Refused, Request
from wire.endpoint import Endpoint
from wire.limits import under_way
from wire.request.inflate import FREE_BYTES, gunzip, is_gzip
from wire.request.turns import turns

# zlib lets the event loop run meanwhile, and one thread leaves the event loop the other core.
unzipping = ThreadPoolExecutor(1, "unzip")
MAX_BODY_BYTES = settings.TOPICS_MAX_BODY_BYTES
MAX_CALL_BYTES = min(settings.TOPICS_MAX_CALL_BYTES, MAX_BODY_BYTES)
# Bytes of a body, also unzipped, that takes no turn (turns.py). Also the limit of calls without a key or without a body.
SMALL = 64 * 1024
# Bytes of a zipped body that may be unzipped at once, into SMALL bytes. It has 200 members at most.
SMALL_ZIPPED = 4 * 1024
# The beginning of a member, and the bytes that each member counts, because even an empty one costs time.
MAGIC, MEMBER = b"\x1f\x8b", 4 * 1024
# The bytes that a refusal of a large body counts. Its connection may end, after the client has sent up to 1 MiB.
REFUSED = 256 * 1024


def most_bytes(endpoint: Endpoint | None) -> int:
    """Returns how many bytes the body of a call can have, or the command of a WebSocket. None: it has no endpoint.

    A body is parsed in the event loop, so few calls take large ones.
    """
    return MAX_BODY_BYTES if endpoint is not None and endpoint.operation.is_large else MAX_CALL_BYTES


async def read(request: Request, headers: dict[bytes, bytes], most: int, held: under_way) -> bytes:
    """Returns the whole body, unzipped. It has at most `most` bytes, zipped and unzipped. `held` counts the bytes as they arrive.
    A large body waits for the holder's turn, before it is read if its length is known.

    Raises PayloadTooLarge as soon as the body is known to be longer. Raises InvalidRequest if the body arrives too slowly, is cut
    off, or has wrong framing or compression. Raises Throttled if this process holds too many bytes, or the client sends too many.
    Raises UnsupportedMediaType.
    """
    arriving = request.body
    length = arriving.length or 0
    if length > most:
        raise too_large(most)
    if length > SMALL:
        await turns.take(held.holder, length)
    zipped = b"content-encoding" in headers and is_gzip(headers[b"content-encoding"])
    if length and arriving.complete:  # most bodies arrive together with their head
        body = arriving.take()
        held.hold(length)
    else:
        try:
            body = await gathered(arriving, most, held.hold)
        except Refused as error:  # the framing is wrong, or the client was too slow
            raise InvalidRequest(error.message) from error
    if arriving.length is None and len(body) > SMALL:
        await turns.take(held.holder, len(body))
    return await unzipped(body, most, held) if zipped else body


async def unzipped(body: bytes, most: int, held: under_way) -> bytes:
    """Returns the body unzipped, as read() does. One that becomes large waits for the holder's turn."""
    if len(body) <= SMALL_ZIPPED:
        with suppress(PayloadTooLarge):
            return gunzip(body, min(most, SMALL))
    size = FREE_BYTES  # a body that is refused counts as that much, because it can have been unzipped so far
    await turns.begin(held.holder)
    try:
        whole = await asyncio.get_running_loop().run_in_executor(unzipping, gunzip, body, most)
        size = len(whole)
    finally:
        turns.end(held.holder, size + MEMBER * body.count(MAGIC))
    held.hold(size)
    return whole


async def refused(request: Request, headers: dict[bytes, bytes], holder: str) -> None:
    """Waits until a request with a body that can be large may be refused without a look at the body. Raises Throttled."""
    if can_be_large(request, headers):
        with under_way(holder):
            await turns.take(holder, REFUSED)


def can_be_large(request: Request, headers: dict[bytes, bytes]) -> bool:
    """Returns whether a body can have more than SMALL bytes. The length of a zipped or chunked body does not tell it."""
    length = request.body.length
    return length is None or length > SMALL or b"content-encoding" in headers

"""GET /v0/ws: the checks of a handshake, and then the answer that hands the connection over to a WebSocket."""

from __future__ import annotations

from django.conf import settings
from websockets.datastructures import Headers
from websockets.extensions.permessage_deflate import ServerPerMessageDeflateFactory
from websockets.http11 import Request as Handshake
from websockets.server import ServerProtocol

from base.errors import (
    Forbidden,
    InvalidRequest,
    NotReady,
    ShuttingDown,
    Throttled,
    UpgradeRequired,
)
from http1 import Request, Upgrade
from sockets.busy import Busy
from sockets.command_log import log_of
from sockets.deflate import BoundedDeflate
from sockets.protocol import FrameProtocol
from sockets.socket import LONGEST_MESSAGE, Socket
from watch.api import StreamQuery
from watch.registry import registry
from wire.access import client
from wire.access.entrance import who_follows
from wire.process import shutdown
from wire.request.parse import parse_query
from wire.streams import Opening, StreamCall

PATH = "/v0/ws"
BUSY = (Throttled, NotReady, ShuttingDown)  # the client can try again later
ORIGINS = frozenset(origin.encode() for origin in settings.CORS_ALLOWED_ORIGINS)
# A socket keeps no window between two messages, so an idle socket holds no memory for compression.
DEFLATE = ServerPerMessageDeflateFactory(
    server_no_context_takeover=True,
    client_no_context_takeover=True,
    server_max_window_bits=12,
    compress_settings={"memLevel": 5},
)


async def open_socket(call: StreamCall) -> None:
    """Answers a handshake. Raises TopicsError for a request that gets no socket."""
    request, _, query, headers, writer = call
    check_origin(headers)
    streams = registry()
    try:
        shutdown.check()
        key = await who_follows(query, request.origin, headers)
        await streams.enter(key)
    except BUSY as error:
        if b"origin" not in headers:
            raise
        # A browser shows its page a close code, but no status.
        protocol, answer = shake_hands(request)
        writer.send(Upgrade([*answer, *request.added], Busy(protocol, error.message).take_over))
        return
    try:
        parse_query(query, StreamQuery)
        protocol, answer = shake_hands(request)
        socket = Socket(streams, key, client.origin(request.origin, headers), protocol, log_of(request, key))
        writer.send(Upgrade([*answer, *request.added], socket.take_over))
    except BaseException:
        streams.exit(key)
        raise
    if not socket.is_taken_over:  # the client has disconnected
        streams.exit(key)


def check_origin(headers: dict[bytes, bytes]) -> None:
    """Raises Forbidden if the page of another origin opens the socket. Only a browser sends an origin.

    A browser lets every page open a WebSocket to this server. Without keys, nothing else would protect the topics from the page.
    """
    origin = headers.get(b"origin")
    if origin is None or origin in ORIGINS:
        return
    if origin.partition(b"://")[2] != headers.get(b"host", b""):
        raise Forbidden(
            f"pages of {origin.decode('latin-1')[:200]} may not connect: add the origin to CORS_ALLOWED_ORIGINS"
        )


def shake_hands(request: Request) -> tuple[FrameProtocol, list[tuple[bytes, bytes]]]:
    """Returns the protocol of a new socket, and the headers of the answer. Raises UpgradeRequired or InvalidRequest."""
    if not request.is_upgrade:
        raise UpgradeRequired("this path is a WebSocket: connect with a WebSocket client")
    handshake = ServerProtocol(extensions=[DEFLATE] if settings.TOPICS_WS_DEFLATE else None)
    headers = Headers((name.decode("latin-1"), value.decode("latin-1")) for name, value in request.headers)
    answer = handshake.accept(Handshake(request.target.decode("latin-1"), headers))
    if answer.status_code != 101:
        raise InvalidRequest(f"invalid handshake: {handshake.handshake_exc}")
    # The parser of ServerProtocol would wait for a request, which the HTTP server has read.
    protocol = FrameProtocol(LONGEST_MESSAGE)
    protocol.extensions = [BoundedDeflate(each) for each in handshake.extensions]
    del answer.headers["date"]  # it is in request.added
    return protocol, [(name.lower().encode(), value.encode()) for name, value in answer.headers.raw_items()]


def socket_at(path: str) -> Opening | None:
    """Returns the opening of the WebSocket of this path, or None for a path without one."""
    return open_socket if path == PATH else None

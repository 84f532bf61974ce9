"""A client of the WebSocket that sends bytes, for frames that no library sends."""

from __future__ import annotations

import json
import socket
import struct
import zlib
from typing import Any, NamedTuple

from tests.deadlines import DEADLINE

CONT, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
MASK = b"\x37\xfa\x21\x3d"
HANDSHAKE = (
    "GET /v0/ws HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n%s\r\n"
)
DEFLATE = "Sec-WebSocket-Extensions: permessage-deflate\r\n"
ZIPPED = 0x40  # the reserved bit of a compressed message
TAIL = b"\0\0\xff\xff"  # of a message that is compressed, and not sent


class Received(NamedTuple):
    opcode: int
    data: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.data)

    @property
    def code(self) -> int:
        """The code of a close frame."""
        return int.from_bytes(self.data[:2])


def frame(opcode: int, data: bytes = b"", fin: bool = True, reserved: int = 0, masked: bool = True) -> bytes:
    """The bytes of a frame. `reserved`: its three reserved bits."""
    head = bytes([(0x80 if fin else 0) | reserved << 4 | opcode])
    mask_bit = 0x80 if masked else 0
    if len(data) < 126:
        head += bytes([mask_bit | len(data)])
    elif len(data) < 65536:
        head += bytes([mask_bit | 126]) + struct.pack("!H", len(data))
    else:
        head += bytes([mask_bit | 127]) + struct.pack("!Q", len(data))
    if not masked:
        return head + data
    return head + MASK + bytes(byte ^ MASK[at % 4] for at, byte in enumerate(data))


def zipped(text: bytes) -> bytes:
    """The bytes of a compressed message."""
    deflate = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    data = deflate.compress(text) + deflate.flush(zlib.Z_SYNC_FLUSH)
    return frame(TEXT, data.removesuffix(TAIL), reserved=ZIPPED >> 4)


def close(code: int | None = None, reason: bytes = b"") -> bytes:
    return frame(CLOSE, b"" if code is None else struct.pack("!H", code) + reason)


class RawSocket:
    """An open socket. `zips`: the server may compress."""

    def __init__(self, port: int, *, zips: bool = False) -> None:
        self.zips = zips
        self.socket = socket.create_connection(("127.0.0.1", port), DEADLINE)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.sendall((HANDSHAKE % (DEFLATE if zips else "")).encode())
        self.file = self.socket.makefile("rb")
        assert self.file.readline().split()[1] == b"101"
        while self.file.readline().strip():
            pass

    def __enter__(self) -> RawSocket:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def receive(self) -> Received | None:
        """The next frame, or None at the end of the connection."""
        head = self.read(2)
        if len(head) < 2:
            return None
        assert not head[1] & 0x80, "a server masks no frame"
        is_zipped = self.zips and bool(head[0] & ZIPPED)
        assert head[0] & 0xF0 == (0x80 | ZIPPED if is_zipped else 0x80), "whole frames, without other reserved bits"
        size = head[1]
        if size == 126:
            (size,) = struct.unpack("!H", self.read(2))
        elif size == 127:
            (size,) = struct.unpack("!Q", self.read(8))
        data = self.read(size)
        if is_zipped:
            data = zlib.decompressobj(wbits=-zlib.MAX_WBITS).decompress(data + TAIL)
        return Received(head[0] & 0x0F, data)

    def read(self, size: int) -> bytes:
        """The next bytes, fewer only at the end of the connection. Nothing is read ahead, so that a test can select."""
        data = b""
        while len(data) < size and (part := self.socket.recv(size - len(data))):
            data += part
        return data

    def rest(self) -> list[Received]:
        """All frames up to the end of the connection."""
        found = []
        while (received := self.receive()) is not None:
            found.append(received)
        return found

"""Bounds what a compressed message becomes, as a zipped body is bounded (wire/request/inflate.py)."""

from __future__ import annotations

from websockets.extensions import Extension
from websockets.frames import CTRL_OPCODES, Frame, Opcode

from wire.request.inflate import FREE_BYTES, MOST_RATIO


class BoundedDeflate(Extension):
    """The extension of one socket. `zipped` and `unzipped`: bytes of the current message so far, over all its fragments."""

    def __init__(self, deflate: Extension) -> None:
        self.deflate, self.name = deflate, deflate.name
        self.zipped = self.unzipped = 0

    def decode(self, frame: Frame, *, max_size: int | None = None) -> Frame:
        """Returns the frame unzipped. Raises PayloadTooBig."""
        if frame.opcode in CTRL_OPCODES:
            return self.deflate.decode(frame, max_size=max_size)
        if frame.opcode is not Opcode.CONT:
            self.zipped = self.unzipped = 0
        self.zipped += len(frame.data)
        # At least 1, because 0 is no bound for the library.
        most = max(1, FREE_BYTES - self.unzipped, MOST_RATIO * self.zipped - self.unzipped)
        decoded = self.deflate.decode(frame, max_size=most if max_size is None else min(most, max_size))
        self.unzipped += len(decoded.data)
        return decoded

    def encode(self, frame: Frame) -> Frame:
        return self.deflate.encode(frame)

"""The parser of a WebSocket's frames: the one of the library `websockets`, with two differences.

A close frame between the fragments of a message is valid (RFC 6455, 5.5.1). An invalid frame does not close the socket at once,
because commands before it can still be unanswered.
"""

from __future__ import annotations

from collections.abc import Generator

from websockets.frames import CloseCode, Frame, Opcode
from websockets.protocol import Protocol, Side, State


class FrameProtocol(Protocol):
    """An open socket. `failure`: the close code and the reason of an invalid frame. Bytes behind that frame are ignored."""

    def __init__(self, longest_message: int) -> None:
        super().__init__(Side.SERVER, state=State.OPEN, max_size=longest_message)
        self.failure: tuple[int, str] | None = None

    def recv_frame(self, frame: Frame) -> None:
        if frame.opcode is Opcode.CLOSE:
            self.current_size = None  # the message in fragments ends here
        super().recv_frame(frame)

    def has_failed(self) -> bool:
        return self.failure is not None

    def fail(self, code: CloseCode | int, reason: str = "") -> None:
        """Notes an invalid frame, and `close` sends its code later.

        The parser calls it, and the socket, for a frame that only its data make invalid. The socket takes frames after the parser
        has read them all, so its frame is in front of the parser's, and replaces it.
        """
        self.failure = code, reason
        self.parser = self.ignore()
        next(self.parser)

    def ignore(self) -> Generator[None]:
        while True:
            self.reader.discard()
            yield

    def close(self, code: int, reason: str) -> None:
        """Makes a close frame, and ends our side behind it."""
        super().fail(code, reason)

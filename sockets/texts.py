"""The usual bytes of a client: whole text frames. The parser of the library would take 3 µs for each, a tenth of a publish."""

from __future__ import annotations

from websockets.frames import apply_mask

TEXT = 0x81  # the first byte of a message in one frame, without an extension
MASKED, LENGTH = 0x80, 0x7F  # bits of the second byte
SHORT, TWO_BYTES = 125, 126  # the longest length in the second byte; the mark of a length in the next two bytes


def whole_texts(data: bytes, longest: int) -> tuple[list[bytes], int]:
    """Returns the messages at the start of `data`, and where the rest begins. `data` begins with a frame.

    The library takes the rest: control frames, fragments, compressed, longer and incomplete frames, and invalid frames.
    """
    messages: list[bytes] = []
    at, end = 0, len(data)
    while end - at >= 6 and data[at] == TEXT and data[at + 1] & MASKED:
        size, mask = data[at + 1] & LENGTH, at + 2
        if size == TWO_BYTES:
            size, mask = data[at + 2] << 8 | data[at + 3], at + 4
            if size <= SHORT:
                break
        elif size > SHORT:
            break
        text = mask + 4
        if size > longest or text + size > end:
            break
        at = text + size
        messages.append(apply_mask(data[text:at], data[mask:text]))
    return messages, at

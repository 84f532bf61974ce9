"""The ends of chunked bodies whose bytes pass unread."""

import pytest

from http1.chunks import Chunks

BODIES = (
    b"0\r\n\r\n",
    b"3\r\nabc\r\n0\r\n\r\n",
    b"5\r\n0\r\n\r\n\r\n0\r\n\r\n",  # whose content looks like an end
    b"A;name=value\r\n0123456789\r\n00\r\nchecksum: 1\r\nother: 2\r\n\r\n",
    b"1\r\n0\r\n1\r\n\r\r\n0\r\n\r\n",
)


@pytest.mark.parametrize("body", BODIES)
def test_the_end_is_found_wherever_the_pieces_begin(body: bytes) -> None:
    following = b"HTTP/1.1 200 OK\r\n"
    for first in range(len(body)):
        for second in range(first, len(body)):
            chunks = Chunks()
            assert chunks.end(body[:first], 0) is None
            assert chunks.end(body[first:second], 0) is None
            assert chunks.end(b"before" + body[second:] + following, 6) == 6 + len(body) - second


@pytest.mark.parametrize(
    "body", [b"\r\n", b"x\r\n", b"-1\r\n", b"0x1\r\n", b"1_0\r\n", b"f" * 16 + b"\r\n", b"1" * 20_000]
)
def test_other_bytes_are_refused(body: bytes) -> None:
    with pytest.raises(ValueError, match="chunk"):
        Chunks().end(body, 0)

"""Whole text frames are taken as the library would take them (sockets/texts.py)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.frames import Frame, Opcode
from websockets.protocol import Protocol, Side, State

from sockets.texts import whole_texts

LONGEST = 70_000
SIZES = st.one_of(st.integers(0, 300), st.sampled_from((125, 126, 127, 65_535, 65_536, LONGEST, LONGEST + 1)))


@st.composite
def frames(draw: st.DrawFn) -> bytes:
    opcode = draw(st.sampled_from((Opcode.TEXT,) * 6 + (Opcode.BINARY, Opcode.PING, Opcode.CONT)))
    size = draw(st.integers(0, 125) if opcode is Opcode.PING else SIZES)
    usual = opcode is Opcode.PING or draw(st.integers(0, 9)) > 0
    payload = (draw(st.binary(min_size=1, max_size=4)) * size)[:size]
    whole = bytearray(Frame(opcode, payload, fin=usual).serialize(mask=draw(st.integers(0, 19)) > 0))
    if draw(st.integers(0, 19)) == 0:
        whole[0] ^= 0x40  # the bit of an extension
    return bytes(whole)


def taken(protocol: Protocol, data: bytes) -> list[tuple[Opcode, bytes, bool]]:
    protocol.receive_data(data)
    return [(frame.opcode, bytes(frame.data), frame.fin) for frame in protocol.events_received()]


def library() -> Protocol:
    return Protocol(Side.SERVER, state=State.OPEN, max_size=LONGEST)


@given(st.lists(frames(), max_size=6), st.integers(0, 20))
def test_with_the_library_behind_it_the_result_is_that_of_the_library_alone(sent, cut):
    data = b"".join(sent)
    data = data[: len(data) - cut]
    texts, rest = whole_texts(data, LONGEST)
    behind, alone = library(), library()
    found = [(Opcode.TEXT, text, True) for text in texts] + taken(behind, data[rest:])
    assert found == taken(alone, data)
    assert behind.state is alone.state
    assert str(behind.parser_exc) == str(alone.parser_exc)


@pytest.mark.parametrize("size", [0, 1, 125, 126, 65_535])
def test_a_usual_text_never_reaches_the_library(size):
    data = Frame(Opcode.TEXT, b"x" * size).serialize(mask=True)
    assert whole_texts(data + data, LONGEST) == ([b"x" * size] * 2, 2 * len(data))


def test_a_length_in_two_bytes_that_fits_one_byte_is_for_the_library():
    """The library accepts it, or not: it decides."""
    assert whole_texts(b"\x81\xfe\x00\x05" + b"\0" * 4 + b"hello", LONGEST) == ([], 0)

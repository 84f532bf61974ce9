"""Frames of RFC 6455 as bytes, valid and invalid, after the cases of Autobahn's test suite.

Each case names its section there: 1 sizes, 2 pings and pongs, 3 reserved bits, 4 opcodes, 5 fragments, 6 UTF-8, 7 closes, 9 huge
messages. The suite itself runs in test_autobahn.py, where it is installed. A text that is no command gets an `error` frame, so
a test sees that the server took it as a message.
"""

from __future__ import annotations

import struct
from typing import Any

import pytest

from tests.instances import Instance
from tests.sockets.raw import BINARY, CLOSE, CONT, PING, PONG, TEXT, RawSocket, Received, close, frame

HELLO = "Hello-µ@ßöäüàá-UTF-8!!".encode()
END = close(1000)


def shown(received: Received | None) -> Any:
    """A frame in short: the code of an error or of a close, or the opcode and the data of another frame."""
    assert received is not None
    if received.opcode == TEXT:
        return received.json["code"]
    return received.code if received.opcode == CLOSE else (received.opcode, received.data)


def rest(server: Instance, *parts: bytes) -> list[Any]:
    """What the server answers to these bytes, up to the end of the connection."""
    with RawSocket(server.port) as socket:
        socket.send(b"".join(parts))
        return [shown(each) for each in socket.rest()]


MESSAGE = "invalid_request"  # the answer to a text that is no command
PONG_X = (PONG, b"x")

VALID = {
    "1.1 sizes of texts": (
        [frame(TEXT, b"*" * size) for size in (0, 1, 125, 126, 127, 128, 4096)],
        [MESSAGE] * 7,
    ),
    "2.1-2.4 pings": (
        [frame(PING), frame(PING, b"x"), frame(PING, b"\x00\xff\xfe\x00"), frame(PING, b"\xfe" * 125)],
        [(PONG, b""), PONG_X, (PONG, b"\x00\xff\xfe\x00"), (PONG, b"\xfe" * 125)],
    ),
    "2.7-2.9 pongs that nobody asked for": ([frame(PONG), frame(PONG, b"y"), frame(PING, b"x")], [PONG_X]),
    "2.10 many pings": ([frame(PING, b"%d" % n) for n in range(10)], [(PONG, b"%d" % n) for n in range(10)]),
    "5.3 a text in two fragments": ([frame(TEXT, b"a", fin=False), frame(CONT, b"b")], [MESSAGE]),
    "5.6 a ping between fragments": (
        [frame(TEXT, b"a", fin=False), frame(PING, b"x"), frame(CONT, b"b")],
        [PONG_X, MESSAGE],
    ),
    "5.19 pings between fragments, some of them empty": (
        [
            frame(TEXT, b"", fin=False),
            frame(PING, b"x"),
            frame(CONT, b"", fin=False),
            frame(PING, b"x"),
            frame(CONT, b"c"),
        ],
        [PONG_X, PONG_X, MESSAGE],
    ),
    "6.1 an empty text in fragments": ([frame(TEXT, fin=False), frame(CONT, fin=False), frame(CONT)], [MESSAGE]),
    "6.2 UTF-8 in fragments of one byte": (
        [frame(CONT if at else TEXT, HELLO[at : at + 1], fin=at + 1 == len(HELLO)) for at in range(len(HELLO))],
        [MESSAGE],
    ),
    "6.6-6.9 the first and last of each length": (
        [
            frame(TEXT, text.encode())
            for text in ("\x00", "\x7f", "\x80", "\u07ff", "\u0800", "\uffff", "\U00010000", "\U0010ffff")
        ],
        [MESSAGE] * 8,
    ),
}

INVALID = {
    "2.5 a ping of 126 bytes": ([frame(PING, b"\xfe" * 126)], 1002),
    "3.1 a reserved bit": ([frame(TEXT, b"a", reserved=1)], 1002),
    "3.4 reserved bits of a later frame": ([frame(PING, b"", reserved=2)], 1002),
    "3.5 a reserved bit of a binary frame": ([frame(BINARY, b"a", reserved=4)], 1002),
    "4.1 reserved opcodes": ([frame(3)], 1002),
    "4.1.5 a reserved opcode with data": ([frame(7, b"a")], 1002),
    "4.2 reserved control opcodes": ([frame(11)], 1002),
    "4.2.5 a reserved control opcode with data": ([frame(15, b"a")], 1002),
    "5.1 a ping in fragments": ([frame(PING, b"a", fin=False), frame(CONT, b"b")], 1002),
    "5.2 a pong in fragments": ([frame(PONG, b"a", fin=False), frame(CONT, b"b")], 1002),
    "5.9 a continuation of nothing": ([frame(CONT, b"a")], 1002),
    "5.15 a continuation after a whole text": ([frame(CONT, b"a", fin=False), frame(TEXT, b"b")], 1002),
    "5.18 a second text within the first": ([frame(TEXT, b"a", fin=False), frame(TEXT, b"b")], 1002),
    "6.3 a surrogate in UTF-8": ([frame(TEXT, b"\xce\xba\xed\xa0\x80edited")], 1007),
    "6.4.1 invalid UTF-8 in a middle fragment, the rest never comes": (
        [frame(TEXT, b"\xce\xba", fin=False), frame(CONT, b"\xf4\x90\x80\x80", fin=False)],
        1007,
    ),
    "6.3.2 a character that ends too early, between fragments": (
        [frame(TEXT, b"\xce", fin=False), frame(CONT, b"a", fin=False)],
        1007,
    ),
    "6.12 a character that ends with the text": ([frame(TEXT, b"a\xce")], 1007),
    "6.12 in fragments": ([frame(TEXT, b"a", fin=False), frame(CONT, b"\xe2\x82")], 1007),
    "6.10 above the last character": ([frame(TEXT, b"\xf4\x90\x80\x80")], 1007),
    "6.13 bytes that no text has": ([frame(TEXT, b"\xfe")], 1007),
    "6.17 an overlong form": ([frame(TEXT, b"\xc0\xaf")], 1007),
    "7.3.2 a close of one byte": ([frame(CLOSE, b"a")], 1002),
    "7.3.6 a close of 126 bytes": ([close(1000, b"*" * 124)], 1002),
    "7.5.1 a reason that is not UTF-8": ([close(1000, b"\xce\xba\xed\xa0\x80")], 1007),
    "RFC 6455, 5.1: a frame without a mask": ([frame(TEXT, b"a", masked=False)], 1002),
    "RFC 6455, 5.2: a length above 63 bits": ([b"\x81\xff" + b"\xff" * 8], 1009),
    "9.1 a message above the bound": ([b"\x81\xff" + struct.pack("!Q", 65 * 1024 * 1024)], 1009),
    "1.2 a binary message": ([frame(BINARY, b"{}")], 1003),
}


@pytest.mark.parametrize("step", [1, 7, 1_000_000], ids=lambda step: f"{step} bytes at once")
@pytest.mark.parametrize("case", VALID)
def test_valid_frames_are_answered(server: Instance, case: str, step: int) -> None:
    sent, answers = VALID[case]
    data = b"".join(sent)
    with RawSocket(server.port) as socket:
        for at in range(0, len(data), step):
            socket.send(data[at : at + step])
        assert [shown(socket.receive()) for _ in answers] == answers
        socket.send(END)
        assert [shown(each) for each in socket.rest()] == [1000]


@pytest.mark.parametrize("case", INVALID)
def test_invalid_frames_end_the_socket(server: Instance, case: str) -> None:
    sent, code = INVALID[case]
    with RawSocket(server.port) as socket:
        socket.send(frame(TEXT, b"before"))
        assert shown(socket.receive()) == MESSAGE
        socket.send(b"".join(sent))
        assert [shown(each) for each in socket.rest()] == [code]


@pytest.mark.parametrize("code", [1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 3000, 3999, 4000, 4999])
def test_valid_close_codes_come_back(server: Instance, code: int) -> None:
    """7.3.3, 7.3.4, 7.7"""
    assert rest(server, close(code, b"*" * 123)) == [code]


@pytest.mark.parametrize("code", [0, 999, 1004, 1005, 1006, 1016, 1100, 2000, 2999, 5000, 65535])
def test_invalid_close_codes_are_refused(server: Instance, code: int) -> None:
    """7.9, 7.13"""
    assert rest(server, close(code)) == [1002]


def test_a_close_between_fragments_is_answered(server: Instance) -> None:
    """7.1.5"""
    assert rest(server, frame(TEXT, b"a", fin=False), END) == [1000]


@pytest.mark.parametrize("case", INVALID)
def test_commands_in_front_of_an_invalid_frame_are_answered(server: Instance, case: str) -> None:
    sent, code = INVALID[case]
    command = frame(TEXT, b'{"op":"ping"}')
    with RawSocket(server.port) as socket:
        socket.send(command + frame(TEXT, b"no command") + frame(PING, b"x") + command + b"".join(sent) + command)
        *answers, end = socket.rest()
    assert shown(end) == code
    assert PONG_X in [(each.opcode, each.data) for each in answers]
    told = [each.json["op"] for each in answers if each.opcode == TEXT]
    assert sorted(told) == ["error", "pong", "pong"]


def test_nothing_is_answered_after_a_close(server: Instance) -> None:
    """7.1: a close without a code, and frames behind it"""
    with RawSocket(server.port) as socket:
        socket.send(frame(CLOSE) + frame(PING, b"x") + frame(TEXT, b"a") + frame(CLOSE))
        assert [(each.opcode, each.data) for each in socket.rest()] == [(CLOSE, b"")]


def test_a_message_of_megabytes_in_small_fragments_is_one_message(server: Instance) -> None:
    """9.3"""
    part = b"*" * 4096
    parts = [frame(TEXT, part, fin=False), *(frame(CONT, part, fin=False) for _ in range(1022)), frame(CONT, part)]
    with RawSocket(server.port) as socket:
        socket.send(b"".join(parts))
        assert shown(socket.receive()) == MESSAGE

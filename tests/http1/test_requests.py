"""Reading requests: strict where two readers could disagree, at every byte that a network may split."""

import asyncio
import contextlib
import itertools
import socket

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from http1 import Limits, Request, Response
from tests.deadlines import DEADLINE
from tests.http1.served import Served, at_once, echo, rest, some, statuses
from tests.instances import until

POST = b"POST /x HTTP/1.1\r\nhost: a\r\n"
LAST = b"GET /last HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n"
CHUNKS = b"transfer-encoding: chunked\r\n\r\n"

SMUGGLING = {
    "two lengths": POST + b"content-length: 3\r\ncontent-length: 4\r\n\r\nabc",
    "the same length twice": POST + b"content-length: 3\r\ncontent-length: 3\r\n\r\nabc",
    "a list of lengths": POST + b"content-length: 3, 3\r\n\r\nabc",
    "length before chunks": POST + b"content-length: 3\r\n" + CHUNKS + b"0\r\n\r\n",
    "length behind chunks": POST + b"transfer-encoding: chunked\r\ncontent-length: 3\r\n\r\n0\r\n\r\n",
    "a folded header": POST + b"x: 3\r\n  y\r\n\r\n",
    "a header that begins with a space": b"GET / HTTP/1.1\r\n host: a\r\n\r\n",
    "a space before a colon": POST + b"content-length : 3\r\n\r\nabc",
    "a header without a name": POST + b": 3\r\n\r\n",
    "a header without a colon": POST + b"x\r\n\r\n",
    "a bare CR in a header": POST + b"x: a\rb\r\n\r\n",
    "a bare LF behind a line": b"POST /x HTTP/1.1\nhost: a\n\n",
    "NUL in a header": POST + b"x: a\0b\r\n\r\n",
    "a negative length": POST + b"content-length: -3\r\n\r\n",
    "a length with a sign": POST + b"content-length: +3\r\n\r\nabc",
    "a length in hex": POST + b"content-length: 0x3\r\n\r\nabc",
    "an empty length": POST + b"content-length:\r\n\r\nabc",
    "a length beyond 64 bits": POST + b"content-length: 99999999999999999999999\r\n\r\n",
    "a chunk size that is no number": POST + CHUNKS + b"zz\r\nabc\r\n0\r\n\r\n",
    "a chunk size with a space": POST + CHUNKS + b"3 \r\nabc\r\n0\r\n\r\n",
    "a chunk size with a sign": POST + CHUNKS + b"+3\r\nabc\r\n0\r\n\r\n",
    "a chunk size beyond 64 bits": POST + CHUNKS + b"ffffffffffffffffff\r\nabc\r\n0\r\n\r\n",
    "a chunk size behind a bare LF": POST + CHUNKS + b"3\nabc\r\n0\r\n\r\n",
    "a chunk longer than it says": POST + CHUNKS + b"3\r\nabcd\r\n0\r\n\r\n",
    "another coding": POST + b"transfer-encoding: gzip\r\n\r\n",
    "another coding before chunks": POST + b"transfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "chunks twice": POST + b"transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    "no coding": POST + b"transfer-encoding: identity\r\n\r\n",
    "chunks in HTTP/1.0": b"POST / HTTP/1.0\r\nhost: a\r\n" + CHUNKS + b"0\r\n\r\n",
    "no host": b"GET / HTTP/1.1\r\n\r\n",
    "two hosts": b"GET / HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n",
    "HTTP/0.9": b"GET /\r\n\r\n",
    "HTTP/2 by prior knowledge": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "HTTP/1.2": b"GET / HTTP/1.2\r\nhost: a\r\n\r\n",
    "a space in the path": b"GET /a b HTTP/1.1\r\nhost: a\r\n\r\n",
    "a byte beyond ASCII in the path": b"GET /\xc3\xa9 HTTP/1.1\r\nhost: a\r\n\r\n",
    "a line with a method alone": b"GET\r\n\r\n",
    "a line with a word alone": b"\r\nhello\r\n\r\n",
    "a line with a word alone, behind a bare LF": b"hello\n",
    "no method": b" / HTTP/1.1\r\nhost: a\r\n\r\n",
    "a method with a colon": b"G:T / HTTP/1.1\r\nhost: a\r\n\r\n",
    "a method that does not end": b"G" * 100,
    "a proxy's method": b"CONNECT a:1 HTTP/1.1\r\nhost: a\r\n\r\n",
    "another expectation": POST + b"expect: wonders\r\ncontent-length: 3\r\n\r\nabc",
}


@pytest.mark.parametrize("shape", SMUGGLING)
def test_a_request_that_can_be_read_in_two_ways_is_refused_and_ends_the_connection(echoing: Served, shape: str) -> None:
    answers = echoing.exchange(SMUGGLING[shape] + LAST)
    assert [status // 100 for status in statuses(answers)] in ([4], [5]), answers
    assert b"connection: close" in answers
    assert b"/last" not in answers


@pytest.mark.parametrize("shape", SMUGGLING)
def test_it_is_refused_byte_by_byte_too(echoing: Served, shape: str) -> None:
    with echoing.connection() as opened:
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            for byte in SMUGGLING[shape]:
                opened.sendall(bytes([byte]))
        except OSError:
            pass  # it was refused before all of it was sent
        assert [status // 100 for status in statuses(rest(opened))] in ([4], [5])


def test_requests_before_a_malformed_one_are_answered(echoing: Served) -> None:
    answers = echoing.exchange(b"GET /1 HTTP/1.1\r\nhost: a\r\n\r\nGET /2 HTTP/1.1\r\nhost: a\r\n\r\nGET\r\n\r\n")
    assert statuses(answers) == [200, 200, 400]
    assert answers.index(b"GET /1") < answers.index(b"GET /2")


@pytest.mark.parametrize("method", [b"BREW", b"GETX", b"get", b"PROPFIND"])
def test_an_unknown_method_is_501_and_ends_the_connection(echoing: Served, method: bytes) -> None:
    strange = method + b" / HTTP/1.1\r\nhost: a\r\n\r\n"
    post = POST + b"content-length: 21\r\n\r\nBREW / HTTP/1.1\r\n\r\nxy"
    for before in ([], [b"GET / HTTP/1.1\r\nhost: a\r\n\r\n"], [post, post + b"\r\n"]):
        answers = echoing.exchange(b"".join(before) + strange + LAST)
        assert statuses(answers) == [200] * len(before) + [501]
        assert b"unknown method " + method + b": expected GET, HEAD," in answers
        assert b"connection: close\r\n" in answers


def test_connect_is_405_and_ends_the_connection(echoing: Served) -> None:
    for before in (b"", b"GET / HTTP/1.1\r\nhost: a\r\n\r\n"):
        answers = echoing.exchange(before + b"CONNECT a:1 HTTP/1.1\r\nhost: a\r\n\r\n" + LAST)
        assert statuses(answers)[-1] == 405
        assert b"/last" not in answers


def test_options_of_the_server_name_the_methods(echoing: Served) -> None:
    answers = echoing.exchange(b"OPTIONS * HTTP/1.1\r\nhost: a\r\n\r\n" + LAST)
    assert statuses(answers) == [204, 200]
    assert b"allow: GET, HEAD, POST, PUT, DELETE, OPTIONS\r\n" in answers


def test_an_unknown_method_behind_chunks_is_refused(echoing: Served) -> None:
    answers = echoing.exchange(POST + CHUNKS + b"0\r\n\r\nBREW / HTTP/1.1\r\nhost: a\r\n\r\n" + LAST)
    assert statuses(answers) == [200, 400]


def test_an_unknown_method_may_be_split_anywhere_behind_another_request(echoing: Served) -> None:
    one = b"GET /1 HTTP/1.1\r\nhost: a\r\n\r\n"
    whole = one + b"\r\nBREW /2 HTTP/1.1\r\nhost: a\r\n\r\n"
    for place in range(len(one), len(whole)):
        with echoing.connection() as opened:
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            opened.sendall(whole[:place])
            echoing.call(settled())
            opened.sendall(whole[place:])
            assert statuses(rest(opened)) == [200, 501], place


TRAFFIC = (
    b"PATCH /three HTTP/1.1\r\nhost: a\r\n\r\n"
    b"POST /one HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\n\r\nfirst"
    b"POST /two HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n3;x=y\r\nsec\r\n3\r\nond\r\n0\r\ntrailer: t\r\n\r\n"
    b"\r\nPOST /four HTTP/1.1\r\nhost: a\r\nupgrade: h2c\r\nconnection: upgrade\r\ncontent-length: 6\r\n\r\nfourth"
    b"GET /five HTTP/1.1\r\nhost: a\r\nupgrade: h2c\r\nconnection: upgrade\r\n\r\n"
    b"GET /six HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\nGET /seven HTTP/1.1\r\nhost: a\r\n\r\n"
)
BODIES = [b"PATCH /three ", b"POST /one first", b"POST /two second", b"POST /four fourth", b"GET /five ", b"GET /six "]


def bodies(answers: bytes) -> list[bytes]:
    found = []
    while answers:
        head, _, answers = answers.partition(b"\r\n\r\n")
        length = int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0])
        found.append(answers[:length])
        answers = answers[length:]
    return found


def test_requests_may_be_split_at_every_byte(echoing: Served) -> None:
    for place in range(len(TRAFFIC)):
        with echoing.connection() as opened:
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            opened.sendall(TRAFFIC[:place])
            echoing.call(settled())
            opened.sendall(TRAFFIC[place:])
            assert bodies(rest(opened)) == BODIES, place


async def settled() -> None:
    """The loop has looked at its sockets since."""


@given(st.lists(st.integers(0, len(TRAFFIC)), max_size=12))
@settings(max_examples=60)
def test_and_into_any_pieces(echoing: Served, cuts: list[int]) -> None:
    places = [0, *sorted(cuts), len(TRAFFIC)]
    with echoing.connection() as opened:
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for first, last in itertools.pairwise(places):
            opened.sendall(TRAFFIC[first:last])
            echoing.call(settled())
        assert bodies(rest(opened)) == BODIES


@given(st.binary(max_size=300))
@settings(max_examples=150)
def test_garbage_is_refused_or_waited_for_but_breaks_nothing(echoing: Served, garbage: bytes) -> None:
    answers = echoing.exchange(garbage, half_close=True)
    assert all(status // 100 in (2, 4, 5) and status != 500 for status in statuses(answers))
    assert statuses(echoing.exchange(LAST)) == [200]


# -- Sizes -----------------------------------------------------------------------------------------------------------


def test_a_head_of_200_kb_is_read_and_a_larger_one_is_431(echoing: Served) -> None:
    fits = b"GET /a HTTP/1.1\r\nhost: a\r\nconnection: close\r\nx: %b\r\n\r\n" % (b"y" * 200_000)  # arrives in pieces
    assert statuses(echoing.exchange(fits)) == [200]
    for head in (
        b"GET /a HTTP/1.1\r\nhost: a\r\nx: %b\r\n\r\n" % (b"y" * 220_000),
        b"GET /%b HTTP/1.1\r\nhost: a\r\n\r\n" % (b"y" * 220_000),
        b"GET /a HTTP/1.1\r\nhost: a\r\n" + b"x: y\r\n" * 200 + b"\r\n",
        b"GET /a HTTP/1.1\r\nhost: a\r\nx: " + b"y" * 400_000,  # and does not end
    ):
        assert statuses(echoing.exchange(head)) == [431]


@pytest.mark.parametrize("line", [b"1\r\na\r\n0\r\nx: ", b"1\r\na\r\n1;"], ids=["trailer", "chunk"])
def test_a_line_behind_a_body_or_between_its_chunks_has_the_limit_of_a_head(echoing: Served, line: bytes) -> None:
    fits = POST + b"connection: close\r\n" + CHUNKS + line + b"y" * 200_000  # arrives in pieces
    assert bodies(echoing.exchange(fits + b"\r\n\r\n" if b"x" in line else fits + b"\r\nb\r\n0\r\n\r\n"))
    assert statuses(echoing.exchange(POST + CHUNKS + line + b"y" * 1024 * 1024)) == [431]


def test_heads_that_arrive_together_have_the_limit_each(serve) -> None:
    """The data may begin and end within a head."""
    served = serve(at_once)
    one = b"GET / HTTP/1.1\r\nhost: a\r\nx: %b\r\n\r\n" % (b"y" * 10_000)

    async def arrive(data: bytes) -> None:
        (connection,) = served.server.connections
        connection.data_received(data)

    with served.connection() as opened:
        until(lambda: served.server.connections, "the connection")
        served.call(arrive(one[:10]))
        served.call(arrive(one[10:] + one * 24 + LAST[:10]))
        opened.sendall(LAST[10:])
        assert statuses(rest(opened)) == [200] * 26


def test_a_body_is_refused_before_it_is_read_where_its_length_is_known(serve) -> None:
    served = serve(echo, Limits(body_bytes=1000))
    asked = POST + b"content-length: 1001\r\nexpect: 100-continue\r\n\r\n"
    answer = served.exchange(asked)
    assert statuses(answer) == [413]
    assert b"payload_too_large" in answer


def test_and_as_soon_as_it_is_over_where_it_is_not(serve) -> None:
    served = serve(echo, Limits(body_bytes=1000))
    with served.connection() as opened:
        opened.sendall(POST + CHUNKS + b"190\r\n" + b" " * 400 + b"\r\n")
        opened.sendall(b"190\r\n" + b" " * 400 + b"\r\n")
        opened.sendall(b"190\r\n" + b" " * 400 + b"\r\n")
        assert statuses(rest(opened)) == [413]
    assert statuses(served.exchange(POST + b"connection: close\r\ncontent-length: 1000\r\n\r\n" + b"x" * 1000)) == [200]


def test_a_handler_may_take_less(serve) -> None:
    async def small(request: Request) -> Response:
        return Response(200, (), await request.body.read(10))

    served = serve(small)
    assert statuses(served.exchange(POST + b"connection: close\r\ncontent-length: 11\r\n\r\n" + b"x" * 11)) == [413]
    assert statuses(served.exchange(POST + CHUNKS + b"b\r\n" + b"x" * 11 + b"\r\n")) == [413]


# -- A body that comes, and one that does not ------------------------------------------------------------------------


def test_a_client_that_waits_for_a_word_gets_it_when_the_body_is_wanted(echoing: Served) -> None:
    with echoing.connection() as opened:
        opened.sendall(POST + b"expect: 100-continue\r\nconnection: close\r\ncontent-length: 3\r\n\r\n")
        assert some(opened, b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        opened.sendall(b"abc")
        assert bodies(rest(opened)) == [b"POST /x abc"]


def test_no_word_to_continue_comes_before_the_answers_that_are_due(echoing: Served) -> None:
    asked = b"GET /1 HTTP/1.1\r\nhost: a\r\n\r\n" + POST + b"expect: 100-continue\r\ncontent-length: 3\r\n\r\n"
    with echoing.connection() as opened:
        opened.sendall(asked)
        got = some(opened, b"100 Continue\r\n\r\n")
        assert got.index(b"GET /1") < got.index(b"100 Continue")
        opened.sendall(b"abc")
        some(opened, b"POST /x abc")


def test_an_answer_before_the_body_was_read_arrives_and_ends_the_connection(serve) -> None:
    served = serve(at_once)
    with served.connection() as opened:
        opened.sendall(POST + b"content-length: 300000\r\n\r\n" + b"x" * 100_000)
        got = some(opened, b"POST")
        opened.sendall(b"x" * 100_000)
        got += rest(opened)
        assert statuses(got) == [200]
        assert b"connection: close" in got


def test_a_body_that_is_cut_off_is_an_error_to_its_handler(serve) -> None:
    seen = []

    async def read(request: Request) -> Response:
        try:
            await request.body.read()
        except Exception as error:
            seen.append(str(error))
            raise
        return Response(200)

    served = serve(read)
    for framing in (b"content-length: 10\r\n\r\nabc", CHUNKS + b"3\r\nabc\r\n"):
        served.exchange(POST + framing, half_close=True)
    assert seen == ["the body is incomplete"] * 2


@pytest.mark.parametrize("size", [65_536, 65_537, 70_000, 131_072, 200_000])
def test_a_connection_reads_on_behind_a_body_that_had_paused_it(serve, size: int) -> None:
    """The part that pauses the connection may be the last of its body."""

    async def late(request: Request) -> Response:
        await asyncio.sleep(0.02)  # the body arrives before it is read
        return await echo(request)

    served = serve(late)
    with served.connection() as opened:
        for _ in range(3):
            opened.sendall(POST + b"content-length: %d\r\n\r\n" % size + b"a" * size)
            some(opened, b"a" * size)
        opened.sendall(LAST)
        assert statuses(rest(opened)) == [200]


def test_what_waits_unread_is_bounded(serve) -> None:
    """A handler that takes the body slowly slows its client down."""
    go: list[asyncio.Event] = []
    sizes: list[int] = []

    async def slow(request: Request) -> Response:
        go.append(asyncio.Event())
        await go[0].wait()
        async for part in request.body:
            sizes.append(len(part))
        return Response(200, (), b"%d" % sum(sizes))

    served = serve(slow)
    size = 8 * 1024 * 1024
    with served.connection() as opened:
        opened.settimeout(0.5)
        opened.sendall(POST + b"connection: close\r\ncontent-length: %d\r\n\r\n" % size)
        sent = 0
        with contextlib.suppress(TimeoutError):
            while sent < size:
                sent += opened.send(b"x" * min(65536, size - sent))
        assert sent < size
        served.loop.call_soon_threadsafe(go[0].set)
        opened.settimeout(DEADLINE)
        opened.sendall(b"x" * (size - sent))
        assert rest(opened).endswith(b"%d" % size)

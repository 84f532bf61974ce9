"""Answers: in the order of the requests, streamed, and ended in time."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from http1 import BrokenOff, Limits, Refused, Request, Response, Server, Upgrade, Writer, WrittenAnswer
from http1.connection import Connection
from http1.reader import BETWEEN
from tests.deadlines import DEADLINE
from tests.http1.served import TEXT, Served, at_once, parts, rest, some, statuses
from tests.instances import until


def get(path: str, *more: str) -> bytes:
    return "\r\n".join([f"GET {path} HTTP/1.1", "host: a", *more, "", ""]).encode()


CLOSE = "connection: close"


def test_a_handler_that_does_not_wait_needs_no_task(serve) -> None:
    tasks = []

    def handler(request: Request) -> Response:
        (accepting,) = [each.joining for each in served.server.acceptors]
        tasks.append(asyncio.all_tasks() - accepting)
        return Response(200, TEXT, b"x")

    served = serve(handler)
    assert statuses(served.exchange(get("/") + get("/", CLOSE))) == [200, 200]
    assert tasks == [set(), set()]


def test_requests_are_in_flight_together_and_answered_in_order(serve) -> None:
    gates: dict[bytes, asyncio.Event] = {}

    async def handler(request: Request) -> Response:
        gates[request.target] = asyncio.Event()
        await gates[request.target].wait()
        return Response(200, TEXT, request.target)

    served = serve(handler)
    with served.connection() as opened:
        opened.sendall(get("/1") + get("/2") + get("/3", CLOSE))
        until(lambda: len(gates) == 3, "all to be handled")
        for path in (b"/3", b"/2", b"/1"):
            served.loop.call_soon_threadsafe(gates[path].set)
        got = rest(opened)
    assert got.index(b"/1") < got.index(b"/2") < got.index(b"/3")


def test_as_many_are_handled_at_once_as_the_limits_say(serve) -> None:
    running, most = [], []

    async def handler(request: Request) -> Response:
        running.append(request)
        most.append(len(running))
        await asyncio.sleep(0)
        running.remove(request)
        return Response(200)

    served = serve(handler, Limits(in_flight=3))
    assert statuses(served.exchange(get("/") * 500 + get("/", CLOSE))) == [200] * 501
    assert max(most) == 3


def test_an_answer_is_streamed_in_chunks_behind_those_before_it(serve) -> None:
    gate: list[asyncio.Event] = []

    async def first(request: Request) -> Response:
        gate.append(asyncio.Event())
        await gate[0].wait()
        return Response(200, (), b"first")

    def handler(request: Request):
        return first(request) if request.target == b"/1" else Response(200, TEXT, parts(b"ab", b"", b"c"))

    served = serve(handler)
    with served.connection() as opened:
        opened.sendall(get("/1") + get("/2") + get("/3", CLOSE))
        until(lambda: gate, "the first to be handled")
        served.loop.call_soon_threadsafe(gate[0].set)
        got = rest(opened)
    assert got.startswith(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nfirst")
    assert got.count(b"transfer-encoding: chunked") == 2
    assert got.count(b"\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n") == 2


def test_an_answer_that_is_broken_off_has_its_parts_and_no_last_chunk(serve) -> None:
    async def broken_off() -> AsyncIterator[bytes]:
        yield b"ab"
        raise BrokenOff

    served = serve(lambda request: Response(200, TEXT, broken_off()))
    assert served.exchange(get("/") + get("/")).partition(b"\r\n\r\n")[2] == b"2\r\nab\r\n"


def test_a_stream_of_known_length_is_sent_as_it_is_and_a_wrong_one_is_cut(serve) -> None:
    def handler(request: Request) -> Response:
        return Response(200, (), parts(b"ab", b"c"), length=int(request.target[1:]))

    served = serve(handler)
    assert served.exchange(get("/3", CLOSE)).endswith(b"content-length: 3\r\nconnection: close\r\n\r\nabc")
    for wrong in ("/4", "/2"):
        try:
            got = served.exchange(get(wrong))
        except ConnectionResetError:
            got = b""
        assert len(got.partition(b"\r\n\r\n")[2]) < 4


def test_http_1_0_gets_no_chunks_and_is_kept_on_request(serve) -> None:
    def handler(request: Request) -> Response:
        return Response(200, (), parts(b"ab", b"c") if request.target == b"/s" else b"whole")

    served = serve(handler)
    assert served.exchange(b"GET /s HTTP/1.0\r\n\r\n") == b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nabc"
    kept = served.exchange(b"GET / HTTP/1.0\r\nconnection: keep-alive\r\n\r\nGET / HTTP/1.0\r\n\r\n")
    assert statuses(kept) == [200, 200]
    assert b"connection: keep-alive" in kept


def test_head_has_the_length_and_no_body(serve) -> None:
    def handler(request: Request) -> Response:
        return Response(200, (), parts(b"abc") if request.target == b"/s" else b"whole")

    served = serve(handler)
    got = served.exchange(get("/").replace(b"GET", b"HEAD") + get("/s", CLOSE).replace(b"GET", b"HEAD"))
    assert statuses(got) == [200, 200]
    assert b"content-length: 5\r\n\r\nHTTP/1.1" in got
    assert b"abc" not in got


def test_no_content_has_neither_body_nor_length(serve) -> None:
    served = serve(lambda request: Response(204))
    assert served.exchange(get("/", CLOSE)) == b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n"


def test_a_failed_handler_is_500_and_its_connection_goes_on(serve, caplog: pytest.LogCaptureFixture) -> None:
    async def later(request: Request) -> Response:
        raise ValueError("a secret")

    def handler(request: Request):
        if request.target == b"/now":
            raise ValueError("a secret")
        return later(request)

    served = serve(handler)
    got = served.exchange(get("/now") + get("/later", CLOSE))
    assert statuses(got) == [500, 500]
    assert b"secret" not in got
    assert "a secret" in caplog.text


def test_a_stream_that_fails_is_cut_and_never_looks_whole(serve) -> None:
    async def failing():
        yield b"ab"
        raise ValueError("on the way")

    served = serve(lambda request: Response(200, (), failing()))
    try:
        got = served.exchange(get("/"))
    except ConnectionResetError:
        got = b""
    assert not got.endswith(b"0\r\n\r\n")


# -- Readers that go away, or do not read ----------------------------------------------------------------------------


@pytest.mark.parametrize("leave", ["closes", "ends sending"])
def test_a_stream_whose_reader_goes_away_is_ended(serve, leave: str) -> None:
    ended: list[str] = []

    async def endless():
        try:
            yield b"begun"
            await asyncio.Event().wait()
        finally:
            ended.append("stream")

    served = serve(lambda request: Response(200, (), endless()))
    with served.connection() as opened:
        opened.sendall(get("/"))
        some(opened, b"begun")
        opened.close() if leave == "closes" else opened.shutdown(socket.SHUT_WR)
        until(lambda: ended, "the stream to end")


def test_a_handler_whose_client_goes_away_is_cancelled(serve) -> None:
    begun, ended = [], []

    async def handler(request: Request) -> Response:
        begun.append(1)
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(1)
        return Response(200)

    served = serve(handler)
    with served.connection() as opened:
        opened.sendall(get("/"))
        until(lambda: begun, "the request to be handled")
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    until(lambda: ended, "its handler to be cancelled")


def test_a_client_that_sends_no_more_still_gets_its_answer(serve) -> None:
    served = serve(at_once)
    assert statuses(served.exchange(get("/") + get("/"), half_close=True)) == [200, 200]


def test_for_a_slow_reader_no_more_is_produced_and_for_one_that_stops_the_connection_ends(serve) -> None:
    produced = [0]

    async def plenty():
        while True:
            produced[0] += 1
            yield b"x" * 65536

    served = serve(lambda request: Response(200, (), plenty()), Limits(write_seconds=0.4, head_seconds=0.4))
    with served.connection() as opened:
        opened.sendall(get("/"))
        some(opened, b"x")
        until(lambda: not served.server.connections, "the connection to be cut")
    assert produced[0] * 65536 < 64 * 1024 * 1024


# -- Time ------------------------------------------------------------------------------------------------------------

FAST = Limits(
    head_seconds=0.3, idle_seconds=0.3, upload_grace_seconds=0.3, upload_bytes_a_second=10_000, linger_seconds=0.3
)


def test_an_idle_connection_ends_without_a_word(serve) -> None:
    served = serve(at_once, FAST)
    assert served.exchange(b"") == b""
    assert statuses(served.exchange(get("/"))) == [200]


def drip(opened: socket.socket, piece: bytes) -> bytes:
    """Send a byte at a time until the server answers. Returns its answer."""
    opened.settimeout(0.05)
    while True:
        with contextlib.suppress(OSError):
            opened.sendall(piece)
        try:
            first = opened.recv(65536)
        except TimeoutError:
            continue
        opened.settimeout(DEADLINE)
        return first + rest(opened)


@pytest.mark.parametrize("begun", [b"GET / HTTP/1.1\r\nhost: a\r\n", b"GET / HTTP/1.1\r\nhost: "])
def test_a_head_that_comes_by_drops_is_refused(serve, begun: bytes) -> None:
    served = serve(at_once, FAST)
    with served.connection() as opened:
        opened.sendall(begun)
        assert statuses(drip(opened, b"x")) == [400]


@pytest.mark.parametrize("framing", [b"content-length: 1000\r\n\r\n", b"transfer-encoding: chunked\r\n\r\n3e8\r\n"])
def test_so_is_a_body(serve, framing: bytes) -> None:
    served = serve(sized, FAST)
    with served.connection() as opened:
        opened.sendall(b"POST / HTTP/1.1\r\nhost: a\r\n" + framing)
        answer = drip(opened, b"x")
    assert statuses(answer) == [400]
    assert b"too slowly" in answer


async def sized(request: Request) -> Response:
    return Response(200, (), b"%d" % len(await request.body.read()))


@pytest.mark.parametrize(
    ("fast", "limits"), [("body", {"head_seconds": 300.0}), ("head", {"upload_grace_seconds": 300.0})]
)
def test_a_body_and_a_head_have_their_own_times(serve, fast: str, limits: dict[str, float]) -> None:
    """The start of a body comes with its head, and the start of a head comes with the body before it."""
    served = serve(sized, replace(FAST, **limits))
    with served.connection() as opened:
        opened.sendall(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1000\r\n\r\nthe start")
        if fast == "head":
            opened.sendall(b"x" * 900)
            opened.sendall(b"x" * 91 + b"GET / HTTP/1.1\r\nhost: ")
        answer = rest(opened)
    assert statuses(answer) == ([400] if fast == "body" else [200, 400])
    assert b"the %b arrived too slowly" % fast.encode() in answer


@pytest.mark.parametrize(("begun", "told"), [(b"GET / HTTP/1.1\r\nhost: ", [200, 400]), (b"FOO", [200])])
def test_a_head_behind_a_whole_request_has_its_time(serve, begun: bytes, told: list[int]) -> None:
    served = serve(at_once, replace(FAST, idle_seconds=300.0))
    with served.connection() as opened:
        opened.sendall(get("/") + begun)
        assert statuses(rest(opened)) == told


class Waiting:
    """A handler that begins to read only after `go`."""

    def __init__(self, served: Served) -> None:
        self.served = served
        self.waits: list[asyncio.Event] = []

    async def __call__(self, request: Request) -> Response:
        self.waits.append(asyncio.Event())
        await self.waits[-1].wait()
        return await sized(request)

    def go(self) -> None:
        self.served.loop.call_soon_threadsafe(self.waits[-1].set)


@pytest.fixture
def waiting(serve) -> Waiting:
    served = serve(at_once)
    served.server.handler = Waiting(served)
    return served.server.handler


def test_a_handler_may_take_its_time_after_a_body_in_parts(waiting: Waiting) -> None:
    with waiting.served.connection() as opened:
        opened.sendall(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 6\r\n\r\nabc")
        until(lambda: waiting.waits, "the request")
        opened.sendall(b"def")
        (connection,) = waiting.served.server.connections
        assert isinstance(connection, Connection)
        until(lambda: connection.reader.state is BETWEEN, "the rest of the body")
        waiting.served.later(600)
        waiting.go()
        assert statuses(some(opened, b"\r\n\r\n6")) == [200]


EXPECT = b"POST / HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 3\r\n\r\n"
WORD = b"HTTP/1.1 100 Continue\r\n\r\n"


def test_a_client_that_waits_for_a_word_is_not_slow(waiting: Waiting) -> None:
    with waiting.served.connection() as opened:
        opened.sendall(EXPECT)
        until(lambda: waiting.waits, "the request")
        for seconds in (20, 40, 60):
            waiting.served.later(seconds)
        waiting.go()
        assert some(opened, b"\r\n\r\n") == WORD
        opened.sendall(b"abc")
        assert statuses(some(opened, b"\r\n\r\n3")) == [200]


@pytest.mark.parametrize("fields", [1, 2])
def test_its_time_begins_with_the_word(waiting: Waiting, fields: int) -> None:
    """Also if a client says twice that it waits."""
    field = b"expect: 100-continue\r\n"
    with waiting.served.connection() as opened:
        opened.sendall(EXPECT.replace(field, field * fields))
        until(lambda: waiting.waits, "the request")
        waiting.served.later(20)
        waiting.go()
        assert some(opened, b"\r\n\r\n") == WORD
        waiting.served.later(15)
        assert statuses(rest(opened)) == [400]


def test_no_word_comes_to_http_1_0_and_the_client_has_its_time(waiting: Waiting) -> None:
    with waiting.served.connection() as opened:
        opened.sendall(EXPECT.replace(b"HTTP/1.1", b"HTTP/1.0"))
        until(lambda: waiting.waits, "the request")
        waiting.go()
        waiting.served.later(20)
        assert statuses(rest(opened)) == [400]


def test_no_word_comes_within_an_answer_and_the_client_has_its_time(serve) -> None:
    ended: list[str] = []

    async def begun(request: Request) -> AsyncIterator[bytes]:
        yield b"begun"
        try:
            await request.body.read()
        except Refused as refused:
            ended.append(refused.message)
            raise

    served = serve(lambda request: Response(200, (), begun(request)))
    with served.connection() as opened:
        opened.sendall(EXPECT)
        some(opened, b"begun\r\n")
        served.later(20)
        served.later(40)
        assert b"100" not in rest(opened)
    assert [message for message in ended if "too slowly" in message]


@pytest.mark.parametrize(
    ("late", "told"),
    [
        (b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 10\r\n\r\nabc", [400]),
        (get("/") + b"GET / HTTP/1.1\r\nhost: ", [200, 400]),
        (get("/") + b"FOO", [200, 400]),
    ],
)
def test_a_request_that_comes_too_late_is_refused_when_the_handler_is_ready(
    waiting: Waiting, late: bytes, told: list[int]
) -> None:
    with waiting.served.connection() as opened:
        opened.sendall(late)
        until(lambda: waiting.waits, "the request")
        for seconds in (20, 40):
            waiting.served.later(seconds)
        waiting.go()
        answers = rest(opened)
        assert statuses(answers) == told
        assert b"too slowly" in answers


def test_a_body_at_the_least_rate_is_read(serve) -> None:
    served = serve(sized, FAST)
    with served.connection() as opened:
        opened.sendall(b"POST / HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: 60000\r\n\r\n")
        for _ in range(6):
            opened.sendall(b"x" * 10_000)
            served.call(asyncio.sleep(0.15))
        assert rest(opened).endswith(b"60000")


def test_an_answer_takes_as_long_as_it_takes(serve) -> None:
    async def handler(request: Request) -> Response:
        await asyncio.sleep(1)
        return Response(200)

    assert statuses(serve(handler, FAST).exchange(get("/"))) == [200]


# -- Upgrades --------------------------------------------------------------------------------------------------------

SWITCH = get("/", "connection: upgrade", "upgrade: echo")


def upgrading(request: Request) -> Response:
    class Shout(asyncio.Protocol):
        def data_received(self, data: bytes) -> None:
            transports[-1].write(data.upper())

    transports: list[asyncio.Transport] = []

    def take_over(server: Server, transport: asyncio.Transport, sent: bytes) -> None:
        transports.append(transport)
        protocol = Shout()
        transport.set_protocol(protocol)
        protocol.data_received(sent)

    if request.is_upgrade:
        return Upgrade([(b"connection", b"upgrade"), (b"upgrade", b"echo")], take_over)
    return Response(200, (), b"plain")


def test_an_upgrade_hands_the_socket_over_with_what_was_sent_behind_it(serve) -> None:
    served = serve(upgrading)
    with served.connection() as opened:
        opened.sendall(get("/") + SWITCH + b"abc")
        got = some(opened, b"ABC")
        assert statuses(got) == [200, 101]
        opened.sendall(b"def")
        assert some(opened, b"DEF") == b"DEF"
    until(lambda: not served.server.connections, "the connection to be forgotten")


def test_a_handler_that_does_not_upgrade_goes_on_in_http(serve) -> None:
    served = serve(at_once)
    assert statuses(served.exchange(SWITCH + get("/", CLOSE))) == [200, 200]


def test_a_stream_may_begin_where_an_upgrade_was_offered(serve) -> None:
    ended: list[int] = []

    async def endless():
        try:
            yield b"begun"
            await asyncio.Event().wait()
        finally:
            ended.append(1)

    served = serve(lambda request: Response(200, (), endless()))
    with served.connection() as opened:
        opened.sendall(SWITCH)
        some(opened, b"begun")
    until(lambda: ended, "the stream to end")


@pytest.mark.parametrize(("last", "closes"), [(get("/written"), False), (get("/written"), True), (SWITCH, True)])
def test_an_answer_that_waits_for_its_turn_ends_with_its_connection(serve, last: bytes, closes: bool) -> None:
    go = asyncio.Event()

    async def first() -> Response:
        await go.wait()
        return Response(200, close=True)

    async def write(writer: Writer) -> None:
        writer.begin(Response(200))
        await writer.write(b"x" * 300_000)

    def handler(request: Request) -> Any:
        if request.target == b"/written":
            return WrittenAnswer(write)
        return first() if request.target == b"/first" else upgrading(request)

    served = serve(handler)  # the answer to the first request closes the connection, or the client does

    async def tasks() -> int:
        return len(asyncio.all_tasks())

    before = served.call(tasks())
    with served.connection() as opened:
        opened.sendall(get("/first") + last)
        until(lambda: served.call(tasks()) == before + 2, "both to be handled")
        if closes:
            served.loop.call_soon_threadsafe(go.set)
            assert statuses(rest(opened)) == [200]
    until(lambda: served.call(tasks()) == before, "both to end")


# -- Processes and the end -------------------------------------------------------------------------------------------


def test_several_servers_share_a_port(serve) -> None:
    first = serve(lambda request: Response(200, (), b"1"))
    second = Server(lambda request: Response(200, (), b"2"))
    second.limits = first.server.limits

    async def listen() -> None:
        await second.listen(port=first.port)

    first.call(listen())
    seen = until(lambda: seen_by(first), "both to be asked")
    assert seen == {b"1", b"2"}
    first.call(second.drain(0))


def seen_by(served: Served) -> set[bytes] | None:
    found = {served.exchange(get("/", CLOSE))[-1:] for _ in range(20)}
    return found if len(found) == 2 else None


def test_a_socket_may_be_inherited(serve) -> None:
    served = serve(at_once)
    with socket.create_server(("127.0.0.1", 0)) as sock:
        port = sock.getsockname()[1]
        other = Server(at_once)

        async def listen() -> None:
            await other.listen(sock=sock.dup())

        served.call(listen())
        with socket.create_connection(("127.0.0.1", port), timeout=DEADLINE) as opened:
            opened.sendall(get("/", CLOSE))
            assert statuses(rest(opened)) == [200]
        served.call(other.drain(0))


def test_draining_ends_idle_connections_and_finishes_the_others(serve) -> None:
    gate: list[asyncio.Event] = []

    async def handler(request: Request) -> Response:
        gate.append(asyncio.Event())
        await gate[0].wait()
        return Response(200)

    served = serve(handler)
    with served.connection() as idle, served.connection() as busy:
        busy.sendall(get("/"))
        until(lambda: gate and len(served.server.connections) == 2, "a request in flight")
        drain = asyncio.run_coroutine_threadsafe(served.server.drain(30), served.loop)
        assert rest(idle) == b""
        with pytest.raises(ConnectionError), served.connection():
            pass
        served.loop.call_soon_threadsafe(gate[0].set)
        got = rest(busy)
        assert statuses(got) == [200]
        assert b"connection: close" in got
        assert drain.result(DEADLINE) is True

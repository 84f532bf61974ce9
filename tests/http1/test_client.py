"""The client: connections are kept, failures say how far a request came, bodies stream both ways."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import trustme
import uvloop

from http1 import Failure, Limits, Pool, Request, Response, Server, Upgrade, Waits
from http1.client import UpstreamConnection
from tests.http1.served import parts

ONE_CHUNK = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n"
ENDLESS = b"y" * 1024 * 1024
Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Any]


def run(main: Any, loop_factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop) -> None:
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(asyncio.wait_for(main, 60))


@contextlib.asynccontextmanager
async def served(handler: Any, waits: Waits | None = None, **more: Any) -> AsyncIterator[tuple[Server, Pool]]:
    server = Server(handler, limits=Limits(idle_seconds=30))
    pool = Pool("127.0.0.1", await server.listen(), waits=waits, **more)
    try:
        yield server, pool
    finally:
        pool.close()
        await server.drain(0)


@contextlib.asynccontextmanager
async def raw(talk: Talk, waits: Waits | None = None) -> AsyncIterator[Pool]:
    """A server that says what the test wants, right or wrong."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            await talk(reader, writer)
        writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    pool = Pool("127.0.0.1", server.sockets[0].getsockname()[1], waits=waits)
    try:
        yield pool
    finally:
        pool.close()
        server.close()


async def echo(request: Request) -> Response:
    body = await request.body.read()
    return Response(200, [(b"x-method", request.method.encode())], request.target + b" " + body)


def test_requests_share_a_connection() -> None:
    async def main() -> None:
        async with served(echo) as (server, pool):
            for body in (b"", b"abc", b"x" * 1_000_000):
                answer = await pool.send(b"POST", b"/a", (), body)
                assert (answer.status, await answer.body.read()) == (200, b"/a " + body)
            head = await pool.send(b"HEAD", b"/a")
            assert (await head.body.read(), head.status) == (b"", 200)
            assert (await (await pool.send(b"GET", b"/b")).body.read()) == b"/b "
            assert len(server.connections) == len(pool.connections) == 1

    run(main())


@pytest.mark.parametrize("bad", [b"\r", b"\n", b"\0"])
def test_no_part_of_a_request_contains_a_line_of_another(bad: bytes) -> None:
    async def main() -> None:
        async with served(echo) as (_, pool):
            odd = b"a" + bad + b"b"
            for method, target, header in ((odd, b"/", ()), (b"GET", b"/" + odd, ()), (b"GET", b"/", (b"x", odd))):
                with pytest.raises(ValueError, match="CR, LF or NUL"):
                    await pool.send(method, target, [header] if header else ())
            with pytest.raises(ValueError, match="CR, LF or NUL"):
                await pool.send(b"GET", b"/", [(odd, b"x")])
            answer = await pool.send(b"POST", b"/a", [(b"x", b"y")], odd)
            assert await answer.body.read() == b"/a " + odd

    run(main())


def test_bodies_stream_both_ways() -> None:
    async def both(request: Request) -> Response:
        return Response(200, (), request.body)

    async def main() -> None:
        async with served(both) as (_, pool):
            for length in (None, 7):
                answer = await pool.send(b"POST", b"/", (), parts(b"abc", b"defg"), length=length)
                assert await answer.body.read() == b"abcdefg"
            assert len(pool.idle) == 1

    run(main())


def test_an_upload_that_fails_is_no_whole_request() -> None:
    seen: list[str] = []

    async def read(request: Request) -> Response:
        try:
            await request.body.read()
        except Exception as error:
            seen.append(str(error))
        return Response(200)

    async def broken() -> AsyncIterator[bytes]:
        yield b"abc"
        raise ValueError("the client went away")

    async def main() -> None:
        async with served(read) as (server, pool):
            with pytest.raises(ValueError, match="went away"):
                await pool.send(b"POST", b"/", (), broken())
            while server.connections:
                await asyncio.sleep(0.01)
            assert seen == ["the body is incomplete"]
            assert not pool.connections

    run(main())


def test_what_a_slow_reader_does_not_take_stays_at_the_server() -> None:
    produced = [0]

    async def plenty() -> AsyncIterator[bytes]:
        for _ in range(1000):
            produced[0] += 65536
            yield b"x" * 65536

    async def main() -> None:
        async with served(lambda request: Response(200, (), plenty())) as (_, pool):
            answer = await pool.send(b"GET", b"/")
            while produced[0] != (before := produced[0]) or not before:
                await asyncio.sleep(0.05)
            for _ in range(20):
                await asyncio.sleep(0.01)
            assert produced[0] < 32 * 1024 * 1024
            assert len(await answer.body.read()) == 65_536_000

    run(main())


def test_no_connection_says_that_nothing_was_sent() -> None:
    async def main() -> None:
        pool = Pool("127.0.0.1", 1)
        with pytest.raises(Failure) as failed:
            await pool.send(b"POST", b"/", (), b"abc")
        assert (failed.value.kind, failed.value.reached) == ("connect", False)

    run(main())


def test_a_silent_server_times_out_and_may_have_seen_the_request() -> None:
    async def main() -> None:
        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read()

        async with raw(talk, Waits(answer=0.2)) as pool:
            with pytest.raises(Failure) as failed:
                await pool.send(b"POST", b"/", (), b"abc")
            assert (failed.value.kind, failed.value.reached) == ("timeout", True)
            assert not pool.idle

    run(main())


def test_one_that_falls_silent_within_an_answer_times_out_too() -> None:
    async def main() -> None:
        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc")
            await reader.read()

        async with raw(talk, Waits(silence=0.2)) as pool:
            answer = await pool.send(b"GET", b"/")
            assert await answer.body.next() == b"abc"
            with pytest.raises(Failure) as failed:
                await answer.body.next()
            assert failed.value.kind == "timeout"

    run(main())


@pytest.mark.parametrize(
    "said",
    [
        b"nonsense\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\ncontent-length: 4\r\n\r\nabcd",
        b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        pytest.param(b"HTTP/1.1 200 OK\r\nx: " + ENDLESS, id="a field without an end"),
        pytest.param(b"HTTP/1.1 200 OK\r\n" + (b"x: " + b"y" * 9000 + b"\r\n") * 100, id="a head without an end"),
        pytest.param(b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 300 + b"content-length: 0\r\n\r\n", id="300 fields"),
        pytest.param(b"HTTP/1.1 100 Continue\r\n\r\n" * 30_000, id="no answer but 100"),
        pytest.param(ONE_CHUNK + b"0\r\nx: " + ENDLESS, id="a trailer without an end"),
        pytest.param(ONE_CHUNK + b"1;" + ENDLESS, id="a chunk's line without an end"),
    ],
)
def test_what_is_not_http_is_a_failure_and_its_connection_ends(said: bytes) -> None:
    async def main() -> None:
        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(said)
            await reader.read()

        async with raw(talk) as pool:
            with pytest.raises(Failure) as failed:
                await (await pool.send(b"GET", b"/")).body.read()
            assert (failed.value.kind, failed.value.reached) == ("malformed", True)
            assert not pool.idle

    run(main())


def test_an_answer_has_a_long_head_and_long_trailers() -> None:
    async def main() -> None:
        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            for _ in range(2):
                await reader.readuntil(b"\r\n\r\n")
                long = b"x: " + b"y" * 200_000 + b"\r\n"  # arrives in pieces
                writer.write(b"HTTP/1.1 200 OK\r\n" + long + b"transfer-encoding: chunked\r\n\r\n")
                writer.write(b"1\r\na\r\n0\r\n" + long + b"\r\n")

        async with raw(talk) as pool:
            for _ in range(2):
                answer = await pool.send(b"GET", b"/")
                assert (len(answer.headers[0][1]), await answer.body.read()) == (200_000, b"a")

    run(main())


def test_a_kept_connection_that_had_ended_is_told_from_one_that_ends_in_between() -> None:
    async def main() -> None:
        asked = [0]

        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            asked[0] += 1
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
            await reader.readuntil(b"\r\n\r\n")
            asked[0] += 1  # and ends without an answer

        async with raw(talk) as pool:
            await pool.send(b"GET", b"/")
            with pytest.raises(Failure) as failed:
                await pool.send(b"GET", b"/")
            assert (failed.value.kind, failed.value.stale, failed.value.reached) == ("closed", True, True)
            await pool.send(b"GET", b"/")
            assert asked[0] == 3

    run(main())


def test_an_ended_connection_is_not_used_again() -> None:
    async def main() -> None:
        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")

        async with raw(talk) as pool:
            for _ in range(3):
                await pool.send(b"GET", b"/")
                while pool.connections:
                    await asyncio.sleep(0.01)

    run(main())


def test_what_nobody_asked_for_is_no_answer_to_the_next_request() -> None:
    async def main() -> None:
        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\npoison")
            await reader.read()

        async with raw(talk) as pool:
            answer = await pool.send(b"GET", b"/")
            assert (answer.status, await answer.body.read()) == (204, b"")
            while pool.connections:
                await asyncio.sleep(0.01)

    run(main())


def test_an_answer_without_a_length_ends_with_its_connection_and_is_cut_by_a_reset() -> None:
    async def main() -> None:
        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n\r\nabc")

        async with raw(talk) as pool:
            answer = await pool.send(b"GET", b"/")
            assert (answer.status, await answer.body.read()) == (200, b"abc")

        async def cut(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc")

        async with raw(cut) as pool:
            answer = await pool.send(b"GET", b"/")
            with pytest.raises(Failure) as failed:
                await answer.body.read()
            assert failed.value.kind == "closed"

    run(main())


def test_at_most_so_many_connections_are_made_and_the_next_request_waits() -> None:
    gate: list[asyncio.Event] = []

    async def handler(request: Request) -> Response:
        await gate[0].wait()
        return Response(200)

    async def main() -> None:
        gate.append(asyncio.Event())
        async with served(handler, most=2) as (server, pool):
            asked = [asyncio.create_task(pool.send(b"GET", b"/")) for _ in range(6)]
            while len(server.connections) < 2:
                await asyncio.sleep(0.01)
            assert pool.open == 2
            gate[0].set()
            assert [(await each).status for each in asked] == [200] * 6
            assert len(server.connections) == 2

    run(main())


def test_a_pool_whose_connections_are_all_in_use_says_so() -> None:
    async def handler(request: Request) -> Response:
        await asyncio.Event().wait()
        return Response(200)

    async def main() -> None:
        async with served(handler, Waits(connect=0.1), most=1) as (server, pool):
            first = asyncio.create_task(pool.send(b"GET", b"/"))
            while not server.connections:
                await asyncio.sleep(0.01)
            with pytest.raises(Failure) as failed:
                await pool.send(b"GET", b"/")
            assert (failed.value.kind, failed.value.reached) == ("full", False)
            first.cancel()

    run(main())


def test_a_connection_goes_to_the_next_request_if_the_one_that_waited_for_it_is_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def main() -> None:
        async with served(echo, most=1) as (_, pool):
            held = await pool.acquire()
            waiting = [asyncio.create_task(pool.send(b"POST", b"/", (), b"x")) for _ in range(2)]
            while len(pool.waiting) < 2:
                await asyncio.sleep(0.01)
            freed = pool.freed

            def freed_too_late(*, closed: bool) -> None:
                freed(closed=closed)
                waiting[0].cancel()

            monkeypatch.setattr(pool, "freed", freed_too_late)
            held.abort()
            assert (await waiting[1]).status == 200
            assert waiting[0].cancelled()

    run(main())


@pytest.mark.parametrize("loop_factory", [uvloop.new_event_loop, asyncio.new_event_loop])
def test_a_request_that_is_given_up_when_its_connection_opens_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch, loop_factory: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    async def main() -> None:
        async with served(echo, most=1) as (server, pool):
            made = UpstreamConnection.connection_made

            def made_too_late(connection: UpstreamConnection, transport: asyncio.BaseTransport) -> None:
                made(connection, transport)
                given_up.cancel()

            with monkeypatch.context() as patched:
                patched.setattr(UpstreamConnection, "connection_made", made_too_late)
                given_up = asyncio.create_task(pool.send(b"GET", b"/"))
                await asyncio.wait([given_up])
            assert given_up.cancelled()
            while server.connections:
                await asyncio.sleep(0.01)
            assert (pool.open, pool.connections, pool.deadlines.members) == (0, set(), set())
            assert (await pool.send(b"GET", b"/")).status == 200
            assert pool.open == len(pool.connections) == 1

    run(main(), loop_factory)


def test_a_request_that_is_given_up_ends_its_connection() -> None:
    begun: list[int] = []
    cancelled: list[int] = []

    async def handler(request: Request) -> Response:
        begun.append(1)
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.append(1)
        return Response(200)

    async def main() -> None:
        async with served(handler) as (server, pool):
            task = asyncio.create_task(pool.send(b"GET", b"/"))
            while not begun:
                await asyncio.sleep(0.01)
            task.cancel()
            while server.connections or not cancelled:
                await asyncio.sleep(0.01)
            assert cancelled == [1]
            assert pool.open == 0

    run(main())


def test_an_upgrade_hands_both_sockets_over() -> None:
    class Shout(asyncio.Protocol):
        def __init__(self, transport: asyncio.Transport) -> None:
            self.transport = transport

        def data_received(self, data: bytes) -> None:
            self.transport.write(data.upper())

    class Heard(asyncio.Protocol):
        def __init__(self) -> None:
            self.data = b""

        def data_received(self, data: bytes) -> None:
            self.data += data

    def upgrade(request: Request) -> Response:
        return Upgrade(
            [(b"connection", b"upgrade"), (b"upgrade", b"x")], lambda server, t, rest: t.set_protocol(Shout(t))
        )

    async def main() -> None:
        async with served(upgrade) as (_, pool):
            answer = await pool.send(b"GET", b"/", [(b"connection", b"upgrade"), (b"upgrade", b"x")])
            assert answer.status == 101
            transport, _ = answer.take_over()
            heard = Heard()
            transport.set_protocol(heard)
            transport.write(b"abc")
            while heard.data != b"ABC":
                await asyncio.sleep(0.01)
            transport.close()

    run(main())


def test_a_connection_that_was_upgraded_serves_no_other_request() -> None:
    async def main() -> None:
        asked = [0]

        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            asked[0] += 1
            writer.write(b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n")
            await reader.read()

        async with raw(talk) as pool:
            upgrade = (b"GET", b"/", [(b"connection", b"upgrade"), (b"upgrade", b"x")])
            answers = [await pool.send(*upgrade)]
            assert not pool.idle
            answers.append(await pool.send(*upgrade))  # while nobody has taken the first one over
            assert ([answer.status for answer in answers], asked) == ([101, 101], [2])
            assert pool.open == 2
            answers[0].take_over()[0].close()
            answers[1].close()
            while pool.connections:
                await asyncio.sleep(0.01)
            assert pool.open == 0

    run(main())


def test_tls_with_an_authority_and_certificates_of_both_sides() -> None:
    authority = trustme.CA()
    server_side = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(server_side)
    authority.configure_trust(server_side)
    server_side.verify_mode = ssl.CERT_REQUIRED
    client_side = ssl.create_default_context()
    authority.configure_trust(client_side)
    authority.issue_cert("gateway@example.org").configure_cert(client_side)

    async def main() -> None:
        server = Server(echo)
        port = await server.listen(tls=lambda: server_side)
        pool = Pool("localhost", port, tls=client_side)
        answer = await pool.send(b"POST", b"/", (), b"x" * 500_000)
        assert len(await answer.body.read()) == 500_002
        strangers = Pool("localhost", port, tls=ssl.create_default_context())
        with pytest.raises(Failure) as failed:
            await strangers.send(b"GET", b"/")
        assert (failed.value.kind, failed.value.reached) == ("connect", False)
        pool.close()
        await server.drain(0)

    run(main())


@pytest.mark.parametrize("size", [65_537, 70_000, 131_072, 200_000])
def test_a_connection_is_read_again_after_an_answer_that_had_paused_it(size: int) -> None:
    """The part that pauses the connection may be the last of its answer."""

    async def main() -> None:
        async with served(lambda request: Response(200, [], b"a" * size)) as (_, pool):
            for _ in range(5):
                answer = await pool.send(b"GET", b"/")
                await asyncio.sleep(0.02)  # the answer arrives before it is read
                assert len(await answer.body.read()) == size
            assert pool.open == 1

    run(main())

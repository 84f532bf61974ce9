"""How streams end on the wire: with a cut at a shutdown, so that every client connects again, and otherwise cleanly."""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.deadlines import DEADLINE
from tests.http1.served import rest, some
from tests.instances import Instance, start, until
from tests.watch.wire import Api

pytestmark = pytest.mark.deep


KEY, REVOKED = "alpha", "omega"
LAST_CHUNK = b"\r\n0\r\n\r\n"
Open = Callable[[str], list[socket.socket]]


@pytest.fixture(scope="module")
def instance() -> Iterator[Instance]:
    with start(TOPICS_API_KEYS=f"{KEY}:read+write+admin") as instance:
        yield instance


@pytest.fixture
def each_kind(instance: Instance) -> Iterator[Open]:
    """`each_kind(key)` opens a stream of each kind with a key: a watch, events, a worker's and a member's."""
    Api(instance.port, KEY).done("PUT", "/v0/topics/log", {})
    Api(instance.port, KEY).done("PUT", "/v0/topics/queue", {"type": "queue"})
    with ExitStack() as stack:

        def opened(path: str, key: str) -> socket.socket:
            stream = stack.enter_context(socket.create_connection(("127.0.0.1", instance.port), DEADLINE))
            stream.sendall(f"GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {key}\r\n\r\n".encode())
            assert b" 200 OK\r\n" in some(stream, b"transfer-encoding: chunked\r\n\r\n")
            return stream

        def each(key: str) -> list[socket.socket]:
            paths = (
                Api(instance.port, key).watch({"log": {}}),
                "/v0/topics/log/events",
                "/v0/topics/queue/work?node=w",
                "/v0/topics/log/groups/g/stream",
            )
            return [opened(path, key) for path in paths]

        yield each


def test_a_stream_of_a_revoked_key_has_a_last_chunk(instance: Instance, each_kind: Open) -> None:
    with instance.connect() as database:
        database.execute(
            "INSERT INTO topics_apikey (name, secret_sha256, read, write, delete_scope, admin, prefixes, created_ts)"
            " VALUES ('ends', sha256(%s), true, true, false, false, '', 0)",
            [REVOKED.encode()],
        )
        revoked = Api(instance.port, REVOKED)
        until(lambda: revoked.call("GET", "/v0/topics/log").status == 200, "the key to be known")
        streams = each_kind(REVOKED)
        database.execute("UPDATE topics_apikey SET revoked_ts = 1 WHERE name = 'ends'")
    for stream in streams:
        assert LAST_CHUNK in some(stream, LAST_CHUNK, some(stream, b"unauthorized"))


def test_a_stream_of_a_server_that_stops_has_none(instance: Instance, each_kind: Open) -> None:
    streams = each_kind(KEY)
    assert instance.process is not None
    instance.process.send_signal(signal.SIGTERM)
    for stream in streams:
        told = rest(stream)
        assert b"shutting_down" in told
        assert LAST_CHUNK not in told

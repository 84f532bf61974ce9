"""Strangers spend nothing of ours: who asks, and how much may be sent, is settled before a body is read."""

import contextlib
import gzip
import http.client
import json
import os
import re
import select
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.api import raw
from tests.deadlines import DEADLINE
from tests.instances import Instance, start, until

pytestmark = pytest.mark.deep


KEY = "authorization: Bearer all"
JSON = "content-type: application/json"
KIB, MIB = 1024, 1024 * 1024
HUGE = f"content-length: {300 * MIB}"


@pytest.fixture(scope="module")
def guarded() -> Iterator[Instance]:
    """A server with a key, that waits two seconds for who sends slowly and keeps 8 MiB of bodies."""
    settings = {"TOPICS_UPLOAD_GRACE_MS": "2000", "TOPICS_UPLOAD_LEAST_RATE": "20000"}
    keys = "all:read+write+delete+admin,other:read+write,reader:read"
    with start(TOPICS_API_KEYS=keys, WEB_WORKERS="1", TOPICS_MAX_BODIES_BYTES=str(8 * MIB), **settings) as instance:
        yield instance


KEYED = ["/v0/topics", "/v0/topics/x", "/v0/topics/x/diff", "/v0/topics/x/records", "/v0/watch", "/v0/metrics"]
STREAMS = ["/v0/watch/wid_x", "/v0/topics/x/events", "/v0/topics/x/work", "/v0/topics/x/groups/g/stream"]
NOTHING = ["/v0/topics/x/none", "/v0/none", "/v0/topics/a/b/events", "/v0/health/x", "/v0/docs/"]
OPEN = ["/", "/v0/docs", "/v0/schema", "/admin/", "/admin/login/"]
PROBES = ["/v0/health", "/v0/ready", "/healthz", "/readyz"]


def files_deleted_but_open(instance: Instance) -> int:
    """Temporary files of its web processes."""
    count = 0
    for pid in instance.pids("topics_project.web"):
        for file in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                count += "(deleted)" in os.readlink(file)
    return count


def pour(port: int, head: bytes, size: int) -> raw.Answered:
    """Send a body of that size, as far as it is taken."""
    with raw.connection(port) as opened:
        with contextlib.suppress(ConnectionError):
            opened.sendall(head)
            for _ in range(size // (64 * KIB)):
                opened.sendall(b"x" * 64 * KIB)
        return raw.answer(opened)


@pytest.mark.guarantee("S2")
@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE", "PATCH"])
@pytest.mark.parametrize("path", [*KEYED, *NOTHING])
def test_a_client_without_a_key_is_refused_before_a_byte_is_sent(guarded: Instance, method: str, path: str) -> None:
    assert raw.ask(guarded.port, raw.request(method, path, HUGE)).status == 401
    assert raw.ask(guarded.port, raw.request(method, path, "transfer-encoding: chunked")).status == 401


@pytest.mark.parametrize("path", STREAMS)
def test_a_stream_is_asked_for_by_who_is_known(guarded: Instance, path: str) -> None:
    assert raw.ask(guarded.port, raw.request("GET", path, HUGE)).status == 401
    assert raw.ask(guarded.port, raw.request("GET", path, HUGE, KEY)).status == 413
    for method in ("POST", "PUT", "DELETE"):
        assert raw.ask(guarded.port, raw.request(method, path, HUGE, KEY)).status == 405


@pytest.mark.parametrize("method", ["GET", "POST", "PUT"])
@pytest.mark.parametrize("path", NOTHING)
def test_what_is_no_route_is_not_found_at_once(guarded: Instance, method: str, path: str) -> None:
    found = raw.ask(guarded.port, raw.request(method, path, HUGE, KEY))
    assert (found.status, json.loads(found.body)["error"]["code"]) == (404, "not_found")


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("path", OPEN)
def test_a_path_that_needs_no_key_takes_little(guarded: Instance, method: str, path: str) -> None:
    assert raw.ask(guarded.port, raw.request(method, path, f"content-length: {64 * KIB + 1}")).status == 413
    chunked = raw.request(method, path, "transfer-encoding: chunked")
    chunk = b"%x\r\n%b\r\n" % (40 * KIB, b"x" * 40 * KIB)
    with raw.connection(guarded.port) as opened:
        opened.sendall(chunked + chunk)
        opened.sendall(chunk)
        assert raw.answer(opened).status == 413


@pytest.mark.parametrize("path", ["/static/admin/css/base.css", "/none", "/v0", *PROBES])
def test_a_body_where_none_belongs_is_not_read(guarded: Instance, path: str) -> None:
    for method in ("GET", "POST"):
        assert raw.ask(guarded.port, raw.request(method, path, HUGE)).status in (200, 404, 405)


@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_a_method_that_takes_no_body_takes_little(guarded: Instance, method: str) -> None:
    head = raw.request(method, "/v0/topics/x", KEY, f"content-length: {64 * KIB + 1}")
    assert raw.ask(guarded.port, head).status == 413
    body = b"x" * 100
    assert raw.ask(guarded.port, raw.request(method, "/v0/topics/x", KEY, "content-length: 100") + body).status != 413


def test_no_stranger_fills_files_or_memory(guarded: Instance) -> None:
    def resident() -> int:
        states = [Path(f"/proc/{pid}/status").read_text() for pid in guarded.pids("topics_project.web")]
        return sum(int(re.findall(r"VmRSS:\s+(\d+) kB", state)[0]) for state in states)

    before = resident()
    for path in (*STREAMS, *NOTHING, "/v0/health", "/admin/login/"):
        pour(guarded.port, raw.request("POST", path, f"content-length: {50 * MIB}"), 50 * MIB)
    assert files_deleted_but_open(guarded) == 0
    assert resident() - before < 30_000


def test_a_form_of_the_admin(guarded: Instance) -> None:
    """Who is logged in may post what a form can hold."""

    def post(path: str, form: bytes, cookies: dict[str, str]) -> tuple[int, dict[str, str]]:
        connection = http.client.HTTPConnection("127.0.0.1", guarded.port, timeout=DEADLINE)
        try:
            cookie = "; ".join(f"{name}={value}" for name, value in cookies.items())
            headers = {"Cookie": cookie, "Content-Type": "application/x-www-form-urlencoded"}
            # What is refused by its head is answered, and closed to, before all of it is sent.
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                connection.request("POST" if form else "GET", path, form or None, headers)
            response = connection.getresponse()
            response.read()
            given = [line.partition("=") for line in response.headers.get_all("set-cookie") or []]
            return response.status, {name: value.partition(";")[0] for name, _, value in given}
        finally:
            connection.close()

    password = (guarded.data / "admin-password").read_text().strip()
    _, cookies = post("/admin/login/", b"", {})
    token = f"csrfmiddlewaretoken={cookies['csrftoken']}&"
    login = f"{token}username=admin&password={password}&next=/admin/"
    status, given = post("/admin/login/", login.encode(), cookies)
    assert status == 302
    visitor = {**cookies, **given}
    large = f"csrfmiddlewaretoken={visitor['csrftoken']}&x={'y' * 300 * KIB}".encode()
    assert post("/admin/topics/apikey/add/", large, visitor)[0] == 200  # the form again: it lacks a name
    assert post("/admin/topics/apikey/add/", large, {**visitor, "sessionid": "none"})[0] == 413
    assert post("/admin/topics/apikey/add/", large + b"z" * 300 * KIB, visitor)[0] == 413


# -- Slow and many ---------------------------------------------------------------------------------------------------


def in_flight_refused(port: int) -> bool:
    return raw.ask(port, raw.request("GET", "/v0/topics", KEY)).status == 429


def test_an_upload_that_stalls_is_ended(guarded: Instance) -> None:
    """Before its first byte, and after some, with a length and in chunks. All of them wait at once."""
    begun = [("content-length: 1000", b""), ("content-length: 1000", b'{"rec')]
    begun += [("transfer-encoding: chunked", b""), ("transfer-encoding: chunked", b'5\r\n{"rec\r\n')]
    with contextlib.ExitStack() as stack:
        stalled = []
        for path, key in (("/v0/topics/x", KEY), ("/v0/schema", "x: y")):
            for framing, sent in begun:
                stalled.append(stack.enter_context(raw.connection(guarded.port)))
                stalled[-1].sendall(raw.request("POST", path, JSON, key, framing) + sent)
        for opened in stalled:
            slow = raw.answer(opened)
            error = json.loads(slow.body)["error"]
            assert (slow.status, error["code"]) == (400, "invalid_request")
            assert "too slowly" in error["message"]
        for opened in stalled:
            assert opened.recv(1) == b""  # and the connection ends


def test_an_upload_at_the_least_rate_is_taken(guarded: Instance) -> None:
    """For longer than the grace alone, without a pause that is as long."""
    body = json.dumps({"records": [{"data": "x" * 150_000}]}).encode()
    with raw.connection(guarded.port) as opened:
        opened.sendall(raw.request("POST", "/v0/topics/slow", JSON, KEY, f"content-length: {len(body)}"))
        for at in range(0, len(body), 15_000):
            opened.sendall(body[at : at + 15_000])
            time.sleep(0.3)  # the pace that is tried here
        assert raw.answer(opened).status == 201


def test_uploads_count_from_their_first_byte(instances: Callable[..., Instance]) -> None:
    server = instances(TOPICS_API_KEYS="all:read+write,other:read", WEB_WORKERS="1", TOPICS_MAX_IN_FLIGHT_PER_KEY="3")
    with contextlib.ExitStack() as stack:
        uploads = [stack.enter_context(raw.connection(server.port)) for _ in range(4)]
        for opened in uploads:
            opened.sendall(raw.request("POST", "/v0/topics/x", JSON, KEY, "content-length: 1000"))
        answered, _, _ = select.select(uploads, [], [], 30)  # whichever came last
        assert [raw.answer(opened).status for opened in answered] == [429]
        assert in_flight_refused(server.port)
        other = raw.request("GET", "/v0/topics", "authorization: Bearer other")
        assert raw.ask(server.port, other).status == 200
        assert raw.ask(server.port, raw.request("GET", "/v0/health")).status == 200
    until(lambda: not in_flight_refused(server.port), "the ended uploads to count no longer")


@pytest.mark.guarantee("S2")
def test_all_bodies_together_are_bounded(guarded: Instance) -> None:
    """Each of these may send what it sends; but not all of them at once. Nothing stays counted at the end."""

    def statuses() -> list[int]:
        with contextlib.ExitStack() as stack:
            stalled = [stack.enter_context(raw.connection(guarded.port)) for _ in range(6)]
            for opened in stalled:
                opened.sendall(raw.request("POST", "/v0/topics/x", JSON, KEY, f"content-length: {3 * MIB}"))
            for opened in stalled:
                with contextlib.suppress(ConnectionError):
                    opened.sendall(b" " * (2 * MIB))
            return [raw.answer(opened).status for opened in stalled]

    got = statuses()
    assert set(got) == {429, 400}, got  # these stalled, and were ended when their time was over
    assert got.count(400) <= 4
    body = json.dumps({"records": [{"data": "x" * (MIB - 100)} for _ in range(6)]}).encode()
    sent = raw.request("POST", "/v0/topics/whole", JSON, KEY, f"content-length: {len(body)}") + body
    assert raw.ask(guarded.port, sent).status == 201


# -- Malformed -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "chunks", [b"fffffffffffffffff\r\nabc", b"5\r\n{    \r\nfffffffffffffffff\r\nabc", b"zz\r\nabc"]
)
def test_chunks_that_are_none(guarded: Instance, chunks: bytes) -> None:
    head = raw.request("POST", "/v0/topics/x", JSON, KEY, "transfer-encoding: chunked")
    refused = raw.ask(guarded.port, head + chunks)
    assert (refused.status, json.loads(refused.body)["error"]["code"]) == (400, "invalid_request")


@pytest.mark.parametrize("length", ["abc", "-1", "+5", "1e3", "1_0", "9" * 30, "5, 6"])
def test_a_length_that_is_none(guarded: Instance, length: str) -> None:
    head = raw.request("POST", "/v0/topics/x", JSON, KEY, f"content-length: {length}")
    assert raw.ask(guarded.port, head + b"{   }").status == 400


@pytest.mark.parametrize("path", ["/v0/watch/wid_x", "/v0/topics/x/events", "/v0/health", "/none"])
def test_a_websocket_is_refused(guarded: Instance, path: str) -> None:
    upgrade = ("upgrade: websocket", "connection: Upgrade", "sec-websocket-version: 13")
    head = raw.request("GET", path, *upgrade, "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==", KEY)
    assert raw.ask(guarded.port, head).status == 403


def test_nothing_of_all_this_is_a_fault(guarded: Instance) -> None:
    """Last in this file: what strangers sent above left no traceback."""
    log = (guarded.data / "logs" / "web.log").read_text()
    assert "Traceback" not in log, log


# -- Every member of a gzip body -------------------------------------------------------------------------------------


def zipped(port: int, body: bytes, key: str = KEY) -> raw.Answered:
    gzipped = ("content-encoding: gzip", f"content-length: {len(body)}")
    with raw.connection(port) as opened:
        with contextlib.suppress(ConnectionError):
            opened.sendall(raw.request("POST", "/v0/topics/zip", JSON, key, *gzipped) + body)
        return raw.answer(opened)


def test_a_key_without_the_scope_has_nothing_unzipped(guarded: Instance) -> None:
    bomb = gzip.compress(bytes(70 * MIB))
    assert zipped(guarded.port, bomb).status == 413
    assert zipped(guarded.port, bomb, "authorization: Bearer reader").status == 403
    chunked = raw.request("POST", "/v0/topics/zip", JSON, "authorization: Bearer reader", "transfer-encoding: chunked")
    with raw.connection(guarded.port) as opened:
        opened.sendall(chunked)  # and no chunk
        assert raw.answer(opened).status == 403


def test_every_member_of_a_gzip_body_is_read(guarded: Instance) -> None:
    whole = json.dumps({"records": [{"data": "é" * 100_000}, {"data": 2}]}).encode()
    for step in (70_000, 300, len(whole)):
        members = b"".join(gzip.compress(whole[at : at + step]) for at in range(0, len(whole), step))
        took = zipped(guarded.port, members)
        assert took.status in (200, 201), took.body
        assert json.loads(took.body)["count"] == 2


@pytest.mark.parametrize(
    ("tail", "status"),
    [
        (gzip.compress(b"x")[:-3], 400),
        (b"garbage", 400),
        (b"\0\0\0\0", 400),
        (gzip.compress(bytes(70 * MIB)), 413),
        (gzip.compress(b"") * 20_000, 400),
    ],
    # Names, since a zipped member holds the time: every process of a test run has to call the same test the same.
    ids=["a member cut off", "garbage", "padding", "a bomb", "empty members that take their time"],
)
def test_what_follows_the_first_member_is_looked_at(guarded: Instance, tail: bytes, status: int) -> None:
    assert zipped(guarded.port, gzip.compress(b'{"records":[{"data":1}]}') + tail).status == status

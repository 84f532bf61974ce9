"""Rules of every path: errors in one shape, methods, media types, limits of a body, gzip, connections."""

import gzip
import json
import re
import socket
import zlib
from pathlib import Path

import pytest

from tests.api.clients import ApiClient
from tests.api.endpoints import STREAMS, TABLE, Endpoint, filled
from tests.deadlines import DEADLINE
from tests.instances import Instance

MIB = 1024 * 1024


@pytest.mark.parametrize(
    "path",
    [
        "/v0",
        "/v0/",
        "/v0/none",
        "/v0/topics/",
        "/v0/topics/a/",
        "/v0/topics/a/diff/",
        "/v0/topics/a/none",
        "/v0/topics/a/records/1/x",
        "/v0/topics//diff",
        "/v0/topics/a%2Fb/diff",
        "/v0/health/",
        "/v0/%ff",
        "/v0/%00",
        "/v0/%C3%A9",
        "/v0/../v0/none",
        "/v0/none?x=%ff",
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE", "PATCH"])
def test_an_unknown_path_is_not_found(live: ApiClient, path: str, method: str) -> None:
    refused = live.call(method, path, b"{}" if method != "GET" else None)
    assert (refused.status, refused.code) == (404, "not_found")


EVERY = {**TABLE, **STREAMS}


@pytest.mark.parametrize("endpoint", sorted(each for each in EVERY if "<" in each[1]), ids=" ".join)
def test_a_nul_in_a_name_of_a_path_does_not_reach_postgresql(live: ApiClient, endpoint: Endpoint) -> None:
    method, path = endpoint
    body = filled(EVERY[endpoint].body, topic="a", session=1)
    for name in re.findall("<[a-z]+>", path):
        asked = re.sub("<[a-z]+>", "a", path.replace(name, "a%00b")) + EVERY[endpoint].query
        refused = live.call(method, f"/v0/{asked}", body)
        assert (refused.status, refused.code) == (400, "invalid_request"), refused
        assert refused.json["error"]["message"].startswith(r"invalid name 'a\x00b': "), refused


def test_what_is_not_the_api_has_pages_of_its_own(live: ApiClient) -> None:
    assert live.get("/none").headers["content-type"].startswith("text/html")
    assert live.get("/v0none").status == 404
    assert live.get("/admin/").status == 302


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/v0/topics", "GET, HEAD, OPTIONS"),
        ("/v0/topics/a", "GET, POST, PUT, DELETE, HEAD, OPTIONS"),
        ("/v0/topics/a/diff", "POST, OPTIONS"),
        ("/v0/topics/a/delete", "POST, OPTIONS"),
        ("/v0/topics/a/records", "GET, HEAD, OPTIONS"),
        ("/v0/topics/a/records/1", "GET, HEAD, OPTIONS"),
        ("/v0/topics/a/cursors", "GET, HEAD, OPTIONS"),
        ("/v0/topics/a/cursors/c", "GET, PUT, DELETE, HEAD, OPTIONS"),
        ("/v0/metrics", "GET, HEAD, OPTIONS"),
        ("/v0/schema", "GET, HEAD, OPTIONS"),
        ("/v0/docs", "GET, HEAD, OPTIONS"),
    ],
)
def test_another_method_is_told_what_may_be_done(live: ApiClient, path: str, allowed: str) -> None:
    for method in ("GET", "POST", "PUT", "DELETE", "PATCH", "TRACE"):
        if method not in allowed:
            refused = live.call(method, path)
            assert (refused.status, refused.code) == (405, "method_not_allowed"), method
            assert refused.headers["allow"] == allowed
    asked = live.call("OPTIONS", path)
    assert (asked.status, asked.body, asked.headers["allow"]) == (204, b"", allowed)


def test_head_is_get_without_a_body(live: ApiClient, name: str) -> None:
    live.append(name, 1)
    for path in (f"/v0/topics/{name}", "/v0/topics", "/v0/health", f"/v0/topics/{name}/records"):
        reply = live.call("HEAD", path)
        assert (reply.status, reply.body) == (200, b"")
        assert reply.headers["content-type"] == "application/json"
        assert int(reply.headers["content-length"]) > 0
    assert live.call("HEAD", f"/v0/topics/{name}-none").status == 404


def test_a_header_with_an_underscore_is_another_header(live: ApiClient, name: str) -> None:
    body, headers = b'{"records":[{"data":1}]}', {"idempotency_key": "k"}
    given = [
        live.send("POST", f"/v0/topics/{name}", body, {**headers, "content-type": "application/json"}) for _ in "12"
    ]
    assert [reply.json["deduped"] for reply in given] == [False, False]
    refused = live.send("POST", f"/v0/topics/{name}", body, {**headers, "content_type": "application/json"})
    assert (refused.status, refused.code) == (415, "unsupported_media_type")


def test_what_else_a_media_type_says_does_not_count(live: ApiClient, name: str) -> None:
    for said in ("charset=latin1", "charset", "charset*=nonsense''%ff"):
        answer = live.put(f"/v0/topics/{name}", {}, content_type=f"application/json; {said}")
        assert answer.status in (200, 201)


def test_a_host_that_is_none_is_refused_in_json(api: ApiClient) -> None:
    refused = api.get("/v0/topics", host="a b")
    assert (refused.status, refused.code) == (400, "invalid_request")


def test_a_put_or_post_without_a_body_needs_no_media_type(live: ApiClient, name: str) -> None:
    assert live.call("PUT", f"/v0/topics/{name}").status == 201
    assert live.call("POST", f"/v0/topics/{name}/diff").status == 200
    refused = live.call("POST", f"/v0/topics/{name}")
    assert (refused.status, refused.code) == (400, "invalid_request")


# -- Bodies over the limit and cut off -------------------------------------------------------------------------------


def answer_of(connection: socket.socket) -> tuple[int, dict]:
    """The status and body of the one answer that comes, then the connection may end."""
    connection.settimeout(DEADLINE)
    received = b""
    while b"\r\n\r\n" not in received or not received.endswith(b"}"):
        part = connection.recv(65536)
        assert part, received
        received += part
    head, _, body = received.partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)


def head(name: str, *more: str) -> bytes:
    lines = [f"POST /v0/topics/{name} HTTP/1.1", "host: localhost", "content-type: application/json", *more]
    return "\r\n".join([*lines, "", ""]).encode()


def test_a_body_over_the_limit_is_refused_before_it_is_read(live: ApiClient, server: Instance, name: str) -> None:
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.sendall(head(name, f"content-length: {64 * MIB + 1}") + b'{"records"')
        status, body = answer_of(connection)
    assert (status, body["error"]["code"], body["error"]["detail"]) == (413, "payload_too_large", {"max": 64 * MIB})
    assert live.get(f"/v0/topics/{name}").status == 404


def test_a_body_that_does_not_say_its_length_is_refused_as_soon_as_it_is_over(instances) -> None:
    small = instances(TOPICS_MAX_BODY_BYTES="1000", WEB_WORKERS="1")
    with socket.create_connection(("127.0.0.1", small.port)) as connection:
        connection.sendall(head("chunked", "transfer-encoding: chunked"))
        for _ in range(3):
            connection.sendall(b"190\r\n" + b" " * 400 + b"\r\n")
        status, body = answer_of(connection)
    assert (status, body["error"]["code"]) == (413, "payload_too_large")


def test_a_body_of_the_limit_is_taken(live: ApiClient, name: str) -> None:
    records = b",".join(b'{"data":"%b"}' % (b"x" * (MIB - 2)) for _ in range(63))
    body = b'{"records":[' + records + b"]}"
    body += b" " * (64 * MIB - len(body))
    assert live.post(f"/v0/topics/{name}?return_seqs=false", body).json["count"] == 63


@pytest.mark.parametrize("framing", ["content-length: 1000", "transfer-encoding: chunked"])
def test_a_body_that_is_cut_off_appends_nothing(live: ApiClient, server: Instance, name: str, framing: str) -> None:
    live.put(f"/v0/topics/{name}")
    whole = b'{"records":[{"data":1}]}'  # would be right, were it all
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        chunk = b"%x\r\n%b\r\n" % (len(whole), whole) if "chunked" in framing else whole
        connection.sendall(head(name, framing) + chunk)
        connection.shutdown(socket.SHUT_WR)
        connection.settimeout(DEADLINE)
        while connection.recv(65536):
            pass
    assert live.diff(name).json["head_seq"] == 0


@pytest.mark.parametrize("first", ["length", "chunks"])
def test_chunks_end_where_they_say_whatever_length_is_announced(
    live: ApiClient, server: Instance, name: str, first: str
) -> None:
    body = b'{"records":[{"data":1}]}'
    framing = [f"content-length: {len(body)}", "transfer-encoding: chunked"]
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        chunk = b"%x\r\n%b\r\n" % (len(body), body)
        connection.sendall(head(name, *(framing if first == "length" else framing[::-1])) + chunk)
        connection.sendall(chunk + b"0\r\n\r\n")
        status, answer = answer_of(connection)
    assert (status, answer["error"]["code"]) == (400, "invalid_request"), "two bodies are not one"
    assert live.get(f"/v0/topics/{name}").status == 404


def test_what_follows_a_body_is_the_next_request(live: ApiClient, server: Instance, name: str) -> None:
    one, two = b'{"records":[{"data":1}]}', b'{"records":[{"data":2},{"data":3}]}'
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.settimeout(DEADLINE)
        connection.sendall(b"".join(head(name, f"content-length: {len(body)}") + body for body in (one, two)))
        received = b""
        while received.count(b'"head_seq"') < 2:
            part = connection.recv(65536)
            assert part, received
            received += part
    assert received.count(b"HTTP/1.1 20") == 2
    assert [record["data"] for record in live.diff(name).json["records"]] == [1, 2, 3]


# -- gzip ------------------------------------------------------------------------------------------------------------


def test_a_body_may_be_gzipped(live: ApiClient, name: str) -> None:
    body = gzip.compress(json.dumps({"records": [{"data": "x" * 5000}]}).encode())
    assert live.post(f"/v0/topics/{name}", body, content_encoding="gzip").status == 201
    assert live.put(f"/v0/topics/{name}", gzip.compress(b'{"ttl_ms":0}'), content_encoding="GZIP").status == 200
    assert live.put(f"/v0/topics/{name}", gzip.compress(b'{"ttl_ms":0}'), content_encoding="x-gzip").status == 200
    assert live.diff(name).json["records"][0]["data"] == "x" * 5000


def test_an_answer_is_gzipped_for_who_asks(live: ApiClient, name: str) -> None:
    live.append(name, "x" * 5000)
    for reply in (
        live.post(f"/v0/topics/{name}/diff", b"{}", accept_encoding="gzip, br"),
        live.get(f"/v0/topics/{name}/records", accept_encoding="br;q=1.0, gzip;q=0.8"),
    ):
        assert reply.headers["content-encoding"] == "gzip"
        assert "accept-encoding" in reply.headers["vary"].lower()
        assert int(reply.headers["content-length"]) == len(reply.body) < 1000
        assert json.loads(gzip.decompress(reply.body))["records"][0]["data"] == "x" * 5000


@pytest.mark.parametrize("accepted", ["identity", "br", "gzip;q=0", "gzip; q=0.0, br"])
def test_an_answer_is_plain_for_who_does_not(live: ApiClient, name: str, accepted: str) -> None:
    live.append(name, "x" * 5000)
    reply = live.post(f"/v0/topics/{name}/diff", b"{}", accept_encoding=accepted)
    assert "content-encoding" not in reply.headers
    assert reply.json["records"]


STATIC = "/static/admin/css/base.css"


def test_a_static_file_that_did_not_change_has_no_body_and_no_type(live: ApiClient) -> None:
    whole = live.get(STATIC)
    assert (whole.status, whole.headers["content-type"].partition(";")[0]) == (200, "text/css")
    again = live.get(STATIC, if_modified_since=whole.headers["last-modified"], accept_encoding="gzip")
    assert (again.status, again.body) == (304, b"")
    assert not {"content-type", "content-encoding"} & again.headers.keys()


def test_a_part_is_sent_as_it_is(live: ApiClient) -> None:
    """Content-Range counts the bytes of the file, not of a zip of a part of it."""
    whole = live.get(STATIC)
    part = live.get(STATIC, range="bytes=100-4099", accept_encoding="gzip")
    assert (part.status, part.headers["content-range"]) == (206, f"bytes 100-4099/{len(whole.body)}")
    assert "content-encoding" not in part.headers
    assert part.body == whole.body[100:4100]


def test_a_cache_is_told_what_an_answer_depends_on(live: ApiClient, name: str) -> None:
    live.append(name, "x" * 5000)
    for accepted in ("gzip", "identity"):
        reply = live.get(f"/v0/topics/{name}/records", accept_encoding=accepted)
        assert "accept-encoding" in reply.headers["vary"].lower()
        assert int(reply.headers["content-length"]) == len(reply.body)
    zipped = live.get(STATIC, accept_encoding="gzip")
    assert zipped.headers["content-encoding"] == "gzip"
    assert gzip.decompress(zipped.body) == live.get(STATIC).body


def test_what_is_no_gzip_is_refused(live: ApiClient, name: str) -> None:
    whole = gzip.compress(b'{"records":[{"data":1}]}')
    for body in (b'{"records":[{"data":1}]}', whole[:-9], whole[:5], b"", zlib.compress(b"{}")):
        refused = live.post(f"/v0/topics/{name}", body, content_encoding="gzip")
        assert (refused.status, refused.code) == (400, "invalid_request"), body
    assert live.get(f"/v0/topics/{name}").status == 404


@pytest.mark.parametrize("encoding", ["br", "deflate", "gzip, gzip", "nonsense"])
def test_another_encoding_is_refused(live: ApiClient, name: str, encoding: str) -> None:
    refused = live.post(f"/v0/topics/{name}", b"{}", content_encoding=encoding)
    assert (refused.status, refused.code) == (415, "unsupported_media_type")
    assert refused.headers["accept-encoding"] == "gzip"


def test_a_gzip_bomb_is_not_unpacked(live: ApiClient, server: Instance, name: str) -> None:
    def peak() -> int:
        states = [Path(f"/proc/{pid}/status").read_text() for pid in server.pids("topics_project.web")]
        return max(int(re.findall(r"VmHWM:\s+(\d+) kB", state)[0]) for state in states)

    before = peak()
    packer = zlib.compressobj(9, wbits=31)
    zeros = bytes(16 * MIB)
    first, next_one = (packer.compress(zeros) + packer.flush(zlib.Z_FULL_FLUSH) for _ in range(2))
    bomb = first + 63 * next_one  # 1 GiB in 1 MiB: after a full flush, each part can follow any other
    refused = live.post(f"/v0/topics/{name}", bomb, content_encoding="gzip")
    assert (refused.status, refused.code) == (413, "payload_too_large")
    assert peak() - before < 256 * 1024  # KiB


def test_only_appends_and_copies_have_large_bodies(live: ApiClient, name: str) -> None:
    live.put(f"/v0/topics/{name}")
    padding = b" " * MIB
    assert live.post(f"/v0/topics/{name}", b'{"records":[{"data":1}]}' + padding).status == 200
    for refused in (
        live.post(f"/v0/topics/{name}/diff", b"{}" + padding),
        live.put(f"/v0/topics/{name}", b"{}" + padding),
        live.post(f"/v0/topics/{name}/diff", gzip.compress(b"{}" + padding), content_encoding="gzip"),
    ):
        assert (refused.status, refused.code, refused.detail["max"]) == (413, "payload_too_large", MIB)


def test_a_small_gzip_body_does_not_become_a_large_one(live: ApiClient, name: str) -> None:
    body = gzip.compress(b'{"records":[{"data":1}]}' + b" " * (60 * MIB))
    refused = live.post(f"/v0/topics/{name}", body, content_encoding="gzip")
    assert (refused.status, refused.code) == (413, "payload_too_large")
    assert refused.detail["max"] == 200 * len(body)


# -- Connections -----------------------------------------------------------------------------------------------------


def test_http_2_is_refused_in_http_1(server: Instance) -> None:
    """A proxy that speaks HTTP/2 to us is told so, and gets no bytes that it could take for an answer of HTTP/2."""
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        status, body = answer_of(connection)
    assert status in (400, 505)
    assert body["error"]["code"] == "invalid_request"
    assert body["performance"]["server_total_ms"] >= 0


@pytest.mark.parametrize("line", [b"GET\r\n\r\n", b"hello\r\n\r\n"])
def test_a_line_that_is_no_request_is_refused_at_once(server: Instance, line: bytes) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=DEADLINE) as connection:
        connection.sendall(line)
        status, body = answer_of(connection)
    assert (status, body["error"]["code"]) == (400, "invalid_request")


def test_an_upgrade_to_http_2_is_ignored(server: Instance) -> None:
    upgrade = b"connection: upgrade, http2-settings\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n"
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        for _ in range(2):
            connection.sendall(b"GET /v0/health HTTP/1.1\r\nhost: x\r\n" + upgrade + b"\r\n")
            assert answer_of(connection)[0] == 200


def test_a_body_is_asked_for_once_its_client_is_known(server: Instance, live: ApiClient, name: str) -> None:
    body = b'{"records":[{"data":1}]}'
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.settimeout(DEADLINE)
        connection.sendall(head(name, f"content-length: {len(body)}", "expect: 100-continue"))
        assert connection.recv(65536) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(body)
        assert answer_of(connection)[0] == 201
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.sendall(head(name, f"content-length: {64 * MIB + 1}", "expect: 100-continue"))
        assert answer_of(connection)[0] == 413, "without the body"


def test_an_answer_has_its_date(live: ApiClient) -> None:
    for path in ("/v0/health", "/admin/login/"):
        assert live.get(path).headers["date"].endswith(" GMT")


def test_a_connection_is_kept(server: Instance) -> None:
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        for _ in range(3):
            connection.sendall(b"GET /v0/health HTTP/1.1\r\nhost: x\r\n\r\n")
            assert answer_of(connection)[0] == 200

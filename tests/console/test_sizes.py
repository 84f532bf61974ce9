"""Pages and downloads stay small whatever records hold: deep, wide, large, many, with tags and metas of the largest size."""

from __future__ import annotations

import http.client
import json
import re
import socket
from pathlib import Path

import pytest

from tests.deadlines import DEADLINE
from tests.instances import Instance, until
from tests.project.signing_in import ask, log_in
from tests.watch.wire import Api

pytestmark = pytest.mark.deep(60)


MIB = 1024 * 1024
MOST_PAGE, MOST_DOWNLOAD = 10 * MIB, 32 * MIB
TAG, NODE = "t<" * 128, "n&" * 64
META = {"k": '"<&' * 3_500}
SHAPES = {
    "deep": "[" * 128 + "1," * 85_000 + "1" + "]" * 128,
    "deep-objects": '{"a":' * 126 + "[" + "{},[]," * 30_000 + "0]" + "}" * 126,
    "deep-short": "[" * 128 + "]" * 128,
    "wide": "{" + ",".join(f'"k{n}":{n}' for n in range(70_000)) + "}",
    "large": json.dumps("<" * (1000 * 1024)),
    "quotes": json.dumps(['"'] * 170_000),
    "astral": json.dumps("😀" * 240_000, ensure_ascii=False),
}


@pytest.fixture(scope="module")
def api(server: Instance) -> Api:
    return Api(server.port)


@pytest.fixture(scope="module")
def cookie(server: Instance) -> str:
    """Of the admin's session."""
    answer = log_in(server, (server.data / "admin-password").read_text().strip())
    return re.findall(r"sessionid=[^;,]+", answer.headers["set-cookie"])[0]


def append(api: Api, name: str, data: str, times: int = 1) -> None:
    """Records whose data is this text, with a tag, a node and a meta of the largest size."""
    stamps = f'"tag":{json.dumps(TAG)},"node":{json.dumps(NODE)},"meta":{json.dumps(META)}'
    for _ in range(times):
        answer = api.call("POST", f"/v0/topics/{name}", f'{{"records":[{{"data":{data},{stamps}}}]}}'.encode())
        assert answer.status in (200, 201), answer


@pytest.mark.parametrize("shape", SHAPES)
def test_pages_of_a_record_are_small_and_say_that_they_are_cut(
    server: Instance, api: Api, cookie: str, shape: str
) -> None:
    name = f"size-{shape}"
    append(api, name, SHAPES[shape], 60 if shape == "deep-short" else 1)
    for path in ("records/", "records/1/", f"records/?tag={TAG[:1]}*"):
        page = ask(server, "GET", f"/admin/topic/{name}/{path}", Cookie=cookie)
        assert page.status == 200
        assert len(page.body.encode()) < MOST_PAGE, path
    page = ask(server, "GET", f"/admin/topic/{name}/records/1/", Cookie=cookie).body
    is_long = shape not in ("deep-short", "astral")  # of 900 and 240,000 characters
    assert ("too long for a page" in page) == is_long
    if is_long:
        link = re.findall(r'<a href="(/admin/download/[^"]*)" download>Download the whole record', page)[0]
        whole = ask(server, "GET", link.replace("&amp;", "&"), Cookie=cookie).body
        assert whole.count("\n") == 1
        assert f'"data":{SHAPES[shape]}}}' in whole
        assert f"GET /v0/topics/{name}/records/1" in page


class Peak:
    """How much memory the web process took at its most, in bytes, since this was made."""

    def __init__(self, server: Instance) -> None:
        held = [(self.read(pid, "VmRSS"), pid) for pid in server.pids() if self.is_web(pid)]
        self.pids = [pid for _, pid in held]
        for pid in self.pids:
            Path(f"/proc/{pid}/clear_refs").write_text("5")
        self.before = {pid: self.read(pid, "VmRSS") for pid in self.pids}

    @staticmethod
    def is_web(pid: int) -> bool:
        """Whether this process holds Django and no server's name."""
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:  # a backend of PostgreSQL has ended meanwhile
            return False
        return b"postgres" not in command and b"redis" not in command

    @staticmethod
    def read(pid: int, name: str) -> int:
        found = re.search(rf"{name}:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
        return int(found[1]) * 1024 if found else 0

    @property
    def grown(self) -> int:
        """Of the process that grew most."""
        return max(self.read(pid, "VmHWM") - self.before[pid] for pid in self.pids)


@pytest.mark.parametrize(
    ("shape", "times", "kind"),  # larger than what the download may take
    [
        ("large", 40, "ndjson"),
        ("large", 40, "csv"),
        ("astral", 40, "ndjson"),
        ("quotes", 50, "csv"),
        ("deep", 30, "csv"),
    ],
)
def test_a_download_takes_little_memory(
    server: Instance, api: Api, cookie: str, shape: str, times: int, kind: str
) -> None:
    name = f"many-{shape}"
    if api.call("GET", f"/v0/topics/{name}").status == 404:
        append(api, name, SHAPES[shape], times)
    client = http.client.HTTPConnection("127.0.0.1", server.port, timeout=DEADLINE)
    peak = Peak(server)
    client.request("GET", f"/admin/download/{name}.{kind}", headers={"Cookie": cookie})
    answer, lines = client.getresponse(), 0
    while part := answer.read(MIB):
        lines += part.count(b"\n")
    client.close()
    assert lines == times + (kind == "csv")
    assert peak.grown < MOST_DOWNLOAD


ANOTHER_ADMIN = """
INSERT INTO auth_user (password, is_superuser, username, first_name, last_name, email, is_staff, is_active, date_joined)
SELECT password, is_superuser, 'downloader', '', '', '', is_staff, is_active, date_joined FROM auth_user WHERE username = 'admin'
RETURNING 'user:' || id
"""


def test_a_download_waits_for_its_client_counts_as_a_stream_and_ends_with_it(server: Instance, api: Api) -> None:
    append(api, "waits", SHAPES["large"], 60)
    with server.connect() as database:  # of a user of its own: pages of other tests may open and end meanwhile
        (key,) = database.execute(ANOTHER_ADMIN).fetchone()  # type: ignore[misc]
    answer = log_in(server, (server.data / "admin-password").read_text().strip(), "downloader")
    cookie = re.findall(r"sessionid=[^;,]+", answer.headers["set-cookie"])[0]

    def open_streams() -> int:
        """Streams of the user that are open, as the processes wrote them down."""
        with server.connect() as database:
            counted = "SELECT coalesce(sum(count), 0) FROM topics_streamcount WHERE key_id = %s"
            return int(database.execute(counted, [key]).fetchone()[0])  # type: ignore[index]

    peak = Peak(server)
    with socket.create_connection(("127.0.0.1", server.port)) as client:
        client.sendall(
            f"GET /admin/download/waits.ndjson HTTP/1.1\r\nHost: localhost\r\nCookie: {cookie}\r\n\r\n".encode()
        )
        assert client.recv(15) == b"HTTP/1.1 200 OK"
        until(lambda: open_streams() == 1, "the download to count")
        assert peak.grown < MOST_DOWNLOAD
    until(lambda: open_streams() == 0, "the download to end with its client")


def test_downloads_have_a_cap(instances, tmp_path: Path) -> None:
    server = instances(TOPICS_MAX_STREAMS_PER_KEY="1")
    api = Api(server.port)
    append(api, "t", SHAPES["large"], 40)
    answer = log_in(server, (server.data / "admin-password").read_text().strip())
    own = re.findall(r"sessionid=[^;,]+", answer.headers["set-cookie"])[0]
    with socket.create_connection(("127.0.0.1", server.port)) as client:
        client.sendall(f"GET /admin/download/t.ndjson HTTP/1.1\r\nHost: localhost\r\nCookie: {own}\r\n\r\n".encode())
        assert client.recv(15) == b"HTTP/1.1 200 OK"
        assert ask(server, "GET", "/admin/download/t.csv", Cookie=own).status == 429


@pytest.mark.parametrize("again", [False, True])
def test_a_download_of_a_topic_that_is_deleted_does_not_look_complete(
    server: Instance, api: Api, cookie: str, again: bool
) -> None:
    name = f"deleted-{again}"
    append(api, name, SHAPES["large"], 40)
    client = http.client.HTTPConnection("127.0.0.1", server.port, timeout=DEADLINE)
    client.request("GET", f"/admin/download/{name}.ndjson", headers={"Cookie": cookie})
    download = client.getresponse()
    assert download.read(1000)
    api.done("DELETE", f"/v0/topics/{name}")
    if again:
        append(api, name, "1", 1)
    with pytest.raises((http.client.IncompleteRead, ConnectionError)):
        download.read()
    client.close()


def test_a_download_that_fails_does_not_look_complete(instances) -> None:
    """Its connection ends before the body does."""
    server = instances()
    api = Api(server.port)
    append(api, "t", SHAPES["large"], 40)
    answer = log_in(server, (server.data / "admin-password").read_text().strip())
    own = re.findall(r"sessionid=[^;,]+", answer.headers["set-cookie"])[0]
    client = http.client.HTTPConnection("127.0.0.1", server.port, timeout=DEADLINE)
    client.request("GET", "/admin/download/t.ndjson", headers={"Cookie": own})
    download = client.getresponse()
    assert download.read(1000)
    with server.connect() as database:
        database.execute("ALTER TABLE topics_record RENAME TO topics_elsewhere")
    try:
        with pytest.raises((http.client.IncompleteRead, ConnectionError)):
            download.read()
    finally:
        with server.connect() as database:
            database.execute("ALTER TABLE topics_elsewhere RENAME TO topics_record")
        client.close()

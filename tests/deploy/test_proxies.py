"""deploy/nginx.conf and deploy/Caddyfile before a real instance.

They serve TLS and the admin, pass large uploads, and hold up no stream, long poll or WebSocket.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
import trustme
import urllib3
from websockets.asyncio.client import connect

from base.processes import die_with_parent
from tests.deadlines import DEADLINE
from tests.instances import ROOT, Instance, free_port, start, until

NAME, KEY = "topics.example", "a-secret-of-16-or-more"
# The default limits of an append (docs/settings.md): TOPICS_MAX_BODY_BYTES, TOPICS_MAX_RECORDS_PER_APPEND.
MOST_BYTES, MOST_RECORDS = 64 * 1024 * 1024, 10_000
# What Debian's nginx.conf has around conf.d/topics.conf, with folders and files of our own.
NGINX = """
daemon off; {user}
pid {folder}/nginx.pid; error_log {folder}/error.log;
events {{}}
http {{
    client_body_temp_path {folder}; proxy_temp_path {folder};
    fastcgi_temp_path {folder}; uwsgi_temp_path {folder}; scgi_temp_path {folder};
    access_log {folder}/access.log;
    include {folder}/topics.conf;
}}
"""


@pytest.fixture(scope="module")
def instance() -> Iterator[Instance]:
    settings = {"TOPICS_TLS_PROXY": "1", "ALLOWED_HOSTS": NAME, "TOPICS_API_KEYS": f"{KEY}:read+write+admin"}
    with start(**settings) as instance:
        yield instance


def nginx(folder: Path, instance: Instance, port: int) -> tuple[list[str], dict[str, str]]:
    conf = (ROOT / "deploy" / "nginx.conf").read_text()
    changes = {
        "127.0.0.1:4000": f"127.0.0.1:{instance.port}",
        "listen 80;": f"listen 127.0.0.1:{free_port()};",
        "listen 443 ssl http2;": f"listen 127.0.0.1:{port} ssl http2;",
        "/etc/ssl/topics/": f"{folder}/",
        "/var/log/nginx/": f"{folder}/",
    }
    for printed, ours in changes.items():
        assert printed in conf
        conf = conf.replace(printed, ours)
    (folder / "topics.conf").write_text(re.sub(r" *listen \[::\].*\n", "", conf))
    user = "user root;" if os.geteuid() == 0 else ""
    (folder / "nginx.conf").write_text(NGINX.format(folder=folder, user=user))
    argv = ["nginx", "-e", f"{folder}/error.log", "-c", f"{folder}/nginx.conf"]
    checked = subprocess.run([*argv, "-t"], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr
    return argv, {}


def caddy(folder: Path, instance: Instance, port: int) -> tuple[list[str], dict[str, str]]:
    file = (ROOT / "deploy" / "Caddyfile").read_text()
    files = f"{folder}/fullchain.pem {folder}/privkey.pem"
    changes = {
        "topics.example {\n": f"https://{NAME}:{port} {{\n\tbind 127.0.0.1\n\ttls {files}\n",
        "127.0.0.1:4000": f"127.0.0.1:{instance.port}",
        "{\n\t# Without": "{\n\tadmin off\n\tauto_https disable_redirects\n\t# Without",
        "\tlog {\n": f"\tlog {{\n\t\toutput file {folder}/topics.log\n",
    }
    for printed, ours in changes.items():
        assert printed in file
        file = file.replace(printed, ours)
    (folder / "Caddyfile").write_text(file)
    homes = {"HOME": str(folder), "XDG_DATA_HOME": str(folder), "XDG_CONFIG_HOME": str(folder)}
    argv = ["caddy", "run", "--config", str(folder / "Caddyfile")]
    return argv, homes


PROXIES: dict[str, Callable[[Path, Instance, int], tuple[list[str], dict[str, str]]]] = {"nginx": nginx, "caddy": caddy}


class Front:
    """Requests to the proxy, as if its name led there."""

    def __init__(self, port: int, folder: Path) -> None:
        self.folder = folder
        self.pool = urllib3.HTTPSConnectionPool(
            "127.0.0.1",
            port,
            server_hostname=NAME,
            assert_hostname=NAME,
            ca_certs=str(folder / "ca.pem"),
            timeout=DEADLINE,
        )

    @property
    def logged(self) -> str:
        """Everything that the proxy has logged and printed."""
        return "".join(path.read_text() for path in (*self.folder.glob("*.log"), self.folder / "output"))

    def ask(self, method: str, path: str, body: Any = None, **more: Any) -> urllib3.BaseHTTPResponse:
        headers = {"Host": NAME, **more.pop("headers", {})}
        if "token=" not in path:
            headers["Authorization"] = f"Bearer {KEY}"
        if not (body is None or isinstance(body, str)):
            body, headers = json.dumps(body), {"Content-Type": "application/json", **headers}
        return self.pool.request(method, path, body=body, headers=headers, redirect=False, retries=False, **more)


@pytest.fixture(scope="module", params=PROXIES)
def front(
    request: pytest.FixtureRequest, instance: Instance, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Front]:
    with before(instance, request.param, tmp_path_factory.mktemp(request.param)) as front:
        yield front


@contextmanager
def before(instance: Instance, program: str, folder: Path) -> Iterator[Front]:
    """Runs a proxy before the instance. `folder` gets its files."""
    if shutil.which(program) is None:
        pytest.skip(f"NOT TRIED: there is no {program} here (apt-get install nginx-light caddy)")
    port, ca = free_port(), trustme.CA()
    certificate = ca.issue_cert(NAME)
    ca.cert_pem.write_to_path(folder / "ca.pem")
    certificate.private_key_pem.write_to_path(folder / "privkey.pem")
    for blob in certificate.cert_chain_pems:
        blob.write_to_path(folder / "fullchain.pem", append=True)
    argv, environment = PROXIES[program](folder, instance, port)
    parent = os.getpid()
    with (folder / "output").open("wb") as output:
        process = subprocess.Popen(
            argv,
            env={**os.environ, **environment},
            stdout=output,
            stderr=output,
            preexec_fn=lambda: die_with_parent(parent),
        )

    def listens() -> bool:
        assert process.poll() is None, (folder / "output").read_text()
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    try:
        until(listens, f"{program} to listen")
        front = Front(port, folder)
        yield front
        front.pool.close()
    finally:
        process.terminate()
        process.wait(DEADLINE)


def test_calls_pass(front: Front) -> None:
    made = front.ask("PUT", "/v0/topics/calls", {})
    assert made.status in (200, 201)
    many = [{"data": "x" * 1000} for _ in range(2000)]  # two MB, above what proxies take unless told
    assert front.ask("POST", "/v0/topics/calls", {"records": many}).status == 200
    read = front.ask("POST", "/v0/topics/calls/diff", {"limit": 1}).json()
    assert read["records"][0]["data"] == "x" * 1000


def test_the_largest_append_passes(front: Front) -> None:
    topic = f"large{front.pool.port}"
    front.ask("PUT", f"/v0/topics/{topic}", {})
    size = MOST_BYTES // MOST_RECORDS - len('{"data": ""}, ') - 1  # the body is just below the limit
    body = json.dumps({"records": [{"data": "x" * size}] * MOST_RECORDS})
    assert MOST_BYTES - 64 * 1024 < len(body) <= MOST_BYTES
    sent = front.ask("POST", f"/v0/topics/{topic}", body, headers={"Content-Type": "application/json"})
    assert (sent.status, sent.json()["last_seq"]) == (200, MOST_RECORDS)


def test_a_long_poll_is_answered_when_a_record_arrives(front: Front) -> None:
    topic = f"poll{front.pool.port}"
    front.ask("PUT", f"/v0/topics/{topic}", {})
    path, asked = f"/v0/topics/{topic}/diff", {"from_seq": 0, "wait_ms": 30_000}
    polled: list[Any] = []

    def poll() -> None:
        """Asks again after each wait that ended without a record."""
        while not (records := front.ask("POST", path, asked).json()["records"]):
            pass
        polled.extend(records)

    waiting = threading.Thread(target=poll)
    waiting.start()
    front.ask("POST", f"/v0/topics/{topic}", {"records": [{"data": "came"}]})
    waiting.join(DEADLINE)
    assert [record["data"] for record in polled] == ["came"]


async def published(front: Front, records: dict[str, Any]) -> dict[str, Any]:
    """Returns the answer. The client with threads would read and write on one TLS connection at once, and lose bytes."""
    async with connect(
        f"wss://{NAME}/v0/ws",
        host="127.0.0.1",
        port=front.pool.port,
        ssl=ssl.create_default_context(cafile=str(front.folder / "ca.pem")),
        additional_headers={"Authorization": f"Bearer {KEY}"},
        proxy=None,
        open_timeout=DEADLINE,
    ) as opened:
        await opened.send(json.dumps({"op": "publish", "request_id": 1, **records}))
        return dict(json.loads(await asyncio.wait_for(opened.recv(), DEADLINE)))


def test_a_websocket_publishes_and_gets_its_answer(front: Front) -> None:
    topic = f"socket{front.pool.port}"
    front.ask("PUT", f"/v0/topics/{topic}", {})
    answer = asyncio.run(published(front, {"topic": topic, "records": [{"data": "sent"}]}))
    assert (answer["op"], answer["request_id"], answer["last_seq"]) == ("ack", 1, 1)
    assert front.ask("POST", f"/v0/topics/{topic}/diff", {}).json()["records"][0]["data"] == "sent"


@pytest.mark.parametrize("events", [True, False], ids=["events", "watch"])
def test_a_stream_is_not_held_up(front: Front, events: bool) -> None:
    """Each record is there before the next is sent, in a stream that goes on."""
    topic = f"stream{events}{front.pool.port}"
    front.ask("PUT", f"/v0/topics/{topic}", {})
    url = f"/v0/topics/{topic}/events"
    if not events:
        url = front.ask("POST", "/v0/watch", {"topics": {topic: {"from_seq": 0}}}).json()["stream_url"]
    stream = front.ask("GET", f"{url}?token={KEY}", preload_content=False)
    assert (stream.status, stream.headers["content-type"].partition(";")[0]) == (200, "text/event-stream")
    came = b""

    def read_until(word: str) -> None:
        nonlocal came
        while word.encode() not in came:
            more = stream.read1(65536)
            assert more, "the stream ended"
            came += more

    if events:  # it begins with what comes after it was opened
        read_until("stream-open")
    for number in range(5):
        front.ask("POST", f"/v0/topics/{topic}", {"records": [{"data": f"record-{number}"}]})
        read_until(f"record-{number}")
    stream.close()
    until(lambda: url in front.logged, "the line of the stream")
    assert KEY not in front.logged


@pytest.mark.parametrize("program", PROXIES)
def test_no_log_has_a_key_while_the_server_is_away(program: str, tmp_path: Path) -> None:
    with before(Instance(tmp_path / "data", free_port()), program, tmp_path) as front:
        assert front.ask("GET", f"/v0/topics/orders/events?token={KEY}").status == 502
        until(lambda: "/v0/topics/orders/events" in front.logged, "the line of the request")
        assert KEY not in front.logged


def test_no_log_of_nginx_has_a_key_that_came_without_tls(tmp_path: Path) -> None:
    with before(Instance(tmp_path / "data", free_port()), "nginx", tmp_path) as front:
        port = re.search(r"listen 127\.0\.0\.1:(\d+);", (tmp_path / "topics.conf").read_text())
        assert port
        path = f"/v0/topics/orders/events?token={KEY}"
        with urllib3.HTTPConnectionPool("127.0.0.1", int(port[1])) as plain:
            answer = plain.request("GET", path, headers={"Host": NAME}, redirect=False)
        assert (answer.status, answer.headers["location"]) == (308, f"https://{NAME}{path}")
        until(lambda: "/v0/topics/orders/events" in front.logged, "the line of the request")
        assert KEY not in front.logged


def test_the_admin_opens(front: Front, instance: Instance) -> None:
    page = front.ask("GET", "/admin/login/")
    assert page.headers["strict-transport-security"].startswith("max-age=")
    assert "; Secure" in page.headers["set-cookie"]
    token = re.search(rb'name="csrfmiddlewaretoken" value="([^"]+)"', page.data)
    assert token
    password = (instance.data / "admin-password").read_text().strip()
    form = {"username": "admin", "password": password, "csrfmiddlewaretoken": token[1].decode(), "next": "/admin/"}
    cookie = page.headers["set-cookie"].partition(";")[0]
    headers = {"Cookie": cookie, "Referer": f"https://{NAME}/admin/login/"}
    opened = front.ask(
        "POST",
        "/admin/login/",
        urlencode(form),
        headers={**headers, "Content-Type": "application/x-www-form-urlencoded"},
    )
    assert (opened.status, opened.headers["location"]) == (302, "/admin/")


def test_past_the_proxy_a_plain_request_for_a_page_is_sent_to_tls_and_a_call_is_answered(instance: Instance) -> None:
    """So the proxy has to refuse plain calls (docs/deploy.md)."""
    headers = {"Host": NAME, "Authorization": f"Bearer {KEY}"}
    with urllib3.HTTPConnectionPool("127.0.0.1", instance.port) as plain:
        page, call = (plain.request("GET", path, headers=headers, redirect=False) for path in ("/admin/", "/v0/topics"))
    assert (page.status, page.headers["location"]) == (301, f"https://{NAME}/admin/")
    assert call.status == 200
    assert "strict-transport-security" not in call.headers

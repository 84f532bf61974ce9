"""The console's streams and downloads over HTTP: permissions and content."""

from __future__ import annotations

import asyncio
import csv
import http.client
import io
import json
import sys
from collections.abc import Callable, Iterator
from typing import cast

import pytest
from django.test import Client

from base.errors import Forbidden
from console.live import live
from console.records import download
from http1 import Request, Writer
from tests.admin.pages import put
from tests.deadlines import DEADLINE
from tests.instances import ROOT, Instance
from tests.preloaded import run
from tests.project.signing_in import ask, log_in
from tests.watch.wire import Api, new_name
from wire.streams import StreamCall


@pytest.fixture(scope="module")
def cookie(server: Instance) -> str:
    """Of the admin's session."""
    answer = log_in(server, (server.data / "admin-password").read_text().strip())
    return next(
        part for part in answer.headers["set-cookie"].replace(",", ";").split(";") if "sessionid=" in part
    ).strip()


@pytest.fixture
def api(server: Instance) -> Api:
    return Api(server.port)


@pytest.fixture
def events(server: Instance, cookie: str) -> Iterator[Callable[[str], Iterator[tuple[str, dict]]]]:
    """Opens a stream, and gives its events one by one."""
    opened: list[http.client.HTTPConnection] = []

    def open_stream(path: str) -> Iterator[tuple[str, dict]]:
        client = http.client.HTTPConnection("127.0.0.1", server.port, timeout=DEADLINE)
        opened.append(client)
        client.request("GET", path, headers={"Cookie": cookie})
        answer = client.getresponse()
        assert answer.status == 200, answer.read()
        assert answer.headers["content-type"] == "text/event-stream"

        def read() -> Iterator[tuple[str, dict]]:
            name = ""
            while line := answer.readline().decode():
                if line.startswith("event: "):
                    name = line[7:].strip()
                elif line.startswith("data: "):
                    yield name, json.loads(line[6:])

        return read()

    yield open_stream
    for client in opened:
        client.close()


@pytest.mark.parametrize(
    ("parts", "took", "pause"),
    [(0, 0.0, 2.0), (1, 0.02, 2.0), (10, 0.02, 8.0), (20, 0.5, 20.0)],
)
def test_many_parts_are_rendered_less_often(parts: int, took: float, pause: float) -> None:
    assert live.pause_seconds([took] * parts) == pytest.approx(pause)


@pytest.mark.parametrize("path", ["/admin/stream/overview/3h", "/admin/tail/?topic=a", "/admin/download/a.ndjson"])
def test_a_client_without_a_login_gets_nothing(server: Instance, path: str) -> None:
    for headers in ({}, {"Cookie": "sessionid=none"}):
        answer = ask(server, "GET", path, **headers)
        assert answer.status == 401
        assert json.loads(answer.body)["error"]["code"] == "unauthorized"


def test_a_user_without_permission_gets_nothing(server: Instance) -> None:
    made = run([sys.executable, "manage.py", "shell", "-c", MAKE_CLERK], server.environment, ROOT)
    clerk = f"sessionid={made.stdout.split()[-1]}"
    for path in ("/admin/stream/overview/3h", "/admin/tail/?topic=a", "/admin/download/a.csv"):
        assert ask(server, "GET", path, Cookie=clerk).status == 403


MAKE_CLERK = """
from django.contrib.auth import get_user_model
from django.test import Client
client = Client()
client.force_login(get_user_model().objects.create_user("clerk-of-streams", is_staff=True))
print(client.cookies["sessionid"].value)
"""


def test_what_is_no_stream_is_refused(server: Instance, cookie: str) -> None:
    for path, status in (
        ("/admin/stream/none/x", 404),
        ("/admin/tail/", 400),
        ("/admin/tail/?topic=not-there-at-all", 404),
        ("/admin/tail/?topic=no%20name", 400),
        ("/admin/tail/?topic=a&tag=%ff", 400),
        ("/admin/download/a.csv?tag=%ff", 400),
        ("/admin/download/x", 404),
        ("/admin/download/not-there-at-all.csv", 404),
    ):
        assert ask(server, "GET", path, Cookie=cookie).status == status, path
    assert ask(server, "POST", "/admin/stream/overview/3h", Cookie=cookie).status == 405


def test_a_part_comes_at_once_and_again_when_it_changes(api: Api, events) -> None:
    name = new_name()
    api.append(name, 1)
    stream = events(f"/admin/stream/topic/3h%2F{name}")
    kind, told = next(stream)
    assert kind == "part"
    assert "<dt>Head</dt><dd>1</dd>" in told["body"]
    api.append(name, 2, 3)
    assert any("<dt>Head</dt><dd>3</dd>" in told.get("body", "") for _, told in stream)


def test_the_live_page_shows_what_comes_and_not_what_was(api: Api, events) -> None:
    one, other = new_name(), new_name()
    for name in (one, other):
        api.append(name, "before")
    stream = events(f"/admin/tail/?topic={one}&topic={other}&node=me&tag=t*")
    seen = [next(stream)[0], next(stream)[0]]
    assert seen == ["caught-up", "caught-up"]
    api.done(
        "POST", f"/v0/topics/{one}", {"records": [{"data": 1, "tag": "x"}, {"data": 2, "tag": "t1", "node": "me"}]}
    )
    api.done("POST", f"/v0/topics/{other}", {"records": [{"data": "<b>", "tag": "t2", "node": "you"}]})
    told = next(told for kind, told in stream if kind == "record" and told["records"])
    assert told["topic"] == other
    assert [(each["data"], each["$tag"], each["$node"]) for each in told["records"]] == [("<b>", "t2", "you")]
    kinds = [next(stream)[0] for _ in range(3)]
    assert "drawn" in kinds, "the page knows up to which time it is whole"


def test_a_download_is_what_the_browser_shows(server: Instance, api: Api, cookie: str) -> None:
    name = new_name()
    records = [{"data": {"n": n, "f": 1.5}, "tag": "a" if n % 2 else "=1+1", "meta": {"m": n}} for n in range(1200)]
    api.done("POST", f"/v0/topics/{name}", {"records": records})
    answer = ask(server, "GET", f"/admin/download/{name}.ndjson", Cookie=cookie)
    assert answer.headers["content-disposition"] == f'attachment; filename="{name}.ndjson"'
    lines = [json.loads(line) for line in answer.body.splitlines()]
    assert [line["$seq"] for line in lines] == list(range(1200, 0, -1))
    assert [line["data"]["n"] for line in lines] == list(range(1199, -1, -1))
    tagged = ask(server, "GET", f"/admin/download/{name}.ndjson?tag=a&upto=100", Cookie=cookie)
    assert [json.loads(line)["$seq"] for line in tagged.body.splitlines()] == list(range(100, 0, -2))
    beyond = ask(server, "GET", f"/admin/download/{name}.ndjson?from=1199&upto=999999999999999999", Cookie=cookie)
    assert [json.loads(line)["$seq"] for line in beyond.body.splitlines()] == [1200, 1199]
    table = list(csv.DictReader(io.StringIO(ask(server, "GET", f"/admin/download/{name}.csv", Cookie=cookie).body)))
    assert len(table) == 1200
    assert table[1]["tag"] == "'=1+1"  # a spreadsheet would compute it
    assert json.loads(table[0]["data"]) == {"n": 1199, "f": 1.5}


def test_no_cell_of_a_download_is_a_formula(server: Instance, api: Api, cookie: str) -> None:
    name, tags = new_name(), ["=1", "+1", "-1", "@a", "\t=1", "\r=1", "\n=1", "＝1", "＋1", "－1", "＠a"]
    api.done("POST", f"/v0/topics/{name}", {"records": [{"data": tag, "tag": tag} for tag in tags]})
    body = ask(server, "GET", f"/admin/download/{name}.csv", Cookie=cookie).body
    assert [row["tag"] for row in csv.DictReader(io.StringIO(body, newline=""))] == [f"'{tag}" for tag in tags[::-1]]


def test_a_download_that_no_record_can_be_in_is_refused_before_it_begins(
    server: Instance, api: Api, cookie: str
) -> None:
    name = new_name()
    api.append(name, 1)
    for query in ("tag=%00", "node=%00", "node=" + "x" * 129, "tag=" + "x" * 257):
        answer = ask(server, "GET", f"/admin/download/{name}.ndjson?{query}", Cookie=cookie)
        assert (answer.status, json.loads(answer.body)["error"]["code"]) == (400, "invalid_request"), query


def test_a_setting_forbids_downloads(browser: Client, settings) -> None:
    put("a", "1")
    assert "NDJSON" in browser.get("/admin/topic/a/records/").content.decode()
    settings.TOPICS_CONSOLE_DOWNLOADS = False
    assert "NDJSON" not in browser.get("/admin/topic/a/records/").content.decode()
    call = StreamCall(cast("Request", None), "/admin/download/a.csv", b"", {}, cast("Writer", None))
    with pytest.raises(Forbidden, match="switched off"):
        asyncio.run(download.stream(call))
